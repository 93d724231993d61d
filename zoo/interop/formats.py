"""Interfaces that a foreign format implements, and the data that it exchanges with the importer and the exporter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

import specs
from specs import Spec, ZooError
from zoo.publishing.proof import ReferenceLogProbabilities
from zoo.text.vocabulary import Vocabulary

PositionConvention = Literal["marian", "transformers"]
"""Toolkit whose formula for sinusoidal positions a Hugging Face Marian model was trained with."""
UNKNOWN_LANGUAGES = ("und", "und")
"""Languages of a model whose files do not name them. `und` is the code of ISO 639 for "undetermined"."""
_LANGUAGE_CODE = re.compile(r"(?=.{2,35}$)[a-z]{2,3}(-[A-Za-z0-9]+)*")
_MAX_LENGTH = 256  # tokens: the `corpus.max_length` of base
_MAX_DESCRIPTION = 200  # characters


@dataclass(frozen=True)
class ImportRequest:
    """Choices of the user that a format takes into account when it reads a model."""

    name: str
    """Name of the model in the local model store, and of its spec."""
    languages: tuple[str, str] | None = None
    """Codes of the source and target language. If None, the files name them, or they are `UNKNOWN_LANGUAGES`."""
    positions: PositionConvention | None = None
    """Formula of the sinusoidal positions. If None, the format chooses it."""
    origin_name: str | None = None
    """Name of the model where it comes from. If None, it is the name of its file or folder."""


@dataclass(frozen=True)
class ImportedModel:
    """A foreign model converted to zoo's token IDs, tensor names and tensor layout."""

    spec: Spec
    vocabulary: Vocabulary
    tensors: Mapping[str, Tensor]
    """Weights in float32, by their names in a weights file."""
    origin: Mapping[str, str]
    """Origin of the model: `format`, `source` (file or folder), `engine`, and choices such as `positions`. The
    bundle's facts contain them."""
    notes: tuple[str, ...] = ()
    """Sentences for the user about the model."""


@dataclass(frozen=True)
class EngineTranslation:
    """A translation by the engine that a model comes from."""

    text: str
    log_probability: float
    """Natural logarithm of the probability of all tokens, including EOS, before any length penalty."""
    tokens: Sequence[str] | None = None
    """Tokens of the translation without EOS. None if the engine does not return them."""


class Engine(Protocol):
    """Foreign engine with an open model, used to check an import."""

    version: str
    """Name and version of the engine, for messages."""

    def translate(self, texts: Sequence[str], beam: int | None = None) -> Sequence[EngineTranslation]:
        """Return the best translation of each text, computed on one thread.

        Args:
            texts: The source sentences.
            beam: The beam size. By default, the search uses the model's own settings.
        """
        ...


@runtime_checkable
class ScoringEngine(Engine, Protocol):
    """Engine whose search does not compute the model as it was trained, but whose scorer does.

    A check scores its translations in both engines and does not compare them with those of zoo.
    """

    def score(self, texts: Sequence[str], translations: Sequence[EngineTranslation]) -> Sequence[EngineTranslation]:
        """Return the translations with the log-probabilities of the scorer.

        Args:
            texts: The source sentences.
            translations: Their translations by this engine.
        """
        ...


class ImportFormat(Protocol):
    """A format that models are imported from."""

    @property
    def name(self) -> str:
        """The value of `--format` that selects this format."""

    @property
    def description(self) -> str:
        """The files that identify the format, in a few words."""

    @property
    def engine(self) -> str | None:
        """The Python module of the engine that `--check` runs, or None if zoo runs no engine of this format."""

    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder has this format, judging by file names and first bytes."""
        ...

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model.

        Raises:
            ZooError: A file is damaged, or the model has a property that a spec cannot express.
        """
        ...

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in the engine that it comes from. The engine's Python module must be installed."""
        ...


@dataclass(frozen=True)
class Bundle:
    """Content of a published model, as the exporter passes it to a format."""

    spec: Spec
    vocabulary: Vocabulary
    tensors: Mapping[str, Tensor]
    proof: ReferenceLogProbabilities
    """Reference log-probabilities, which the exported model must reproduce."""


@dataclass(frozen=True)
class ExportCheck:
    """Result of running an exported model in its engine."""

    engine: str
    """Name and version of the engine."""
    difference: float
    """Largest difference of the log-probability of a token. For `onnx`, the largest relative difference of a number."""
    reference: str = "the reference log-probabilities of the model"
    """Results that the engine's results were compared with."""


class ExportFormat(Protocol):
    """A format that published models are exported to."""

    @property
    def name(self) -> str:
        """The value of `--to` that selects this format."""

    @property
    def description(self) -> str:
        """The written files, in a few words."""

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the format that reads the exported model back with identical tensors, or None if there is none."""
        ...

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write a model into an empty folder.

        Returns:
            Sentences for the user about the exported model.

        Raises:
            ZooError: The format cannot express a property of the model.
        """
        ...

    def check(self, bundle: Bundle, folder: Path) -> ExportCheck | None:
        """Run the exported model in its engine. Return None if the engine is not installed."""
        ...


def are_language_codes(languages: Sequence[str]) -> bool:
    """Return whether all values are language codes that a spec accepts, such as `en` and `pt-BR`."""
    return all(map(_LANGUAGE_CODE.fullmatch, languages))


def require_folder(path: Path, format: str) -> None:
    """Raise ZooError if a path is not a folder. For formats whose models are folders."""
    if not path.is_dir():
        raise ZooError(f"`{path}` is a file, but a model in the format {format} is a folder", hint="name its folder")


def imported_spec(request: ImportRequest, description: str, **sections: Mapping[str, Any]) -> Spec:
    """Return the spec of an imported model. It has no corpus files.

    Args:
        request: The name and the languages of the model.
        description: The description of the model. It may contain text from foreign files, so it is reduced to one line
            without markup.
        sections: The fields of `architecture`, `vocabulary` and `decoding` that differ from the spec `base`.

    Raises:
        ZooError: The sections contradict each other.
    """
    source, target = request.languages or UNKNOWN_LANGUAGES
    corpus: dict[str, Any] = {"source": source, "target": target, "train": [], "dev": [], "test": []}
    architecture = sections["architecture"]
    if rows := architecture.get("positions", {}).get("rows"):
        corpus["max_length"] = min(_MAX_LENGTH, rows - 1)
    fields = {"name": request.name, "description": _without_markup(description), "corpus": corpus, **sections}
    return specs.load("base", fields).with_short_name(request.name)


def _without_markup(text: str) -> str:
    """Return only letters, digits and punctuation that a Markdown or HTML page displays as it is."""
    kept = "".join(character if character.isalnum() or character in "_-.,()'/" else " " for character in text)
    return " ".join(kept.split())[:_MAX_DESCRIPTION]
