"""What is read of a foreign model, and what a format has to know to read it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from torch import Tensor

from specs import Spec, ZooError
from zoo.text.vocabulary import Vocabulary

Positions = Literal["marian", "transformers"]


@dataclass(frozen=True)
class Wanted:
    """What the user says of a model, where it may be said. What is None is as the format finds it."""

    name: str
    """Of the model on the shelf; it is that of the spec, too."""
    languages: tuple[str, str] | None = None
    """Source and target; None: as the files say, and where they do not, `LANGUAGES`."""
    positions: Positions | None = None
    """Whose sinusoids the model was trained with, where a format has to be told."""
    called: str | None = None
    """What the model is called where it comes from; None: as its file or folder."""


LANGUAGES = ("und", "und")
"""Of a model whose files do not say: ISO 639's code for undetermined."""
_CODE = re.compile(r"(?=.{2,35}$)[a-z]{2,3}(-[A-Za-z0-9]+)*")


def are_codes(languages: Sequence[str]) -> bool:
    """Whether a spec has a place for each of these languages: codes such as en and pt-BR."""
    return all(map(_CODE.fullmatch, languages))


def require_folder(place: Path, format: str) -> None:
    """Raises ZooError for a file, where models of a format are folders."""
    if not place.is_dir():
        raise ZooError(f"`{place}` is a file, and a model of {format} is a folder", hint="name its folder")


@dataclass(frozen=True)
class Imported:
    """A foreign model in our words: ids of PAD, UNK, BOS and EOS, names and layout of tensors are ours."""

    spec: Spec
    vocabulary: Vocabulary
    tensors: Mapping[str, Tensor]
    """float32, as a weights file has them."""
    origin: Mapping[str, str]
    """Where it comes from: `format`, `source` (the file or folder), `engine`, and what was chosen, such as
    `positions`; they stand among the bundle's facts."""
    notes: tuple[str, ...] = ()
    """What the user should know of it, a sentence each."""


@dataclass(frozen=True)
class Answer:
    """A translation by the engine that a model comes from."""

    text: str
    log_probability: float
    """Natural, of the whole translation, EOS counted, before any penalty of its length."""
    tokens: Sequence[str] | None = None
    """Of the translation, EOS not among them; None where the engine does not say."""


class Engine(Protocol):
    """The engine of a format with a model of it open, to be held against ours."""

    version: str
    """Name and version, as they are told."""

    def translate(self, texts: Sequence[str], beam: int | None = None) -> Sequence[Answer]:
        """The best translation of each, on one thread, searched for as the model's own settings say but for `beam`."""
        ...


class Format(Protocol):
    """A kind of foreign model."""

    @property
    def name(self) -> str:
        """What `--format` calls it."""

    @property
    def description(self) -> str:
        """What it is, in a few words: the files that it is known by."""

    @property
    def engine(self) -> str | None:
        """The module of the engine that it comes from; None where there is none to ask."""

    def recognises(self, place: Path) -> bool:
        """Whether this file or folder is one, as far as its names and first bytes tell."""
        ...

    def read(self, place: Path, wanted: Wanted) -> Imported:
        """The model. Raises ZooError for a damaged file, and by name for what a spec cannot say."""
        ...

    def open(self, place: Path, imported: Imported) -> Engine:
        """The engine with this model, as it was imported. Only where its module is installed."""
        ...
