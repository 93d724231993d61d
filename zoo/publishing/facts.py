"""`facts.json`: where a model comes from and what it took to make it, as its publisher knew it (no torch is loaded)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from specs import Spec, ZooError
from zoo.files.files import write_json
from zoo.files.manifest import Manifest

NAME = "facts.json"
_Text = Annotated[str, Field(max_length=10_000)]
_Texts = Annotated[dict[_Text, _Text], Field(max_length=10_000)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class Parent:
    """The shipped spec that it is nearest to, and each field that is otherwise: what there, what here."""

    spec: _Text
    changed: Annotated[dict[_Text, tuple[_Text, _Text]], Field(max_length=1_000)]


@dataclass(frozen=True)
class Text:
    """What it was trained and scored on: `fingerprint` of the prepared corpus, SHA-256 of its files and archives."""

    fingerprint: _Text = ""
    files: _Texts = field(default_factory=dict)
    archives: _Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """Of a learning curve: the loss of the steps before, and scores of the dev set by the names of metrics."""

    step: _Count
    loss: float | None
    dev: Annotated[dict[_Text, float], Field(max_length=100)]


@dataclass(frozen=True)
class Training:
    """What is not known is None, or empty."""

    seed: _Count
    averaged: Annotated[tuple[_Count, ...], Field(max_length=100_000)] = ()
    """The steps of the checkpoints that the weights are the mean of."""
    steps: _Count | None = None
    """That were done."""
    flops: float | None = None
    """Of matrix products, forward and backward, padding left out: the compiler's count for the tokens that were read;
    without a log, the steps times a full batch."""
    priced: float | None = None
    """FLOPs as section 6.1 estimates them: time, times devices, times what one of them reaches."""
    seconds: float | None = None
    devices: _Count | None = None
    machine: _Text = ""
    software: _Text = ""
    curve: Annotated[tuple[Point, ...], Field(max_length=10_000)] = ()


@dataclass(frozen=True)
class Facts:
    """`spec` is the fingerprint of what it is and was learned by: of one recipe, two that the same format of specs
    wrote have the same."""

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    spec: _Text = ""
    published: _Text = ""
    """When, as ISO 8601 has it."""
    by: _Text = ""
    """The version of zoo."""
    parent: Parent | None = None
    text: Text = Text()
    training: Training | None = None
    imported: _Texts = field(default_factory=dict)
    """Of a model that was made elsewhere: its format, its source, what was chosen, what a comparison said."""
    notes: Annotated[tuple[_Text, ...], Field(max_length=1_000)] = ()
    """What its users should know: they stand among its limits."""

    def write(self, folder: Path) -> None:
        """Into a bundle's folder."""
        write_json(folder / NAME, asdict(self))


_FACTS = TypeAdapter(Facts)


def read(listed: Manifest) -> Facts:
    """Those of a bundle; of one that was published before there were any, none. Raises ZooError where damaged."""
    return parsed(listed.content(NAME), str(listed.folder / NAME)) if NAME in listed.entries else Facts()


def parsed(written: bytes, path: str) -> Facts:
    """Out of what was read from a file. Raises ZooError where that is damaged."""
    try:
        return _FACTS.validate_json(written)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        problem = f"`{path}` is damaged: `{where}` is not what such a file says" if where else f"`{path}` is damaged"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1) from None


def fingerprint(spec: Spec) -> str:
    """SHA-256 of the spec but for its name, its description, its licence and where on a disk its corpus lies."""
    corpus = spec.corpus.model_copy(update={"folder": "."})
    bare = spec.model_copy(update={"name": "x", "description": "", "licence": None, "corpus": corpus})
    return sha256(bare.yaml().encode()).hexdigest()
