"""Translators, which combine a program, a vocabulary and a spec to translate texts and to score translations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Self, Unpack, overload

import torch

from compiler import EmittedProgram, Program
from compiler.program import TranslationModel
from specs import Spec, ZooError
from zoo.generation.attention import Attention, compute_attention
from zoo.generation.batching import MIN_ROW_TOKENS
from zoo.generation.config import (
    GenerationConfig,
    GenerationOptions,
    LanguageOptions,
    TranslationOptions,
    check_max_batch_tokens,
)
from zoo.generation.constraints import Constraint
from zoo.generation.engine import resolve_workers, search
from zoo.generation.ensemble import Ensemble
from zoo.generation.hypotheses import Hypothesis
from zoo.generation.preprocessing import Preprocessor, SplitText, TextWithPrefix
from zoo.generation.scoring import TokenScores, score_targets
from zoo.generation.translation import EMPTY_TRANSLATION, Translation, join_parts
from zoo.planning.capacity import max_sentences
from zoo.report import Report
from zoo.text.languages import LanguagePair, choose_direction
from zoo.text.lines import clean
from zoo.text.sentences import check_text, checked_pairs, checked_texts, zip_prefixes
from zoo.text.vocabulary import Vocabulary

Prefixes = Iterable[str] | None

_LARGE_BEAM = 100
"""If there are more hypotheses per sentence, a message says how much longer the search takes."""


class Translator:
    """Translator of raw text. It can also score given translations.

    Sentences are sorted by length into batches, but results are in the order of the texts. The translation of an empty
    text is "". A model that was trained on single sentences translates each sentence of a text separately. A translator
    that was opened from a folder can be pickled, and unpickling opens the folder again. A forked child process can use
    its parent's translator, but torch then computes on one thread.

    Attributes:
        longest_source: Number of tokens of the longest source in training. Longer sentences cause a warning.
        max_batch_tokens: Maximum number of source tokens in a batch, unless a call specifies another.
        positions: Number of learned position embeddings, which limits the length of texts. None: no limit.
        backend: Name of the backend that built the program. Empty if the translator was created from a program.
        reopen: Function that opens the same translator again. None if it was created from a program.
        attention_program: Function that returns the program that computes attention weights. The program is built on
            the first call. None for an ensemble, or if the translator was created from a program.
        constraint: Constraint on all outputs, if any.
    """

    verb = "translate"
    """The verb that progress bars show."""

    def __init__(
        self,
        program: TranslationModel,
        vocabulary: Vocabulary,
        spec: Spec,
        *,
        longest_source: int | None = None,
        report: Report | None = None,
        device: torch.device | str = "cpu",
        max_batch_tokens: int | None = None,
    ) -> None:
        """Create a translator from a program. To open a model by name, use `zoo.load` instead.

        Args:
            program: A program, or an ensemble of programs.
            vocabulary: The vocabularies of source and target.
            spec: The model's spec.
            longest_source: Number of tokens of the longest source in training, if known.
            report: Receives warnings.
            device: Device of the program.
            max_batch_tokens: Maximum number of source tokens in a batch, with EOS and padding. None for the default.
        """
        self.program, self.vocabulary, self.spec = program, vocabulary, spec
        self.longest_source = longest_source
        self.report = report or Report()
        self.device = torch.device(device)
        self.max_batch_tokens = check_max_batch_tokens(max_batch_tokens)
        architecture = spec.architecture
        self.positions = architecture.max_positions
        self.reopen: Callable[[], Translator] | None = None
        self.backend = ""
        self.attention_program: Callable[[], Program] | None = None
        self.constraint: Constraint | None = None

    def __reduce__(self) -> tuple[Callable[[], Translator], tuple[()]]:
        if self.reopen is None:
            raise ZooError(
                "this translator was created from a program, so it cannot be pickled",
                hint="open the model with `zoo.load(NAME)`",
            )
        return self.reopen, ()

    @classmethod
    def ensemble(cls, translators: Sequence[Translator]) -> Self:
        """Return a translator that averages the probabilities of several models.

        The spec, the vocabulary and the default settings are taken from the first translator.

        Raises:
            ZooError: There is no translator, or the translators have different vocabularies or devices.
        """
        _check_compatible(translators)
        first = translators[0]
        ensemble = cls(
            Ensemble([translator.program for translator in translators]),
            first.vocabulary,
            first.spec,
            report=first.report,
            device=first.device,
            max_batch_tokens=first.max_batch_tokens,
        )
        lengths = [each.longest_source for each in translators if each.longest_source is not None]
        ensemble.longest_source, ensemble.constraint = min(lengths, default=None), first.constraint
        if all(translator.reopen for translator in translators):
            ensemble.reopen = partial(cls.ensemble, list(translators))
        ensemble.positions = min((each.positions for each in translators if each.positions is not None), default=None)
        return ensemble

    # mypy checks overloads in order, and str is also an Iterable[str]: str has to come first.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        n_best: None = None,
        prefixes: str | None = None,
        **options: Unpack[TranslationOptions],
    ) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        n_best: int,
        prefixes: str | None = None,
        **options: Unpack[TranslationOptions],
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        *,
        n_best: None = None,
        prefixes: Prefixes = None,
        **options: Unpack[TranslationOptions],
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        *,
        n_best: int,
        prefixes: Prefixes = None,
        **options: Unpack[TranslationOptions],
    ) -> list[list[str]]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: str | Iterable[str] | None = None,
        **options: Unpack[TranslationOptions],
    ) -> str | list[str] | list[list[str]]:
        """Translate one or more texts.

        Args:
            texts: One text, or an iterable of texts, each of one line.
            n_best: Number of translations per text. Beam search returns the best ones, best first. They differ in their
                tokens, but two of them may have the same text. Sampling returns samples in random order.
            prefixes: The prefix that each translation must start with: a string for one text, a list for several.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`). Defaults
                come from the spec.

        Returns:
            For one text, the best translation, or a list if `n_best` is given. For several, a list of such results.

        Raises:
            ZooError: An option is out of range, a text is too long or not one line, the model cannot generate a prefix,
                or a language is missing or unknown.
            TypeError: A text is not a string, or one text has several prefixes.
        """
        single = isinstance(texts, str)
        if prefixes is not None and single != isinstance(prefixes, str):
            raise TypeError("give one text and one prefix, or a list of texts and a list of prefixes")
        text_list = [texts] if isinstance(texts, str) else texts
        prefix_list = [prefixes] if isinstance(prefixes, str) else prefixes
        hypotheses = self.hypotheses(text_list, n_best=n_best, prefixes=prefix_list, **options)
        lists = [[translation.text for translation in translations] for translations in hypotheses]
        if n_best is not None:
            return lists[0] if single else lists
        return lists[0][0] if single else [best for best, *_ in lists]

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: Prefixes = None,
        report: Report | None = None,
        **options: Unpack[TranslationOptions],
    ) -> list[list[Translation]]:
        """Return the translations of each text with their scores. Progress goes to `report`.

        If a text was split, its score and its log-probability are sums over its parts.

        Raises:
            TypeError: `texts` is one string instead of several.
        """
        if isinstance(texts, str):
            raise TypeError("`texts` is one string: pass a list of strings")
        source, target, split = options.pop("source", None), options.pop("target", None), options.pop("split", True)
        config = self.config(n_best, options)
        text_pairs = list(zip_prefixes(texts, prefixes))
        checked_texts(text for text, _ in text_pairs)  # report an invalid text before the work starts
        preprocessor = self.preprocessor(source, target, split=split)
        results = [[EMPTY_TRANSLATION]] * len(text_pairs)
        progress_bar = (report or Report()).progress(self.verb, len(text_pairs), "sentences")
        with preprocessor.warnings, progress_bar as progress:
            sentences = sum(preprocessor.count_parts(*pair) for pair in text_pairs)
            for index, translations in self.translate_chunks([text_pairs], config, preprocessor, max_workers=sentences):
                results[index] = translations
                progress.advance()
        return results

    def config(self, n_best: int | None, options: GenerationOptions) -> GenerationConfig:
        """Return the options, completed from the spec. If there are many hypotheses, the batch size is reduced.

        Raises:
            ZooError: A value is out of range.
        """
        given = options.get("max_batch_tokens")
        complete: GenerationOptions = {**options, "max_batch_tokens": self.max_batch_tokens if given is None else given}
        config = GenerationConfig.from_spec(self.spec, complete, n_best)
        rows = config.beam if config.search == "beam" else config.n_best
        if rows > _LARGE_BEAM:
            kind = "beam size" if config.search == "beam" else "number of samples"
            factor = f"{rows / self.spec.decoding.beam:,.0f} times as long as a beam of {self.spec.decoding.beam}"
            self.report.info(f"with a {kind} of {rows:,}, this takes about {factor}")
        limit = MIN_ROW_TOKENS * max_sentences(self.spec, rows, self.device)
        return config.model_copy(update={"max_batch_tokens": min(config.max_batch_tokens, limit)})

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[TextWithPrefix]],
        config: GenerationConfig,
        preprocessor: Preprocessor,
        *,
        first: int = 0,
        max_workers: int | None = None,
    ) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the index and the translations of each text, as soon as they are known.

        A chunk is read when the search needs more sentences. If reading fails, all texts before the error are
        translated before the error is raised.

        Args:
            chunks: Texts with their prefixes.
            config: Options of the search.
            preprocessor: The preprocessor that encodes the texts.
            first: Index of the first text.
            max_workers: Maximum number of worker threads, such as the number of sentences. None: no maximum.
        """
        workers = resolve_workers(self.program, config.workers)
        if max_workers is not None:
            workers = max(1, min(workers, max_workers))
        sources = preprocessor.read_chunks(chunks, first)
        strategy = config.strategy(self.constraint)
        results = search(self.program, sources, strategy, config.max_batch_tokens, workers, self.device)
        parts: dict[int, dict[int, list[Translation]]] = {}  # results of texts that are only partly translated
        for source, hypotheses in results:
            yield from self._empty(preprocessor)
            translations = self._to_translations(preprocessor, source.index, hypotheses)
            if split := preprocessor.split_texts.get(source.index):
                done = parts.setdefault(source.index, {})
                done[source.part] = translations
                if len(done) < len(split.parts):
                    continue
                ranks = zip(*(done[part] for part in range(len(done))), strict=False)
                translations = [join_parts(same_rank, split.gaps) for same_rank in ranks]
                del parts[source.index], preprocessor.split_texts[source.index]
            yield source.index, translations
        yield from self._empty(preprocessor)
        if preprocessor.error:
            raise preprocessor.error

    def preprocessor(
        self, source: str | None = None, target: str | None = None, *, split: bool = False
    ) -> Preprocessor:
        """Return a new preprocessor for the texts of `translate_chunks`.

        Args:
            source: Code of the language of the texts (see `translate`).
            target: Code of the language to translate into.
            split: Whether to split texts into sentences if the model was trained on single sentences.

        Raises:
            ZooError: A language is missing or unknown.
        """
        direction = choose_direction(self.spec, source, target, self.report)
        languages = LanguagePair.of(self.spec, self.vocabulary, direction)
        arguments = (self.vocabulary, self.spec, self.positions, self.longest_source, self.report, languages)
        return Preprocessor(*arguments, split=split)

    def _empty(self, preprocessor: Preprocessor) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the translations of empty texts, which need no search."""
        while preprocessor.empty_texts:
            yield preprocessor.empty_texts.popleft(), [EMPTY_TRANSLATION]

    def _to_translations(
        self, preprocessor: Preprocessor, index: int, hypotheses: Sequence[Hypothesis]
    ) -> list[Translation]:
        """Return the hypotheses of a text as translations. `preprocessor` has read the text, which has this index."""
        start = len(preprocessor.languages.target_tokens)
        return [
            Translation(self.vocabulary.decode(each.tokens[start:]), each.score, each.log_probability, each.tokens)
            for each in hypotheses
        ]

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, max_batch_tokens: int | None = None, **languages: Unpack[LanguageOptions]
    ) -> float: ...
    @overload
    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        max_batch_tokens: int | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> list[float]: ...
    def score(
        self,
        sources: str | Iterable[str],
        targets: str | Iterable[str],
        *,
        max_batch_tokens: int | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> float | list[float]:
        """Return the natural log-probability of each target as the translation of its source, with EOS.

        Args:
            sources: One text, or several.
            targets: One translation, or as many as there are texts.
            max_batch_tokens: Maximum number of tokens in a batch, with padding. None for the translator's default.
            **languages: Language codes, for a model of several languages (see `LanguageOptions`).

        Raises:
            ZooError: The numbers of sources and targets differ, or a source is empty and the model reads no EOS.
            TypeError: One argument is a string and the other is not.
        """
        if isinstance(sources, str) != isinstance(targets, str):
            raise TypeError("give one text and one translation, or a list of texts and a list of translations")
        single = isinstance(sources, str)
        scores = self.score_tokens(
            [sources] if isinstance(sources, str) else sources,
            [targets] if isinstance(targets, str) else targets,
            max_batch_tokens=max_batch_tokens,
            **languages,
        )
        log_probabilities = [score.log_probability for score in scores]
        return log_probabilities[0] if single else log_probabilities

    def score_tokens(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        max_batch_tokens: int | None = None,
        report: Report | None = None,
        first: int = 1,
    ) -> list[TokenScores]:
        """Return the log-probability of each token of given translations.

        Args:
            sources: The texts.
            targets: Their translations.
            source: Code of the language of the texts (see `translate`).
            target: Code of the language of the translations.
            max_batch_tokens: Maximum number of tokens in a batch, with padding. None for the translator's default.
            report: Receives the progress.
            first: Number of the first pair, for error messages.

        Raises:
            ZooError: The same errors as `score`.
        """
        source_texts, target_texts = self.check_pairs(sources, targets, first=first)
        preprocessor = self.preprocessor(source, target)
        source_ids = preprocessor.encode_pairs_side(source_texts, "source", first=first)
        target_ids = preprocessor.encode_pairs_side(target_texts, "target")
        with (report or Report()).progress("score", len(source_texts), "sentences") as progress:
            return score_targets(
                self.program,
                source_ids,
                target_ids,
                max_batch_tokens=self.max_batch_tokens
                if max_batch_tokens is None
                else check_max_batch_tokens(max_batch_tokens),
                device=self.device,
                progress=progress,
                first=first,
            )

    def check_pairs(
        self, sources: Iterable[str], targets: Iterable[str], *, first: int = 1
    ) -> tuple[list[str], list[str]]:
        """Check sources and the translations to score, and return both as the lists that `score` needs.

        Raises:
            ZooError: The numbers of sources and targets differ, or a text is not one line.
        """
        return checked_pairs(sources, targets, first=first)

    def attention(
        self, text: str, translation: str | None = None, *, source: str | None = None, target: str | None = None
    ) -> Attention:
        """Return the attention weights of every head of every layer over a text and its translation.

        Args:
            text: The text.
            translation: The translation or, for a parser, the tree. None: the model generates it.
            source: Code of the language of the text (see `translate`).
            target: Code of the language of the translation.

        Raises:
            ZooError: The text is empty or too long to translate as a whole, a language is missing or unknown, or the
                translator is an ensemble or was created from a program.
        """
        if self.attention_program is None:
            raise ZooError(
                "attention is only available for a single model that was opened from a folder, not for an ensemble",
                hint="open one model: `zoo.load(NAME)`",
            )
        check_text(text, 1, "text")
        preprocessor = self.preprocessor(source, target)
        encoded = preprocessor.encode_source(text, "", 0)
        if encoded.tokens == preprocessor.empty_source:
            raise ZooError("there are no attention weights for an empty text", hint="give a sentence")
        if isinstance(encoded, SplitText):
            raise ZooError(
                f"the text has {preprocessor.source_length(encoded.tokens):,} tokens, but the model takes at most "
                f"{preprocessor.max_source_length:,} (`decoding.max_source_length`) and translates it in parts",
                hint="give one sentence of the text",
            )
        own = preprocessor.languages
        target_ids: Sequence[int]
        if translation is None:
            ((best, *_),) = self.hypotheses([text], source=source, target=target, split=False)
            output, target_ids = best.text, best.tokens
        else:
            _, (output,) = self.check_pairs([text], [translation])
            ((_, *target_ids, _),) = preprocessor.encode_pairs_side([output], "target")
            with preprocessor.warnings:
                preprocessor.warnings.count([encoded])
        program = self.attention_program()
        assert isinstance(program, EmittedProgram)
        language_tokens = self.vocabulary.token_strings(own.source_tokens, "source")
        return compute_attention(
            program,
            (clean(text), encoded.tokens, [*language_tokens, *preprocessor.source_tokens(text)]),
            (output, target_ids, self.vocabulary.token_strings(target_ids)),
            forced=translation is not None,
        )


def _check_compatible(translators: Sequence[Translator]) -> None:
    """Raise ZooError unless there is at least one translator, and all have the same vocabulary and device."""
    if not translators:
        raise ZooError("an ensemble needs at least one model", hint="give the name of a model")
    first = translators[0]
    for other in translators[1:]:
        if first.vocabulary is not other.vocabulary and first.vocabulary.digest != other.vocabulary.digest:
            raise ZooError(
                f"`{first.spec.name}` and `{other.spec.name}` have different vocabularies, so their probabilities "
                "cannot be averaged",
                hint="use models that were trained with the same vocabulary files",
            )
        if other.device != first.device:
            raise ZooError(
                f"the models of an ensemble are on different devices, {first.device} and {other.device}",
                hint="open all of them with the same `device`",
            )
