"""Text in, text out: a program, its vocabulary and its spec as one thing that translates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack, overload

import torch

from compiler.program import Translating
from specs import Spec, ZooError
from zoo.generation.attending import Attending
from zoo.generation.attention import Attention
from zoo.generation.constraint import Constraint
from zoo.generation.dispatch import dispatched
from zoo.generation.ensemble import Ensemble, check_together
from zoo.generation.groups import SHORTEST
from zoo.generation.hypothesis import Hypothesis
from zoo.generation.intake import Intake, Pair
from zoo.generation.lengths import Split
from zoo.generation.request import Choice, Request, budget
from zoo.generation.scoring import forced
from zoo.generation.translation import NOTHING, ForcedScore, Translation, joined
from zoo.planning.capacity import max_sentences
from zoo.report import Report
from zoo.text.sentences import pairs, sentences, with_prefixes
from zoo.text.vocabulary import Vocabulary

Prefixes = Iterable[str] | None


class Translator:
    """Translates raw text, and scores given translations.

    `longest_source` is the longest source of its training, in tokens: longer ones are translated whole, with
    a warning to `report`. Sentences are sorted by length into batches; results come in the order of the
    texts. A text that is empty or white space becomes "" without the model. `tokens` is the budget of one batch
    where a call does not name another. A pickle of one that was opened from a folder opens it again; a forked child of
    the process has it, too, and there torch computes on one thread.
    """

    verb = "translate"
    """What it does with a text, for those who see how far it is."""

    def __init__(
        self,
        program: Translating,
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
        architecture = spec.architecture
        self.positions = architecture.max_positions if architecture.positional_encoding == "learned" else None
        """The rows of a learned table; sinusoids know no bound."""
        self.opened: tuple[Callable[..., Translator], tuple[Any, ...]] | None = None
        """What opens the same one again, and from what; None where it was made by hand."""
        self.backend = ""
        """The one that made its program; empty where it was made by hand."""
        self.attending: Attending | None = None
        """What shows its attention; None where it was made by hand."""
        self.constraint: Constraint | None = None
        """What bounds all that it produces."""

    def __reduce__(self) -> tuple[Callable[..., Translator], tuple[Any, ...]]:
        """A pickle says what it was opened from, and holds no weights: they are read again where it is unpickled.

        Raises ZooError where it was opened from nothing: it was made of a program.
        """
        if self.opened is None:
            raise ZooError(
                "this translator was made of a program, and not opened from a folder: there is no pickle of it",
                hint="`zoo.load(NAME)` gives one that can be pickled",
            )
        return self.opened

    @classmethod
    def ensemble(cls, translators: Sequence[Translator]) -> Self:
        """One that takes the mean of their models' probabilities; all else, its spec too, is of the first.

        Raises ZooError for none, and for such as do not belong together: other vocabularies, other devices.
        """
        check_together(translators)
        first = translators[0]
        known = [each.longest_source for each in translators if each.longest_source is not None]
        program = Ensemble([each.program for each in translators])
        made = cls(program, first.vocabulary, first.spec, report=first.report, device=first.device, tokens=first.tokens)
        made.longest_source, made.constraint = min(known, default=None), first.constraint
        if all(each.opened for each in translators):
            made.opened = (cls.ensemble, (list(translators),))
        made.positions = min((each.positions for each in translators if each.positions is not None), default=None)
        return made

    # A str is an iterable of str as well, so mypy has to be told that it comes first.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: None = None, prefixes: str | None = None, **choice: Unpack[Choice]
    ) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: int, prefixes: str | None = None, **choice: Unpack[Choice]
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, n_best: None = None, prefixes: Prefixes = None, **choice: Unpack[Choice]
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, n_best: int, prefixes: Prefixes = None, **choice: Unpack[Choice]
    ) -> list[list[str]]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: str | Iterable[str] | None = None,
        **choice: Unpack[Choice],
    ) -> str | list[str] | list[list[str]]:
        """The best translation of a text, or of each of a list; with `n_best` a list of the best, best first.

        A translation starts with its text's prefix, if there are `prefixes`: one for a text, a list for a list. What
        may be chosen stands in `Choice`; of samples, `n_best` are drawn, in no order. The best differ in their tokens,
        and two of them may be the same text. Raises ZooError for values out of range, for texts that are not one line
        or are too long, and for prefixes with what the model cannot write; TypeError for what is not text.
        """
        one = isinstance(texts, str)
        if prefixes is not None and one != isinstance(prefixes, str):
            raise TypeError("give one text and one prefix, or a list and a list")
        several = [texts] if isinstance(texts, str) else texts
        begun = [prefixes] if isinstance(prefixes, str) else prefixes
        found = self.hypotheses(several, n_best=n_best, prefixes=begun, **choice)
        lists = [[translation.text for translation in translations] for translations in found]
        if n_best is not None:
            return lists[0] if one else lists
        return lists[0][0] if one else [first for first, *_ in lists]

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: Prefixes = None,
        report: Report | None = None,
        **choice: Unpack[Choice],
    ) -> list[list[Translation]]:
        """The `n_best` best translations of each text, with their scores; progress goes to `report`."""
        request = self.request(n_best, choice)
        several = list(with_prefixes(texts, prefixes))
        sentences(text for text, _ in several)  # an error is told before the work
        found, intake = [[NOTHING]] * len(several), self.intake()
        with intake.lengths, (report or Report()).progress(self.verb, len(several), "sentences") as progress:
            for index, translations in self.found([several], request, intake, most=len(several)):
                found[index] = translations
                progress.advance()
        return found

    def request(self, n_best: int | None, choice: Choice) -> Request:
        """How translations are wanted, with what the choice leaves open. Raises ZooError for values out of range.

        Where hypotheses are many, fewer sentences go together than the choice would allow.
        """
        tokens = choice.get("tokens")
        request = Request.of(self.spec, {**choice, "tokens": self.tokens if tokens is None else tokens}, n_best)
        rows = request.beam if request.search == "beam" else request.n_best
        most = SHORTEST * max_sentences(self.spec, rows, self.device)
        return replace(request, tokens=min(request.tokens, most), constraint=self.constraint)

    def found(
        self,
        windows: Iterable[Sequence[Pair]],
        request: Request,
        intake: Intake,
        *,
        first: int = 0,
        most: int | None = None,
    ) -> Iterator[tuple[int, list[Translation]]]:
        """The translations of each text with its index, as soon as they are there; `first` is the index of the first.

        A window is read where sentences run out. `most` is how many texts there are, if that is known. An error in
        reading is raised when all that was read before is translated.
        """
        read = intake.windows(windows, first)
        for index, hypotheses in dispatched(self.program, read, request, device=self.device, most=most):
            yield from self._aside(intake, request)
            yield index, self._translations(intake, index, hypotheses)
        yield from self._aside(intake, request)
        if intake.failure:
            raise intake.failure

    def intake(self) -> Intake:
        """What reads texts for `found`, and counts the long ones of them."""
        return Intake(self.vocabulary, self.spec, self.positions, self.longest_source, self.report)

    def _aside(self, intake: Intake, request: Request) -> Iterator[tuple[int, list[Translation]]]:
        """What was read and is not searched for as it is."""
        while intake.nothing:
            yield intake.nothing.popleft(), [NOTHING]
        while intake.split:
            split = intake.split.popleft()
            yield split.index, self._in_parts(split, request)

    def _in_parts(self, split: Split, request: Request) -> list[Translation]:
        """The best of all parts as one translation, then the second best of all, and so on."""
        pairs = [(part, "" if number else split.prefix) for number, part in enumerate(split.parts)]
        intake = self.intake()
        intake.most, intake.of = len(split.tokens), split.index  # a part is not split again
        found = dict(self.found([pairs], request, intake, most=len(pairs)))
        return [joined(parts) for parts in zip(*(found[index] for index in sorted(found)), strict=False)]

    def _translations(self, intake: Intake, index: int, found: Sequence[Hypothesis]) -> list[Translation]:
        """What was found for a text that `intake` has read, as text."""
        return [
            Translation(self.vocabulary.decode(each.tokens, "target"), each.score, each.log_probability, each.tokens)
            for each in found
        ]

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

        Raises ZooError where there are not as many targets as sources, and for an empty source where the model reads
        no EOS.
        """
        if isinstance(sources, str) and isinstance(targets, str):
            return self.forced([sources], [targets], tokens=tokens)[0].log_probability
        if isinstance(sources, str) or isinstance(targets, str):
            raise TypeError("give one text and one text, or a list and a list")
        return [forced.log_probability for forced in self.forced(sources, targets, tokens=tokens)]

    def forced(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        tokens: int | None = None,
        report: Report | None = None,
        first: int = 1,
    ) -> list[ForcedScore]:
        """`score` token by token; progress goes to `report`. Errors call the first pair by the number `first`."""
        left, right = self.given(sources, targets, first=first)
        intake = self.intake()
        source, target = intake.rows(left, "source", first=first), intake.rows(right, "target")
        tokens = self.tokens if tokens is None else budget(tokens)
        with (report or Report()).progress("score", len(left), "sentences") as progress:
            return forced(
                self.program, source, target, tokens=tokens, device=self.device, progress=progress, first=first
            )

    def given(self, sources: Iterable[str], targets: Iterable[str], *, first: int = 1) -> tuple[list[str], list[str]]:
        """Sources and given translations of them, as they are scored.

        Raises ZooError where there are not as many of both, or where they are not one line.
        """
        return pairs(sources, targets, first=first)

    def attention(self, source: str, target: str | None = None) -> Attention:
        """What every head of every layer looks at while it reads the source and writes a translation of it.

        That is the target, a tree of a parser, or by default the model's own. Raises ZooError for a text without a
        word, for one that is too long to be translated whole, and where this translator is none of one opened model.
        """
        if self.attending is None:
            raise ZooError(
                "attention is of one model that was opened: this translator is an ensemble, or made of a program",
                hint="open one model: `zoo.load(NAME)`",
            )
        return self.attending.over(self, source, target)
