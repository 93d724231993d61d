"""Text in, text out: a program, its vocabulary and its spec as one thing that translates."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypedDict, Unpack, overload

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from specs import BOS, EOS, Spec, ZooError
from zoo.data.vocabulary import Vocabulary
from zoo.decoding.beam_search import search
from zoo.decoding.groups import groups, padded
from zoo.decoding.request import Request, budget
from zoo.decoding.sentences import pairs, sentences, shown
from zoo.decoding.steps import Steps
from zoo.decoding.translation import ForcedScore, Translation
from zoo.report import Report

NOTHING = Translation("", 0.0, 0.0, ())


class Scoring(Steps[Any], Protocol):
    """A program that can also be asked for the probability of a given translation."""

    def score(
        self, source: Int[Tensor, "rows source"], target: Int[Tensor, "rows 1+target"], /
    ) -> Float32[Tensor, "rows target"]:
        """Log-probability of target[:, 1:], 0 at padding; a target is BOS ... EOS PAD*."""


class Choice(TypedDict, total=False):
    """What a caller may choose and the spec decides otherwise; `tokens` is the budget of one batch."""

    beam: int | None
    alpha: float | None
    tokens: int | None


class Translator:
    """Translates raw text, and scores given translations.

    `longest_source` is the longest source of its training, in pieces: longer ones are translated whole, with
    a warning to `report`. Sentences are sorted by length into batches; results come in the order of the
    texts. A text that is empty or white space becomes "" without the model. `tokens` is the budget of one batch
    where a call does not name another.
    """

    def __init__(
        self,
        program: Scoring,
        vocabulary: Vocabulary,
        spec: Spec,
        *,
        longest_source: int | None = None,
        report: Report | None = None,
        device: torch.device | str = "cpu",
        tokens: int | None = None,
    ) -> None:
        self.program, self.vocabulary, self.spec = program, vocabulary, spec
        self.longest_source = longest_source
        self.report = report or Report()
        self.device = torch.device(device)
        self.tokens = budget(tokens)

    # A str is an iterable of str as well, so mypy has to be told that it comes first.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: None = None, **choice: Unpack[Choice]
    ) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: int, **choice: Unpack[Choice]
    ) -> list[str]: ...
    @overload
    def translate(self, texts: Iterable[str], *, n_best: None = None, **choice: Unpack[Choice]) -> list[str]: ...
    @overload
    def translate(self, texts: Iterable[str], *, n_best: int, **choice: Unpack[Choice]) -> list[list[str]]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        n_best: int | None = None,
        tokens: int | None = None,
    ) -> str | list[str] | list[list[str]]:
        """The best translation of a text, or of each of a list; with `n_best` a list of the best, best first.

        beam and alpha are the spec's where they are not given; `tokens` is the budget of one batch (source
        tokens, padding counted). Raises ZooError for values out of range and texts that are not one line,
        TypeError for what is not text.
        """
        several = [texts] if isinstance(texts, str) else texts
        found = self.hypotheses(several, beam=beam, alpha=alpha, n_best=n_best, tokens=tokens)
        if n_best is None:
            best = [translations[0].text for translations in found]
            return best[0] if isinstance(texts, str) else best
        lists = [[translation.text for translation in translations] for translations in found]
        return lists[0] if isinstance(texts, str) else lists

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        report: Report | None = None,
        **choice: Unpack[Choice],
    ) -> list[list[Translation]]:
        """The `n_best` best translations of each text, with their scores; progress goes to `report`."""
        request = Request.of(self.spec, n_best=n_best, **self._completed(choice))
        several = sentences(texts)
        sources = self._sources(several)
        self._warn_of_long(sources, several)
        found = [[NOTHING] for _ in sources]
        wanted = [index for index, source in enumerate(sources) if len(source) > 1]
        with (report or Report()).progress("translate", len(sources), "sentences") as progress:
            progress.advance(len(sources) - len(wanted))
            for group in groups([len(sources[index]) for index in wanted], request.tokens):
                chosen = [wanted[place] for place in group]
                translations = self._search([sources[index] for index in chosen], request)
                for index, translation in zip(chosen, translations, strict=True):
                    found[index] = translation
                progress.advance(len(chosen))
        return found

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, tokens: int | None = None
    ) -> float: ...
    @overload
    def score(self, sources: Iterable[str], targets: Iterable[str], *, tokens: int | None = None) -> list[float]: ...
    def score(
        self, sources: str | Iterable[str], targets: str | Iterable[str], *, tokens: int | None = None
    ) -> float | list[float]:
        """The natural log-probability of each target as the translation of its source, EOS counted.

        Raises ZooError where there are not as many targets as sources.
        """
        if isinstance(sources, str) and isinstance(targets, str):
            return self.forced([sources], [targets], tokens=tokens)[0].log_probability
        if isinstance(sources, str) or isinstance(targets, str):
            raise TypeError("give one text and one text, or a list and a list")
        return [forced.log_probability for forced in self.forced(sources, targets, tokens=tokens)]

    @torch.no_grad()
    def forced(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        tokens: int | None = None,
        report: Report | None = None,
    ) -> list[ForcedScore]:
        """`score` piece by piece; progress goes to `report`."""
        left, right = pairs(sources, targets)
        source = self._sources(left)
        target = [[BOS, *self.vocabulary.encode(text, "target"), EOS] for text in right]
        self._check_positions(target, right, "target")
        lengths = [max(len(ids), len(given)) for ids, given in zip(source, target, strict=True)]
        found = [ForcedScore(())] * len(left)
        with (report or Report()).progress("score", len(left), "sentences") as progress:
            for group in groups(lengths, self.tokens if tokens is None else budget(tokens)):
                given = padded([target[index] for index in group], self.device)
                scores = self.program.score(padded([source[index] for index in group], self.device), given)
                for index, row in zip(group, scores.tolist(), strict=True):
                    found[index] = ForcedScore(tuple(row[: len(target[index]) - 1]))
                progress.advance(len(group))
        return found

    def _sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text and EOS; of white space only EOS."""
        sources = [[*(self.vocabulary.encode(text, "source") if text.strip() else ()), EOS] for text in texts]
        self._check_positions(sources, texts, "source")
        return sources

    def _search(self, sources: Sequence[Sequence[int]], request: Request) -> list[list[Translation]]:
        found = search(
            self.program,
            padded(sources, self.device),
            [self._limit(len(source) - 1) for source in sources],
            beam=request.beam,
            alpha=request.alpha,
            n_best=request.n_best,
        )
        return [
            [
                Translation(
                    self.vocabulary.decode(list(hypothesis.pieces), "target"),
                    hypothesis.score,
                    hypothesis.log_probability,
                    hypothesis.pieces,
                )
                for hypothesis in hypotheses
            ]
            for hypotheses in found
        ]

    def _completed(self, choice: Choice) -> Choice:
        """With the translator's own budget where the call names none."""
        tokens = choice.get("tokens")
        return {**choice, "tokens": self.tokens if tokens is None else tokens}

    @property
    def _positions(self) -> int | None:
        """The rows of a learned table; sinusoids know no bound."""
        architecture = self.spec.architecture
        return architecture.max_positions if architecture.positional_encoding == "learned" else None

    def _limit(self, source: int) -> int:
        """Pieces of a translation at most, EOS not counted: the source's and 50 (paper, section 6.1)."""
        limit = source + self.spec.decoding.extra_length
        # BOS takes the first position; EOS is produced, but never read.
        return limit if self._positions is None else min(limit, self._positions - 1)

    def _check_positions(self, rows: Sequence[Sequence[int]], texts: Sequence[str], side: str) -> None:
        # EOS of a target is not read.
        lengths = [len(row) - (side == "target") for row in rows]
        for length, text in zip(lengths, texts, strict=True):
            if self._positions is not None and length > self._positions:
                raise ZooError(
                    f"the {side} {shown(text)} takes {length:,} positions, and the model has learned "
                    f"{self._positions:,} (`architecture.max_positions`)",
                    hint="split the line into sentences, or train with `positional_encoding: sinusoidal`",
                )

    def _warn_of_long(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> None:
        lengths = [len(source) - 1 for source in sources]
        known = self.longest_source
        if known is None or max(lengths, default=0) <= known:
            return
        longest = max(range(len(texts)), key=lambda index: lengths[index])
        self.report.warn(
            f"longer than any source in training ({known:,} pieces): {sum(n > known for n in lengths):,} of "
            f"{len(texts):,}, at most {lengths[longest]:,} pieces, {shown(texts[longest])}; translated whole, "
            "but perhaps not well"
        )
