"""Translate texts and streams of lines: options, preprocessing, search and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, ClassVar, Unpack

from compiler.program import MAX_PREFIX_TOKENS, ShortlistDecoder, TranslationModel
from specs import Spec, ZooError, suggest
from zoo.generation.confidence import Calibration
from zoo.generation.config import (
    DEFAULT_MAX_BATCH_TOKENS,
    LARGE_BEAM,
    GenerationConfig,
    GenerationOptions,
    TranslationOptions,
)
from zoo.generation.constraints import Constraint
from zoo.generation.engine import Engine, resolve_workers
from zoo.generation.preprocessing import Preprocessor
from zoo.generation.protection import Protection, Steps, protected, run_steps
from zoo.generation.span_constraint import SpanConstraint
from zoo.generation.text_stream import TextStream, TextWithPrefix
from zoo.generation.translation import MIN_ROW_TOKENS, Hypothesis, SearchInput, Translation
from zoo.models.shortlist import Shortlist
from zoo.planning.memory_estimate import max_sentences
from zoo.report import SILENT, Report
from zoo.text.language_codes import are_languages
from zoo.text.languages import LanguagePair, choose_direction
from zoo.text.lines import available_chunks, never_paused
from zoo.text.sentences import checked_texts, zip_prefixes
from zoo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from compiler import EmittedProgram
    from zoo.generation.alignment import AlignmentHead
    from zoo.generation.translator import Translator

Prefixes = Iterable[str] | None
MAX_SENTENCE_TOKENS = 512
"""A model counts as trained on single sentences if no source in its training data has more than this many tokens."""
_OTHER_NAMES = {"from_": "source", "to": "target"}
"""Names of options on the command line -> their names in Python."""


@dataclass(eq=False, repr=False)
class TextSearch:
    """Base class for `Translator`. It searches for translations of texts, and returns them with scores.

    To open a model by name, use `zoo.load` instead of the constructor.

    Attributes:
        program: A compiled model, or an ensemble of compiled models.
        vocabulary: The source and target vocabularies.
        spec: The model's spec.
        longest_source: Number of tokens in the longest source in the training data, if known. Longer sentences cause a
            warning.
        positions: Number of learned position embeddings, which limits the length of texts. The default is the limit in
            the spec, if there is one.
        shortlist: Shortlist of the tokens that a translation may contain, if the model has one.
        calibration: Calibration of the confidence in translations, if the model has one.
        constraint: Constraint on all outputs, if any.
        alignment_head: Attention head that aligns words best, if it is known.
        attention_program: Function that returns a compiled model that outputs attention weights. The first call
            compiles it. None for an ensemble, or if there are no weights to compile.
        reopen: Function that opens the same translator again, for unpickling.
        report: Receives warnings.
        device: Device of the compiled model.
        max_batch_tokens: Maximum number of source tokens in a batch, including EOS and padding, unless a call specifies
            another maximum.
        backend: Name of the backend that compiled the model. Empty for an ensemble.
    """

    translates = True
    """Whether the texts are translated. Other texts are neither split into sentences nor protected."""
    preprocessor_class: ClassVar[type[Preprocessor]] = Preprocessor

    program: TranslationModel
    vocabulary: Vocabulary
    spec: Spec
    _: KW_ONLY
    longest_source: int | None = None
    positions: int | None = None
    shortlist: Shortlist | None = None
    calibration: Calibration | None = None
    constraint: Constraint | None = None
    alignment_head: AlignmentHead | None = None
    attention_program: Callable[[], EmittedProgram] | None = None
    reopen: Callable[[], Translator] | None = None
    report: Report = SILENT
    device: str = "cpu"
    max_batch_tokens: int = DEFAULT_MAX_BATCH_TOKENS
    backend: str = field(init=False)
    _engine: Engine | None = field(default=None, init=False)
    """The engine that calls share if they use the default batch size and workers. The first such call creates it."""
    _span_constraints: dict[tuple[int, ...], SpanConstraint] = field(default_factory=dict, init=False)
    """Constraints for repairing translations, keyed by target language tokens."""

    def __post_init__(self) -> None:
        self.positions = self.positions or self.spec.architecture.max_positions
        self.report, self.device = self.report or SILENT, str(self.device)  # callers may pass None, or a torch.device
        given: GenerationOptions = {"max_batch_tokens": self.max_batch_tokens}
        self.max_batch_tokens = GenerationConfig.from_spec(self.spec, given).max_batch_tokens
        self.backend = getattr(self.program, "backend", "")

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: Prefixes = None,
        report: Report | None = None,
        **options: Unpack[TranslationOptions],
    ) -> list[list[Translation]]:
        """Translate texts, and return the translations of each text with their scores.

        If a text was split, its score and its log-probability are sums over its parts.

        Args:
            texts: The texts. Each text is a single line.
            n_best: Number of translations per text (see `translate`).
            prefixes: The prefix that each translation must start with.
            report: Receives the progress.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).

        Raises:
            ZooError: The same errors as `translate`.
            TypeError: `texts` is a single string instead of a list.
        """
        pairs, config, stream = self._prepare(texts, n_best, prefixes, options)
        results = [[Translation("")]] * len(pairs)
        size, terms = stream.preprocessor.max_chunk, stream.preprocessor.terms
        chunks = (pairs[start : start + size] for start in range(0, len(pairs), size))
        with stream.warnings, (report or Report()).progress(terms.verb, len(pairs), terms.unit) as progress:
            for index, translations in self.translate_chunks(chunks, config, stream):
                results[index] = translations
                progress.advance()
        return results

    def submit(
        self,
        texts: Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: Prefixes = None,
        abandoned: Event | None = None,
        **options: Unpack[TranslationOptions],
    ) -> Future[list[list[Translation]]]:
        """Start to translate texts, and immediately return a future with the result of `hypotheses`.

        A server can call this method from any thread. The texts of all calls share batches, and short calls do not wait
        for long calls. `future.cancel()` stops the search within a few decoding steps. To await the result, use
        `asyncio.wrap_future(future)`. If the `workers` or `max_batch_tokens` of a call differ from the translator's
        values, the call uses separate worker threads, and shares no batches.

        Args:
            texts: The texts. Each text is a single line.
            n_best: Number of translations per text (see `translate`).
            prefixes: The prefix that each translation must start with.
            abandoned: If another thread sets this event, the call stops before the next text is tokenised.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).

        Raises:
            ZooError: The same errors as `translate`. Errors in texts and options are raised immediately. Errors during
                the search are raised by the future.
            TypeError: `texts` is a single string instead of a list.
            CancelledError: `abandoned` was set.
        """
        pairs, config, stream = self._prepare(texts, n_best, prefixes, options)
        sources = list[SearchInput]()
        with stream.warnings:
            for text, prefix in pairs:
                sources += stream.add(text, prefix)
                if abandoned is not None and abandoned.is_set():
                    raise CancelledError
        strategy = config.strategy(self.constraint, shortlist=self.shortlist)

        def steps() -> Steps[list[list[Translation]]]:
            found = list(zip(sources, (yield sources, strategy), strict=True))
            translations = yield from Protection(self, stream.preprocessor, config).translations(found)
            results = dict(stream.join(zip(sources, translations, strict=True)))
            return [results[index] for index in range(len(pairs))]

        return run_steps(self._engine_for(config), steps())

    @property
    def waiting_seconds(self) -> float:
        """Estimated time until the translation of a new text begins, in seconds."""
        return 0.0 if self._engine is None else self._engine.queue.waiting_seconds

    def _prepare(
        self, texts: Iterable[str], n_best: int | None, prefixes: Prefixes, options: TranslationOptions
    ) -> tuple[list[TextWithPrefix], GenerationConfig, TextStream]:
        """Check the arguments. Return the texts with their prefixes, the search options, and a text stream."""
        config, preprocessor = self.configure(n_best, **options)
        checked = checked_texts(texts, label=preprocessor.terms.text)  # before the work starts
        return list(zip_prefixes(checked, prefixes)), config, TextStream(preprocessor, self.report)

    def configure(
        self,
        n_best: int | None = None,
        *,
        source: str | None = None,
        target: str | None = None,
        split: bool = True,
        protect: bool = True,
        **options: Unpack[GenerationOptions],
    ) -> tuple[GenerationConfig, Preprocessor]:
        """Return the search options, completed with values from the spec, and a preprocessor for the texts.

        Args:
            n_best: Number of translations per text (see `translate`).
            source: Language code of the texts (see `LanguageOptions`).
            target: Code of the target language.
            split: Whether to split texts into sentences (see `TranslationOptions`).
            protect: Whether to protect numbers, links and the like (see `TranslationOptions`).
            **options: Generation options.

        Raises:
            ZooError: A language is missing or unknown, a value is out of range, or the options require a shortlist, but
                the model has no shortlist or its backend does not support shortlists.
            TypeError: An option does not exist.
        """
        known = TranslationOptions.__annotations__
        if unknown := sorted(options.keys() - known):
            guess = suggest(_OTHER_NAMES.get(unknown[0], unknown[0]), known)
            raise TypeError(f"there is no option `{unknown[0]}`; {guess}the options are {', '.join(known)}")
        preprocessor = self.preprocessor(source, target, split=split, protect=protect)
        options["max_batch_tokens"] = self.batch_tokens(options.get("max_batch_tokens"))
        config = GenerationConfig.from_spec(self.spec, options, n_best)
        if config.shortlist:
            self._require_shortlist()
        if config.rows > LARGE_BEAM:
            kind, usual = "beam size" if config.search == "beam" else "number of samples", self.spec.decoding.beam
            factor = f"{config.rows / usual:,.0f} times as long as a beam of {usual}"
            self.report.info(f"with a {kind} of {config.rows:,}, this takes about {factor}")
        return config, preprocessor

    def batch_tokens(self, given: int | None) -> int:
        """Return the maximum number of tokens in a batch: the given number, or the translator's default for None.

        Raises:
            ZooError: The number is out of range.
        """
        if given is None:
            return self.max_batch_tokens
        return GenerationConfig.from_spec(self.spec, {"max_batch_tokens": given}).max_batch_tokens

    def _require_shortlist(self) -> None:
        """Raise ZooError if the model is an ensemble or has no shortlist, or if its backend cannot use shortlists."""
        hint = "or turn the shortlist off with `--no-shortlist` (in Python: `shortlist=False`)"
        if not issubclass(type(self.program), ShortlistDecoder):
            name, fix = "an ensemble", "use a single model"
            if self.backend:
                name, fix = f"the `{self.backend}` backend", "use the `native` backend"
            raise ZooError(f"{name} does not support a shortlist (`decoding.shortlist`)", hint=f"{fix}, {hint}")
        if self.shortlist is None:
            problem = f"the model `{self.spec.name}` has no shortlist, but `decoding.shortlist` requires one"
            raise ZooError(problem, hint=f"create one with `zoo shortlist RUN`, {hint}")

    def _limited(self, max_batch_tokens: int, rows: int) -> int:
        """Return `max_batch_tokens`, reduced so that a batch with `rows` hypotheses per sentence fits into memory."""
        rows = max(rows, MAX_PREFIX_TOKENS)  # a step that reads a prefix has logits for each of its tokens
        return min(max_batch_tokens, MIN_ROW_TOKENS * max_sentences(self.spec, rows, self.device))

    def _engine_for(self, config: GenerationConfig) -> Engine:
        """Return the translator's engine, or a new engine if the call has a different batch size or worker count."""
        decoding, max_batch_tokens = self.spec.decoding, self._limited(config.max_batch_tokens, config.rows)
        own = decoding.workers, self._limited(self.max_batch_tokens, decoding.beam)
        is_own = (config.workers, max_batch_tokens) == own
        if is_own and self._engine is not None:
            return self._engine
        workers = resolve_workers(self.program, config.workers)
        engine = Engine(self.program, self.device, workers=workers, max_batch_tokens=max_batch_tokens)
        # `setdefault` is atomic: threads that call this function at the same time get the same engine.
        return vars(self).setdefault("_engine", engine) if is_own else engine

    def translate_chunks(
        self, chunks: Iterable[Sequence[TextWithPrefix]], config: GenerationConfig, stream: TextStream
    ) -> Iterator[tuple[int, list[Translation]]]:
        """Yield the index and the translations of each text as soon as they are available.

        A chunk is read when the search needs more sentences. If reading fails, the texts before the error are
        translated first, and then the error is raised.

        Args:
            chunks: Texts with their prefixes.
            config: Search options.
            stream: The stream that encodes the texts.
        """
        engine, strategy = self._engine_for(config), config.strategy(self.constraint, self.shortlist)
        with closing(engine.search(stream.read(chunks), strategy)) as results:
            yield from stream.join(protected(results, Protection(self, stream.preprocessor, config), engine))

    def preprocessor(
        self, source: str | None = None, target: str | None = None, *, split: bool = False, protect: bool = False
    ) -> Preprocessor:
        """Return a preprocessor for texts in the given languages.

        Args:
            source: Language code of the texts (see `translate`).
            target: Code of the target language.
            split: Whether to split texts into sentences if the model was trained on single sentences.
            protect: Whether to protect numbers, links and the like (see `TranslationOptions`).

        Raises:
            ZooError: A language is missing or unknown.
        """
        direction = choose_direction(self.spec, source, target, self.report)
        languages = LanguagePair.of(self.spec, self.vocabulary, direction)
        splits = split and (self.longest_source or self.spec.corpus.max_length) <= MAX_SENTENCE_TOKENS
        protects = protect and are_languages(languages.source, languages.target)
        arguments = (self.vocabulary, self.spec, self.positions, self.longest_source, languages)
        return self.preprocessor_class(*arguments, splits and self.translates, protects and self.translates)

    def span_constraint(self, target_tokens: tuple[int, ...]) -> SpanConstraint:
        """Return the constraint that makes translations contain required spans, such as amounts (see `SpanConstraint`).

        Calls with the same tokens return the same object, so that their sentences can share a batch.

        Args:
            target_tokens: The language tokens with which translations begin.
        """
        constraint = self._span_constraints.get(target_tokens) or SpanConstraint(self.vocabulary, target_tokens)
        # `setdefault` is atomic: threads that call this function at the same time get the same constraint.
        return self._span_constraints.setdefault(target_tokens, constraint)

    def to_translations(
        self, preprocessor: Preprocessor, source: SearchInput, hypotheses: Sequence[Hypothesis]
    ) -> list[Translation]:
        """Convert the hypotheses for a sentence to translations. `preprocessor` must have encoded the sentence."""
        languages = preprocessor.languages
        translations: list[Translation] = []
        for each in hypotheses:
            text = self.vocabulary.decode(each.tokens[len(languages.target_tokens) :])
            if self.vocabulary.copy_symbols:
                text = source.replaced.restore(text, languages.target)
            translations.append(each.with_text(text).with_confidence(source.text, self.calibration))
        return translations


MAX_CHUNK_LINES = 1024
"""Maximum number of lines in a chunk. The lines of a chunk are read in advance and sorted by length."""
FIRST_CHUNK_LINES = 64
"""Number of lines in the first chunk. It is small, so that the first results appear soon. Each further chunk is twice
as large, up to the maximum."""


def translate_lines(
    translator: TextSearch,
    lines: Iterable[str],
    *,
    prefixes: Prefixes = None,
    n_best: int | None = None,
    max_chunk_lines: int = MAX_CHUNK_LINES,
    paused: Callable[[], bool] = never_paused,
    first: int = 0,
    report: Report | None = None,
    **options: Unpack[TranslationOptions],
) -> Iterator[list[Translation]]:
    """Yield the translations of each line, in order, as soon as the line and all earlier lines are translated.

    An error in a line is raised after all earlier lines have been translated.

    Args:
        translator: The model.
        lines: The texts, one per line.
        prefixes: The prefix of each line's translation.
        n_best: Number of translations per line, best first. Default: 1.
        max_chunk_lines: Maximum number of lines that are read in advance.
        paused: Function that returns True while the next line is not available yet. During such a pause, all lines that
            were read are translated, so that an interactive user sees them.
        first: Index of the first line. Random samples and error messages depend on the index of a line.
        report: Receives the progress.
        **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).
    """
    config, preprocessor = translator.configure(n_best, **options)
    stream, terms = TextStream(preprocessor, translator.report, first), preprocessor.terms
    max_lines = min(max_chunk_lines, preprocessor.max_chunk)
    chunks = available_chunks(zip_prefixes(lines, prefixes), max_lines, paused, FIRST_CHUNK_LINES)
    done: dict[int, list[Translation]] = {}
    answered = first
    with stream.warnings, (report or Report()).progress(terms.verb, None, terms.unit) as progress:
        for chunk in chunks:  # after a pause, this blocks until there is a line
            results = translator.translate_chunks(_until_pause(chain([chunk], chunks)), config, stream)
            for index, translations in results:
                done[index] = translations
                progress.advance()
                while answered in done:
                    yield done.pop(answered)
                    answered += 1


def _until_pause(chunks: Iterator[tuple[list[TextWithPrefix], bool]]) -> Iterator[list[TextWithPrefix]]:
    for chunk, is_paused in chunks:
        yield chunk
        if is_paused:
            return
