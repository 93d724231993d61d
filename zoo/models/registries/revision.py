"""A revision: the small file that names the blobs of one state of a model. Once it is there it never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest

MOST = 1_000_000
"""Bytes of a revision's file."""
_SHOWN = 100  # characters of what others wrote
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Number = Annotated[int, Field(ge=1, lt=10**9)]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+$", max_length=100)]
_Text = Annotated[str, Field(max_length=10_000)]


class Written(BaseModel):
    """What is read as strictly as it was written; fields that a later zoo adds are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class File(Written):
    """A file of a bundle, as it was published: the blob that holds it is called by its SHA-256."""

    sha256: Digest
    bytes: Annotated[int, Field(ge=0, lt=10**15)]


class Summary(Written):
    """What a list says of a model. `dev` and `test` are by `metric`, None where nobody scored them."""

    task: _Text
    source: _Text
    target: _Text
    parameters: Annotated[int, Field(ge=0)]
    metric: _Text
    dev: float | None
    test: float | None
    description: _Text
    licence: _Text = ""
    """None is said where it is empty."""
    published: _Text
    """When: UTC, as ISO 8601 has it."""
    zoo: _Text
    """The version that published it."""


class Entry(Written):
    """A model as a registry's index has it: its newest revision."""

    name: Name
    revision: Number
    digest: Digest
    bytes: int
    summary: Summary


class Revision(Written):
    """Number `revision` of a model, counted from 1."""

    format: Literal[1] = 1
    name: Name
    revision: Number
    digest: Digest
    """The SHA-256 of the bundle's manifest, and so of all of it: what `@sha256:` pins."""
    files: Annotated[Mapping[_FileName, File], Field(min_length=2, max_length=1000)]
    """By their names in the bundle, the manifest among them."""
    summary: Summary

    @model_validator(mode="after")
    def _has_its_digest(self) -> Self:
        if manifest.NAME not in self.files or self.files[manifest.NAME].sha256 != self.digest:
            raise ValueError(f"its digest is not that of {manifest.NAME}")
        return self

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())

    @property
    def pin(self) -> str:
        return f"{self.name}@{self.revision}"

    @property
    def entry(self) -> Entry:
        return Entry(name=self.name, revision=self.revision, digest=self.digest, bytes=self.bytes, summary=self.summary)


class Forward(Written):
    """What `forward.json` says in the folder of an old name."""

    to: Name


def is_file_name(text: str) -> bool:
    """Whether a file of a bundle may be called so."""
    try:
        _FILE_NAME.validate_python(text)
    except ValidationError:
        return False
    return True


_FILE_NAME = TypeAdapter(_FileName)
_Kind = TypeVar("_Kind", bound=BaseModel)


def parsed(kind: type[_Kind], content: bytes, where: str) -> _Kind:
    """What JSON says. Raises ZooError where it is not JSON, or not of this kind."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))[:_SHOWN]
        reason = f"{key}: {first['msg']}" if key else first["msg"]
        raise ZooError(f"`{where}` is damaged: {reason[: 2 * _SHOWN]}", exit_code=1) from None
