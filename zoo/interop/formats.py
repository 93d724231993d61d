"""Interfaces and data types for import and export formats, and functions that the formats share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel
from torch import Tensor

import specs
from specs import Architecture, Languages, Spec, ZooError, suggest
from specs.notation import quote_in_full
from specs.sections import suggest_language
from zoo.interop import FORMATS
from zoo.interop.tensors import STACKS, EmbeddingTables, ForeignTensors
from zoo.interop.text_rules import TextOptions
from zoo.interop.vocabulary import ImportedVocabulary
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.publishing.reference_results import ReferenceLogProbabilities

PositionConvention = Literal["marian", "transformers"]
"""Toolkit that trained a MarianMTModel. Each toolkit has its own formula for sinusoidal positional encodings."""
UNKNOWN_LANGUAGES = ("und", "und")
"""Language codes for a model whose files do not contain its languages. `und` is ISO 639 for "undetermined"."""
_LANGUAGE_CODE = re.compile(r"(?=.{2,35}$)[a-z]{2,3}([-_][A-Za-z0-9]+)*")
_MAX_LENGTH = 256  # tokens, as `corpus.max_length` in the spec `base`
_MAX_DESCRIPTION = 200  # characters
USE_ONNX = "use `--to onnx`: it supports all networks except encoders with restricted attention, SSRUs or LSTMs"
"""Hint for a model that another format cannot represent."""
LAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
"""Sub-layers in each layer of the original Transformer. All export formats except ONNX require these sub-layers."""
_ONLY_FOR_TRAINING = {"dropout", "attention_dropout", "activation_dropout", "initial_weights"}
_ZEROS_IF_ADDED = {"projection_bias", "output_bias"}


@dataclass(frozen=True)
class ImportRequest:
    """Options for reading a model from another toolkit."""

    name: str = ""
    """Name of the model in the model store and in its spec. If empty, `import_model` derives it from the files."""
    languages: tuple[str, str] | None = None
    """Codes of the source and target languages. If None, use the codes in the model's files. If the files contain no
    codes, use `UNKNOWN_LANGUAGES`."""
    positions: PositionConvention | None = None
    """Formula for the sinusoidal positional encodings. If None, use the format's default."""
    origin_name: str | None = None
    """Original name of the model, for example on the Hugging Face Hub. If None, use the name of its file or folder."""
    text: TextOptions = field(default_factory=TextOptions)
    """User options for tokenising the model's text."""


@dataclass(frozen=True)
class ImportedModel:
    """Model from another toolkit, converted to zoo's token IDs, tensor names and tensor layout."""

    model: Model
    """The converted model. Its weights are in float32."""
    origin: Mapping[str, str]
    """Origin of the model: `engine`, and choices such as `positions`. The bundle's provenance contains these entries,
    after `format` and `source` (file or folder)."""
    notes: tuple[str, ...] = ()
    """Notes to show to the user."""


class ImportFormat(Protocol):
    """Model format of another toolkit that zoo can import."""

    name: ClassVar[str]
    """The value of `--format` that selects this format."""
    takes_positions: ClassVar[bool] = False
    """Whether the user may choose the formula for the sinusoidal positional encodings."""

    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder has this format, judging by file names and first bytes."""

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model.

        Raises:
            ZooError: A file is damaged, the model has a property that zoo does not support, or an option in `request`
                does not apply to this format.
        """


@dataclass(frozen=True)
class ExportCheck:
    """Result of running an exported model in the toolkit that it was exported for."""

    engine: str
    """Name and version of the toolkit."""
    difference: float
    """Largest difference in a token's log-probability. For `onnx`, the largest relative difference in any output."""
    reference: str = "the reference log-probabilities of the model"
    """Description of the results that the toolkit's results were compared with, for messages."""


class ExportFormat(Protocol):
    """Another toolkit's model format that zoo can export to."""

    name: ClassVar[str]
    """The value of `--to` that selects this format."""
    may_differ: ClassVar[Collection[str]] = ()
    """Fields of `architecture` that may have a different value in the exported model."""

    def reader(self, model: Model) -> ImportFormat | None:
        """Return the import format that can read the exported model back with identical tensors.

        Return None if there is no such import format.
        """
        return None

    def require_same_architecture(self, before: Architecture, after: Architecture) -> None:
        """Check that a model's architecture stays equivalent when the model is exported and imported again.

        Args:
            before: The architecture of the model. It has the layers of the original Transformer.
            after: The architecture that the import reads from the exported model.

        Raises:
            ZooError: The architectures differ in a field that changes the results. Added biases are allowed.
        """
        found = {key: value for key, _, value in _fields(after)}
        for key, label, value in _fields(before):
            name, other = key.rpartition(".")[2], found.get(key)
            is_added = name in _ZEROS_IF_ADDED and other
            if value != other and not is_added and label not in self.may_differ and name not in _ONLY_FOR_TRAINING:
                ours, theirs = (quote_in_full(each).strip("`") for each in (value, other))
                problem = f"in this format, `architecture.{label}: {ours}` would become `{theirs}`"
                raise cannot_export(self.name, problem)

    def write(self, model: Model, folder: Path) -> list[str]:
        """Write a model into an empty folder.

        Returns:
            Notes to show to the user.

        Raises:
            ZooError: The format cannot represent a property of the model.
        """

    def check(self, model: Model, references: ReferenceLogProbabilities, folder: Path) -> ExportCheck | None:
        """Run the exported model in its toolkit, and compare the results with zoo's.

        Return None if the toolkit is not installed.

        Args:
            model: The published model.
            references: Log-probabilities of a few sentence pairs. The exported model must compute the same values.
            folder: The folder of the exported model.
        """


def format_named(name: str, kind: str) -> Any:
    """Create an instance of the import or export format with this name.

    Args:
        name: Name of the format.
        kind: `import` or `export`.

    Raises:
        ZooError: There is no format with this name.
    """
    if name in FORMATS[kind]:
        return resolve_name(FORMATS[kind][name]["class"])()
    hint = f"{suggest(name, FORMATS[kind])}supported formats: {listed_formats(kind)}"
    raise ZooError(f"`{name}` is not an {kind} format", hint=hint)


def listed_formats(kind: str) -> str:
    """Return the names and descriptions of the formats in `FORMATS[kind]` as one string, for messages."""
    return "; ".join(f"{name} ({format['files']})" for name, format in FORMATS[kind].items())


def are_language_codes(languages: Sequence[str]) -> bool:
    """Return whether all strings are valid language codes, such as `en`, `pt-BR` and `eng_Latn`."""
    return all(map(_LANGUAGE_CODE.fullmatch, languages))


def language_codes(source: str, target: str) -> tuple[str, str] | None:
    """Convert another toolkit's language names to codes, such as en_XX to en-XX. Return None if a code is invalid."""
    codes = source.replace("_", "-"), target.replace("_", "-")
    return codes if are_language_codes(codes) else None


def require_folder(path: Path, format: str) -> None:
    """Raise ZooError unless `path` is a folder. Call this function for formats whose models are folders."""
    if not path.is_dir():
        raise ZooError(f"`{path}` is a file, but a model in {format} format is a folder", hint="use the model's folder")


def assemble(
    request: ImportRequest,
    description: str,
    architecture: Mapping[str, Any],
    embeddings: EmbeddingTables,
    vocabulary: ImportedVocabulary,
    decoding: Mapping[str, Any],
    tensors: ForeignTensors,
    read_layers: Callable[[ForeignTensors, Spec], Mapping[str, Tensor]],
) -> Model:
    """Assemble an imported model from its parts. Its spec lists no corpus files.

    Args:
        request: The name and the languages of the model.
        description: The description of the model. It may contain untrusted text from the model's files, so it is
            reduced to one line without markup.
        architecture: The fields of `architecture` that differ from the spec `base`, except the fields that
            `embeddings` determines.
        embeddings: The embeddings and the output projection.
        vocabulary: The converted vocabulary.
        decoding: The fields of `decoding` that differ from the spec `base`.
        tensors: The tensors that have not been used yet.
        read_layers: Function that pops the tensors of all layers from `tensors` and returns them with zoo's names.

    Raises:
        ZooError: The fields contradict each other, the model does not support a requested language, or tensors are
            missing, invalid or unknown.
    """
    converted, fields = embeddings.converted(vocabulary.source, vocabulary.target)
    architecture = {**architecture, **fields}
    sections = {"architecture": architecture, "decoding": decoding, "vocabulary": vocabulary.fields}
    if vocabulary.languages:
        sections["languages"] = vocabulary.languages
        languages = Languages.model_validate(vocabulary.languages)
        for code in request.languages or ():
            if code not in languages.codes:
                hint = suggest_language(code, languages)
                raise ZooError(f"the model does not support the language `{code}`", hint=hint)
    source, target = request.languages or vocabulary.direction or UNKNOWN_LANGUAGES
    corpus: dict[str, Any] = {"source": source, "target": target, "train": [], "dev": [], "test": []}
    if rows := architecture.get("positions", {}).get("rows"):
        corpus["max_length"] = min(_MAX_LENGTH, rows - 1 - ("languages" in sections))
    about = {"name": request.name, "description": _without_markup(description), "corpus": corpus}
    spec = specs.load("base", {**about, **sections}).with_short_name(request.name)
    layers = read_layers(tensors, spec)
    tensors.require_all_taken()
    return Model(spec, vocabulary.vocabulary, Weights({**layers, **converted}))


def _without_markup(text: str) -> str:
    """Replace the special characters of Markdown and HTML in a text with spaces, and shorten the text."""
    kept = "".join(character if character.isalnum() or character in "_-.,()'/" else " " for character in text)
    return " ".join(kept.split())[:_MAX_DESCRIPTION]


def search_fields(beam: int, extra_length: int, alpha: float = 1.0) -> dict[str, Any]:
    """Return the `decoding` section of a spec whose search divides scores by length^alpha.

    Args:
        beam: The beam size.
        extra_length: The maximum length of a translation in tokens, for sources of any length.
        alpha: The exponent of the length penalty.
    """
    fields = {"beam": beam, "alpha": alpha, "length_factor": 0.0, "extra_length": extra_length}
    return {**fields, "length_penalty": "power", "stopping_rule": "full"}


def cannot_export(format: str, reason: str) -> ZooError:
    """Return the error for a model that cannot be represented in a format."""
    return ZooError(f"cannot export this model to {format}: {reason}", hint=USE_ONNX)


def require_standard_layers(a: Architecture, format: str) -> None:
    """Raise ZooError unless the model has the layers of the original Transformer."""
    for side, supported in LAYERS.items():
        if (kinds := tuple(sublayer.kind for sublayer in getattr(a, side))) != supported:
            names, known = ", ".join(kinds), ", ".join(supported)
            raise cannot_export(format, f"its {side} layers consist of {names}, but this format requires {known}")


def _fields(a: Architecture) -> Iterator[tuple[str, str, Any]]:
    """Yield the key, the name for error messages, and the value of each field of an architecture.

    If a sub-layer's option is null, the name and the value come from the `architecture` field that applies instead.
    """
    options = {name for side in STACKS for sublayer in getattr(a, side) for name in type(sublayer).model_fields}
    for name in type(a).model_fields:
        if name not in (*STACKS, *options - {"norm"}):
            yield from _flat(name, name, getattr(a, name))
    for side in STACKS:
        for index, sublayer in enumerate(getattr(a, side)):
            for name in type(sublayer).model_fields:
                own, key = getattr(sublayer, name), f"{side}[{index}].{name}"
                common = a.option(sublayer, "h") if name == "kv_heads" else getattr(a, name, None)
                yield from _flat(key, *((name, common) if own is None else (key, own)))


def _flat(key: str, label: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, BaseModel):
        for name, part in value:
            yield from _flat(f"{key}.{name}", f"{label}.{name}", part)
    else:
        yield key, label, value
