"""Translators, which combine a program, a vocabulary and a spec to translate texts and to score translations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack, cast, overload

from compiler.program import ShortlistDecoder, TranslationModel
from specs import Spec, ZooError
from zoo.generation.alignment import AlignedToken, AlignmentHead, align
from zoo.generation.attention import Attention, attend
from zoo.generation.batching import MIN_ROW_TOKENS
from zoo.generation.config import (
    LARGE_BEAM,
    GenerationConfig,
    GenerationOptions,
    LanguageOptions,
    TranslationOptions,
    check_max_batch_tokens,
)
from zoo.generation.constraints import Constraint
from zoo.generation.engine import Engine, resolve_workers
from zoo.generation.ensemble import Ensemble, check_compatible
from zoo.generation.hypotheses import Hypothesis, SearchObserver
from zoo.generation.preprocessing import Preprocessor, TextWithPrefix
from zoo.generation.scoring import TokenScores, score_targets
from zoo.generation.translation import EMPTY_TRANSLATION, Translation
from zoo.models.shortlist import Shortlist
from zoo.planning.capacity import max_sentences
from zoo.report import Report
from zoo.text.languages import LanguagePair, choose_direction
from zoo.text.sentences import checked_pairs, checked_texts, zip_prefixes
from zoo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from compiler import EmittedProgram
else:
    from compiler.lazy import torch

Prefixes = Iterable[str] | None


class Translator:
    """Translator of raw text. It can also score given translations.

    Sentences are sorted by length into batches, but results are in the order of the texts. The translation of an empty
    text is "". A model that was trained on single sentences translates each sentence of a text separately. A translator
    that was opened from a folder can be pickled, and unpickling opens the folder again. A forked child process can use
    its parent's translator, but torch then computes on one thread.

    Several threads can use a translator at the same time. The sentences of their calls share batches.

    Attributes:
        longest_source: Number of tokens of the longest source in training. Longer sentences cause a warning.
        max_batch_tokens: Maximum number of source tokens in a batch, unless a call specifies another.
        positions: Number of learned position embeddings, which limits the length of texts. None: no limit.
        backend: Name of the backend that built the program. Empty if the translator was created from a program.
        reopen: Function that opens the same translator again. None if it was created from a program.
        attention_program: Function that returns the program that computes attention weights. The program is built on
            the first call. None for an ensemble, or if the translator was created from a program.
        alignment_head: Attention head that aligns best. None: it is not known.
        constraint: Constraint on all outputs, if any.
        shortlist: Shortlist of the tokens that a translation may contain, if the model has one.
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
        self.device = str(device)
        self.max_batch_tokens = check_max_batch_tokens(max_batch_tokens)
        architecture = spec.architecture
        self.positions = architecture.max_positions
        self.reopen: Callable[[], Translator] | None = None
        self.backend = ""
        self.attention_program: Callable[[], EmittedProgram] | None = None
        self.alignment_head: AlignmentHead | None = None
        self.constraint: Constraint | None = None
        self.shortlist: Shortlist | None = None

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
        check_compatible(translators)
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
        pairs, config, preprocessor = self._prepare(texts, n_best, prefixes, options)
        results = [[EMPTY_TRANSLATION]] * len(pairs)
        progress_bar = (report or Report()).progress(self.verb, len(pairs), "sentences")
        with preprocessor.warnings, progress_bar as progress:
            for index, translations in self.translate_chunks([pairs], config, preprocessor):
                results[index] = translations
                progress.advance()
        return results

    def submit(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: Prefixes = None,
        report: Report | None = None,
        **options: Unpack[TranslationOptions],
    ) -> Future[list[list[Translation]]]:
        """Start to translate texts, and return at once. The result of the future is that of `hypotheses`.

        A server can call this method from any thread. The texts of all calls share batches, and short calls do not wait
        for long ones. `future.cancel()` ends the work within a few steps. `asyncio.wrap_future(future)` can be awaited.
        A call with another value of `workers` or `max_batch_tokens` than the translator's has worker threads of its
        own, and shares no batches.

        Args:
            texts: The texts, each of one line.
            n_best: Number of translations per text (see `translate`).
            prefixes: The prefix that each translation must start with.
            report: Receives the progress, from several threads.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).

        Raises:
            ZooError: The same errors as `translate`. Errors in texts and options are raised at once, and errors in the
                search by the future.
            TypeError: `texts` is one string instead of several.
        """
        pairs, config, preprocessor = self._prepare(texts, n_best, prefixes, options)
        with preprocessor.warnings:
            sources = [source for chunk in preprocessor.read_chunks([pairs], 0) for source in chunk]
        if preprocessor.error:
            raise preprocessor.error

        def convert(hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[Translation]]:
            results = [[EMPTY_TRANSLATION]] * len(pairs)
            for source, found in zip(sources, hypotheses, strict=True):
                translations = self._to_translations(preprocessor, source.index, found)
                if joined := preprocessor.join(source, translations):
                    results[source.index] = joined
            return results

        with ExitStack() as stack:
            progress = stack.enter_context((report or Report()).progress(self.verb, len(sources), "sentences"))
            strategy = config.strategy(self.constraint, shortlist=self.shortlist)
            future = self._engine_for(config).submit(sources, strategy, convert, progress.advance)
            progress_bar = stack.pop_all()
        future.add_done_callback(lambda _: progress_bar.close())
        return future

    @property
    def waiting_seconds(self) -> float:
        """How long the oldest call waits whose translation has not begun, in seconds. 0 if there is none."""
        engine = vars(self).get("_engine")
        return 0.0 if engine is None else cast(Engine, engine).waiting_seconds

    def _prepare(
        self, texts: Iterable[str], n_best: int | None, prefixes: Prefixes, options: TranslationOptions
    ) -> tuple[list[TextWithPrefix], GenerationConfig, Preprocessor]:
        """Return the texts with their prefixes, the options of the search, and a preprocessor, after checking them."""
        if isinstance(texts, str):
            raise TypeError("`texts` is one string: pass a list of strings")
        source, target, split = options.pop("source", None), options.pop("target", None), options.pop("split", True)
        config = self.config(n_best, options)
        pairs = list(zip_prefixes(texts, prefixes))
        checked_texts(text for text, _ in pairs)  # report an invalid text before the work starts
        return pairs, config, self.preprocessor(source, target, split=split)

    def config(self, n_best: int | None, options: GenerationOptions) -> GenerationConfig:
        """Return the options, completed from the spec. If there are many hypotheses, the batch size is reduced.

        Raises:
            ZooError: A value is out of range, or the model or its backend does not support the shortlist.
        """
        given = options.get("max_batch_tokens")
        complete: GenerationOptions = {**options, "max_batch_tokens": self.max_batch_tokens if given is None else given}
        config = GenerationConfig.from_spec(self.spec, complete, n_best)
        if config.shortlist:
            self._require_shortlist()
        if config.rows > LARGE_BEAM:
            self.report.info(config.describe_cost(self.spec.decoding.beam))
        return config.model_copy(update={"max_batch_tokens": self._limited(config.max_batch_tokens, config.rows)})

    def _require_shortlist(self) -> None:
        """Raise ZooError if the model has no shortlist, or if the program cannot use it."""
        hint = "`zoo decode --no-shortlist` and the option `shortlist=False` search without it"
        if not issubclass(type(self.program), ShortlistDecoder):
            name = "an ensemble" if isinstance(self.program, Ensemble) else f"the backend `{self.backend}`"
            fix = "use a single model" if isinstance(self.program, Ensemble) else "use the backend `native`"
            raise ZooError(f"{name} does not support a shortlist (`decoding.shortlist`)", hint=f"{fix}; {hint}")
        if self.shortlist is None:
            problem = f"the model `{self.spec.name}` has no shortlist, but `decoding.shortlist` requires one"
            raise ZooError(problem, hint=f"`zoo shortlist RUN` adds one to a training run; {hint}")

    def _limited(self, max_batch_tokens: int, rows: int) -> int:
        """Return the maximum number of tokens in a batch if each sentence has `rows` hypotheses."""
        return min(max_batch_tokens, MIN_ROW_TOKENS * max_sentences(self.spec, rows, self.device))

    def _engine_for(self, config: GenerationConfig) -> Engine:
        """Return the engine of the translator or, if the call has other limits, a new engine for this call."""
        decoding, limits = self.spec.decoding, (config.workers, config.max_batch_tokens)
        is_own = limits == (decoding.workers, self._limited(self.max_batch_tokens, decoding.beam))
        if is_own and "_engine" in vars(self):
            return cast(Engine, vars(self)["_engine"])
        workers = resolve_workers(self.program, config.workers)
        engine = Engine(self.program, self.device, workers=workers, max_batch_tokens=config.max_batch_tokens)
        # `setdefault` is atomic: threads that call this function at the same time get the same engine.
        return vars(self).setdefault("_engine", engine) if is_own else engine

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[TextWithPrefix]],
        config: GenerationConfig,
        preprocessor: Preprocessor,
        *,
        first: int = 0,
        observer: SearchObserver | None = None,
    ) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the index and the translations of each text, as soon as they are known.

        A chunk is read when the search needs more sentences. If reading fails, all texts before the error are
        translated before the error is raised.

        Args:
            chunks: Texts with their prefixes.
            config: Options of the search.
            preprocessor: The preprocessor that encodes the texts.
            first: Index of the first text.
            observer: Receives each step of a beam search.
        """
        sources = preprocessor.read_chunks(chunks, first)
        strategy = config.strategy(self.constraint, observer, self.shortlist)
        with closing(self._engine_for(config).search(sources, strategy)) as results:
            for source, hypotheses in results:
                yield from preprocessor.empty_translations()
                translations = self._to_translations(preprocessor, source.index, hypotheses)
                if joined := preprocessor.join(source, translations):
                    yield source.index, joined
        yield from preprocessor.empty_translations()
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

    def align(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        report: Report | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> list[list[AlignedToken]]:
        """Return which source token each token of given translations comes from.

        A token is aligned to the source token that it attends to most, in the attention head that aligned best on the
        dev set when the weights were averaged. Without a dev set, the mean of all heads of the last decoder layer but
        one is used. Tokens that mostly attend to the end of the source are left out. Texts of several sentences are
        aligned sentence by sentence if the translation has the same number of sentences.

        Args:
            sources: The texts.
            targets: Their translations.
            report: Receives the progress.
            **languages: Language codes, for a model of several languages (see `LanguageOptions`).

        Returns:
            The aligned tokens of each translation, in order. Positions count the characters of the given strings.

        Raises:
            ZooError: The same errors as `score`, or the model is a parser, an ensemble, or has no attention to the
                source.
        """
        source_texts, target_texts = self.check_pairs(sources, targets)
        codes = languages.get("source"), languages.get("target")
        return align(self, source_texts, target_texts, *codes, report or Report())

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
        return attend(self, text, translation, source, target)
