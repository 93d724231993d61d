"""The spec: the complete declaration of a model and its training, as frozen data."""

from typing import Annotated, Any, Literal, Self, Union, get_args

from pydantic import Field, PrivateAttr, model_validator

from specs.architecture import Architecture
from specs.corpus import Archive, Corpus, Digits, Direction, Files, Grammar
from specs.errors import ZooError
from specs.file_format import FORMAT, WRITTEN_BY
from specs.notation import dump
from specs.parts import Sinusoidal2d, Tokens
from specs.section import Section, reject
from specs.sections import (
    EOS,
    BaseTask,
    Decoding,
    Languages,
    Task,
    Training,
    Translation,
    Vocabulary,
    suggest_language,
)
from specs.sublayers import Sublayer

# Two consecutive dots are excluded, so that a name never points outside a folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-_,A-Za-z0-9]|\.[-_,A-Za-z0-9])*$", max_length=100)]
Licence = Annotated[str, Field(min_length=1, max_length=200)]
PassName = Annotated[str, Field(max_length=100)]
METADATA_FIELDS = ("name", "description", "licence")
"""Fields that describe a model without changing what it computes."""


class Compilation(Section):
    """Compiler options. They change how a model is executed, not its architecture or training data."""

    backend: Literal["auto", "eager", "inductor", "native", "aot", "onnx", "tensorrt"]
    """Backend that runs the compiled model (not in the paper). auto: the fastest backend that is installed for the
    device. `zoo doctor` lists the backends. If the backend can only translate, training uses the fastest backend that
    can train."""
    precision: Literal["float32", "bfloat16", "int8"]
    """Data type of weights and matrix products when translating (not in the paper). bfloat16 and int8 change the
    results slightly."""
    disabled_passes: Annotated[tuple[PassName, ...], Field(strict=False, max_length=100)]
    """Names of compiler passes to skip (not in the paper). `zoo plan SPEC --passes` lists the passes."""


class Spec(Section):
    """Declaration of a model and its training. Two specs are equal if all their fields are equal."""

    name: Name
    """Name under which the trained model is published. Letters, digits, hyphens, underscores, dots and commas are
    allowed. It starts with a letter or digit, and does not contain two consecutive dots."""
    description: str = Field(max_length=10_000)
    """One short sentence that describes the spec."""
    licence: Licence | None
    """Licence of the published weights, for the model card: an SPDX identifier such as CC-BY-4.0, or a phrase. null:
    not specified."""
    task: Task
    """Task that the model learns: translation (section 6.1), parsing (section 6.3), recognition (section 7) or
    language modelling."""
    architecture: Architecture
    """Layers and dimensions of the network (section 3)."""
    vocabulary: Vocabulary
    """How text is split into subword tokens (section 5.1)."""
    languages: Languages | None
    """Languages of a model that translates in several directions, or that reads audio or images and writes text in
    several languages (not in the paper). null: the model reads `corpus.source` and writes `corpus.target` only."""
    corpus: Corpus
    """Training, development and test data: sentence pairs (section 5.1) or trees (section 6.3)."""
    training: Training
    """How the model is trained: batches, optimiser, learning rate, regularisation and checkpoints (sections 5 and
    6.1)."""
    decoding: Decoding
    """How translations are found: by beam search (section 6.1) or sampling."""
    compilation: Compilation
    """How the model is compiled: backend, precision and compiler passes (not in the paper)."""

    _short_name: str | None = PrivateAttr(default=None)
    _has_own_name: bool = PrivateAttr(default=True)

    @property
    def short_name(self) -> str:
        """Name in lists and commands: "big" or "table3/a-h1" for shipped specs, otherwise the file stem.

        If the spec does not come from a file, this is `name`.
        """
        return self.name if self._short_name is None else self._short_name

    @property
    def has_own_name(self) -> bool:
        """Whether the spec's own file sets `name`, instead of inheriting it from the spec that it extends."""
        return self._has_own_name

    @property
    def default_direction(self) -> Direction:
        """Source and target languages of the sentences that zoo itself translates, for example to verify a bundle.

        These are the languages of `corpus` or, if `languages.codes` does not contain both, its first two codes.
        """
        source, target = self.corpus.source, self.corpus.target
        if self.languages is None or {source, target} <= set(self.languages.codes):
            return source, target
        first, second, *_ = self.languages.codes
        return first, second

    def yaml(self, version: str | None = None) -> str:
        """Return the spec as YAML, with all fields and the format version.

        YAML 1.1 and YAML 1.2 parsers read the text the same way.

        Args:
            version: Version of zoo to record in a comment on the first line.
        """
        header = "" if version is None else f"{WRITTEN_BY}{version}\n"
        return header + dump({"format": FORMAT, **self.model_dump(mode="json")})

    def with_short_name(self, short_name: str, *, has_own_name: bool = True) -> Self:
        """Return a copy whose properties `short_name` and `has_own_name` have these values."""
        spec = self.model_copy()
        spec._short_name, spec._has_own_name = short_name, has_own_name
        return spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.__dict__ == other.__dict__

    def __repr_args__(self) -> Any:
        yield None, self.short_name

    @model_validator(mode="after")
    def _expand_corpus(self) -> Self:
        """Replace the corpus's `Pairs` parts with `Files` parts. Checks run first, on the parts that users wrote."""
        codes = self.languages.codes if self.languages else ()
        return self.model_copy(update={"corpus": self.corpus.expanded(codes)})

    def _check(self) -> None:
        self._check_corpus()
        self._check_languages()
        self._check_task()
        self._check_losses()
        self._check_tokens()
        self._check_lengths()

    def _check_languages(self) -> None:
        if self.languages is not None and (self.task.writes_trees or not self.task.reads):
            problem = f"the `{self.task.kind}` task has one language, but `languages` has several"
            reject(("languages", "task.kind"), problem, "write `languages: null`")
        if self.languages is not None and not self.reads_text:
            self._check_languages_of_files(self.languages)
        for name, part in self.corpus.named_parts:
            part.check_languages(f"corpus.{name}", self.corpus, self.languages, reads_text=self.reads_text)

    def _check_languages_of_files(self, languages: Languages) -> None:
        """Check `languages` for a model that reads audio or images. The codes must include the `corpus` languages."""
        if languages.source_token is not None:
            problem = "a language token precedes the source, but the source does not consist of tokens"
            hint = "write `source_token: null` and `target_token: target` in `languages`"
            reject(("languages.source_token", "task.kind"), problem, hint)
        for side in ("source", "target"):
            if (code := getattr(self.corpus, side)) not in languages.codes:
                problem = f"`languages.codes` does not contain `{code}`, which is `corpus.{side}`"
                reject((f"corpus.{side}", "languages.codes"), problem, suggest_language(code, languages))
        known = {code for part in self.corpus.train for code in self.corpus.direction(part)}
        if known and self.training.start_from is None and (unknown := [c for c in languages.codes if c not in known]):
            problem = f"no part of `corpus.train` has the language `{unknown[0]}`, which `languages.codes` contains"
            hint = f"write `target_language: {unknown[0]}` in the parts with text in this language, or remove the code"
            reject(("languages.codes", "corpus.train"), problem, hint)

    def _check_corpus(self) -> None:
        if self.corpus.max_ratio is not None and not self.reads_text:
            problem = "`corpus.max_ratio` compares numbers of tokens, but the source does not consist of tokens"
            reject(("corpus.max_ratio", "task.kind"), problem, "write `max_ratio: null`")
        corpus, task, parsing, reads = self.corpus, self.task, self.task.writes_trees, self.task.reads
        directions = [("en", "en")] if parsing else [("en", "de"), *([("de", "en")] if self.languages else [])]
        if not reads:
            directions = [(corpus.source, "en"), (corpus.source, "de")]
        data = "features" if task.features else "trees" if parsing else "pairs" if reads else "sentences"
        for name, part in corpus.named_parts:
            if data not in part.supplies:
                needed = f"{task.features.kind} {task.examples}" if task.features else task.examples
                fields = "`trees`" if parsing else " and ".join(f"`{stream}`" for stream in task.streams)
                problem = f"the `{task.kind}` task needs {needed}, but `corpus.{name}` has no {needed}"
                kind = "`kind: recognition` in" if isinstance(part, Digits) else "another"
                hint = f"write {fields} in this part, or set {kind} `task`"
                reject((f"corpus.{name}", "task.kind"), problem, hint)
            if isinstance(part, (Files, Archive)) and (part.source is not None) is not reads:
                read, found, verb = ("a", "none", "write") if reads else ("no", "one", "remove")
                problem = f"the `{task.kind}` task reads {read} source, but `corpus.{name}` has {found}"
                hint = f"{verb} `source` in this part, or set another `task`"
                reject((f"corpus.{name}", "task.kind"), problem, hint)
            if {"models", "tag"} & part.model_dump().keys() and not isinstance(task, Translation):
                problem = f"`models` and `tag` are for translation, but the task is `{task.kind}`"
                hint = "remove this part, or write `task: {kind: translation}`"
                reject((f"corpus.{name}", "task.kind"), problem, hint)
            if isinstance(part, Grammar) and corpus.direction(part) not in directions:
                source, target = corpus.direction(part)
                problem = f"`corpus.{name}` is English{'' if parsing else ' and German'}, not `{source}` and `{target}`"
                hint = f"write `source: en` and `target: {directions[0][1]}`, or replace this part with other parts"
                reject((f"corpus.{name}", "corpus.source", "corpus.target"), problem, hint)

    @property
    def guided_layer(self) -> int | None:
        """Index of the decoder layer whose first cross-attention head is trained with guided alignment, or None."""
        return None if self.training.guided_alignment is None else max(self.architecture.depths.decoder - 2, 0)

    @property
    def scores(self) -> tuple[str, ...]:
        """Evaluation metrics for the model, and permitted values of `training.dev_score`. The main metric comes first.

        Word and character error rate are omitted if there are no transcripts, as in speech translation.
        """
        only_translates = self.languages is None and self.corpus.source != self.corpus.target
        return tuple(name for name in self.task.scores if not (only_translates and name in ("wer", "cer")))

    @property
    def reads_text(self) -> bool:
        """Whether the model reads text. False if it reads features, such as frames of a spectrogram."""
        return isinstance(self.architecture.source, Tokens)

    def require_text(self, purpose: str) -> None:
        """Raise ZooError if the model reads features. The message begins with `purpose`, such as "this benchmark"."""
        if not self.reads_text:
            problem = f"{purpose} needs a model that reads text, but `{self.name}` reads {self.task.streams['source']}"
            raise ZooError(problem, hint="use a model with `architecture.source.kind: tokens`")

    def require_source(self, purpose: str) -> None:
        """Raise ZooError if the model has no encoder. The message begins with `purpose`, such as "this benchmark"."""
        if not self.task.reads:
            problem = f"{purpose} needs a model that reads a source, but `{self.name}` has the task `{self.task.kind}`"
            raise ZooError(problem, hint="use a model with a different task, such as `translation`")

    def _check_task(self) -> None:
        for stack, needed in (("encoder", self.task.reads), ("decoder", self.task.loss == BaseTask.loss)):
            if bool(getattr(self.architecture, stack)) is not needed:
                reject(
                    (f"architecture.{stack}", "task.kind"),
                    f"the `{self.task.kind}` task needs {'' if needed else 'no '}sub-layers in `architecture.{stack}`",
                    f"write {'sub-layers in' if needed else '`[]` for'} `architecture.{stack}`, or set another `task`",
                )
        shared, modalities = self.vocabulary.shared, self.task.streams
        streams = {name: modalities[name] for name in self.task.token_streams}
        if len({*streams.values()}) > 1 if shared else len(streams) == 1:
            listed = " and ".join(f"a {name} of {modality}" for name, modality in streams.items())
            problem = f"the `{self.task.kind}` task has {listed}, but `vocabulary.shared` is {str(shared).lower()}"
            hint = f"write `vocabulary: {{shared: {'false, target_size: 256' if shared else 'true'}}}`"
            reject(("vocabulary.shared", "task.kind"), problem, hint)
        if self.vocabulary.copy_symbols and not (isinstance(self.task, Translation) and self.reads_text):
            problem = "`vocabulary.copy_symbols` is for models that translate text"
            reject(("vocabulary.copy_symbols", "task.kind"), problem, "write `vocabulary: {copy_symbols: 0}`")
        task, source, positions = self.task, self.architecture.source, self.architecture.positions
        frames = task.features
        if (frames is None) is not self.reads_text:
            kind = f"features, width: {frames.width}" if frames else "tokens"
            problem = f"the `{task.kind}` task reads {modalities.get('source', 'nothing')}, not `{source.kind}`"
            hint = f"write `architecture: {{source: {{kind: {kind}}}}}`, or set another `task`"
            reject(("architecture.source.kind", "task.kind"), problem, hint)
        sizes = {"source": "width"} | ({"positions": "rows"} if isinstance(positions, Sinusoidal2d) else {})
        for section, field in sizes.items() if frames else ():
            own, needed = getattr(getattr(self.architecture, section), field), getattr(frames, field)
            if own != needed:
                problem = f"`architecture.{section}.{field}` is {own}, but `task.source` gives {needed}"
                hint = f"write `architecture: {{{section}: {{{field}: {needed}}}}}`"
                reject((f"architecture.{section}.{field}", "task.source"), problem, hint)
        score, permitted = self.training.dev_score, self.scores
        if score is not None and score not in permitted:
            languages = f" from {self.corpus.source} to {self.corpus.target}" if score in task.scores else ""
            problem = f"`training.dev_score` is `{score}`, which is not a score of the `{task.kind}` task{languages}"
            hint = f"write {' or '.join(f'`{name}`' for name in permitted)}"
            reject(("training.dev_score", "task.kind"), problem, hint)

    def _check_losses(self) -> None:
        kinds = [sublayer.kind for sublayer in self.architecture.decoder]
        can_align = kinds.count("cross_attention") == 1 and self.reads_text and not self.task.writes_trees
        if self.training.guided_alignment is not None and not can_align:
            reject(
                "training.guided_alignment",
                "`training.guided_alignment` needs a model that translates text with one `cross_attention` per layer",
                "write `guided_alignment: null`",
            )
        translates = any(source != target for source, target in map(self.corpus.direction, self.corpus.train))
        if self.training.ctc_weight is not None and (self.reads_text or translates):
            problem = "`training.ctc_weight` needs a model that recognises speech or images, and does not translate"
            reject("training.ctc_weight", problem, "write `ctc_weight: null`")

    def _check_tokens(self) -> None:
        tied = self.architecture.tied_embeddings
        if tied in ("all", "embeddings") and not self.vocabulary.shared:
            problem = f"`architecture.tied_embeddings` is `{tied}`, but `vocabulary.shared` is false"
            hint = "write `vocabulary: {shared: true}`, or `architecture: {tied_embeddings: target}`"
            reject(("vocabulary.shared", "architecture.tied_embeddings"), problem, hint)
        size, suppressed = self.vocabulary.sizes[1], self.decoding.suppressed_tokens
        if EOS in suppressed:
            problem = f"`decoding.suppressed_tokens` contains {EOS} (EOS), without which no translation ends"
            reject("decoding.suppressed_tokens", problem, f"remove {EOS} from the list")
        if suppressed and max(suppressed) >= size:
            problem = f"`decoding.suppressed_tokens` contains {max(suppressed):,}, but the largest ID is {size - 1:,}"
            hint = f"remove {max(suppressed):,} from the list"
            reject(("decoding.suppressed_tokens", "vocabulary.size"), problem, hint)

    def _check_lengths(self) -> None:
        training, stride = self.training, self.architecture.source_stride
        growth = self.task.features.max_growth if self.task.features else 1.0
        longest = int(self.corpus.max_length * growth)
        batch = longest + (self.languages is not None)  # with the language token
        limits = [
            ("architecture.positions.rows", self.architecture.max_positions, -(-longest // stride), stride),
            ("training.source_tokens", training.source_tokens, batch, 1),
            # Targets of features are much shorter than `corpus.max_length`, a number of frames.
            ("training.target_tokens", training.target_tokens if self.reads_text else None, batch, 1),
        ]
        end = " tokens and EOS" if self.reads_text else ""
        for field, limit, length, step in limits:
            if limit is not None and limit <= length:
                problem = f"`{field}` is {limit}, but training examples can have a length of up to {length}{end}"
                below = int(limit * step / growth)
                lower = f", or lower `corpus.max_length` below {below}" if below > 1 else ""
                hint = f"raise `{field}`{lower}"
                reject((field, "corpus.max_length"), problem, hint)


def add_sublayer_kind(sublayer: type[Sublayer]) -> None:
    """Register a sub-layer class, so that specs in this process can use its `kind` in encoder and decoder layers."""
    for stack in ("encoder", "decoder"):
        field = Architecture.model_fields[stack]
        kinds = get_args(get_args(get_args(field.annotation)[0])[0])
        one = Annotated[Union[*kinds, sublayer], Field(discriminator="kind")]  # type: ignore[valid-type]
        field.annotation = tuple[one, ...]
    Architecture.model_rebuild(force=True)
    Spec.model_rebuild(force=True)
