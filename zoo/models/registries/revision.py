"""Revisions of published models, references to them such as `NAME@2`, and the other JSON records of a registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest
from zoo.files.manifest import Digest, ManifestEntry
from zoo.files.reading import damaged

MAX_BYTES = 1_000_000
"""Maximum size of a revision's JSON file, in bytes."""
_RESTORE_HINT = "restore the file from its source, or ask the owner of the registry to do so"
_QUOTED_CHARACTERS = 100  # maximum length of text from a registry in an error message
Number = Annotated[int, Field(ge=1, lt=10**9)]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+$", max_length=100)]
_Text = Annotated[str, Field(max_length=10_000)]


class Record(BaseModel):
    """Base class for JSON records. Types are checked strictly. Fields that are unknown to this version are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class Summary(Record):
    """Properties of a model that `zoo list` prints. `dev` and `test` are scores, or None if there is no score."""

    task: _Text
    source: _Text
    target: _Text
    languages: list[_Text] = []
    """Languages of a multilingual model, which translates from each language to all others."""
    parameters: Annotated[int, Field(ge=0)]
    metric: _Text
    dev: float | None
    test: float | None
    description: _Text
    licence: _Text = ""
    """Licence of the model. Empty if the publisher did not specify one."""
    published: _Text
    """Time of publication in UTC, in ISO 8601 format."""
    zoo: _Text
    """Version of zoo that published the model."""


class IndexEntry(Record):
    """Entry in the index of a registry: the newest revision of a model."""

    name: Name
    revision: Number
    digest: Digest
    bytes: int
    summary: Summary


class Revision(Record):
    """Published version of a model. It lists the model's files, and never changes. Revision numbers start at 1."""

    format: Literal[1] = 1
    name: Name
    revision: Number
    digest: Digest
    """SHA-256 of the bundle's manifest, which identifies all of its files."""
    files: Annotated[Mapping[_FileName, ManifestEntry], Field(min_length=2, max_length=1000)]
    """All files of the bundle, including the manifest. The keys are file names. The registry stores the content of a
    file as a blob, which is named after its SHA-256."""
    summary: Summary

    @model_validator(mode="after")
    def _check_digest(self) -> Self:
        if manifest.NAME not in self.files or self.files[manifest.NAME].sha256 != self.digest:
            raise ValueError(f"the digest is not the SHA-256 of {manifest.NAME}")
        return self

    @property
    def bytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.bytes for file in self.files.values())

    @property
    def pin(self) -> str:
        """The reference to this revision, such as `NAME@2`."""
        return str(Reference(self.name, self.revision))

    @property
    def entry(self) -> IndexEntry:
        """The index entry of this revision."""
        return IndexEntry.model_validate(self, from_attributes=True)


_Record = TypeVar("_Record", bound=BaseModel)


def parse_record(kind: type[_Record], content: bytes, location: str, hint: str = _RESTORE_HINT) -> _Record:
    """Parse a JSON record.

    Args:
        kind: The class of the record.
        content: The JSON text.
        location: The path or address of the file, for error messages.
        hint: What to do if the file is damaged.

    Raises:
        ZooError: The content is not a record of this kind.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))[:_QUOTED_CHARACTERS]
        reason = f"{key}: {first['msg']}" if key else first["msg"]
        raise damaged(location, reason[: 2 * _QUOTED_CHARACTERS], hint) from None


@dataclass(frozen=True)
class Reference:
    """Reference to a published model: a name, and optionally a revision number."""

    name: str
    revision: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a reference: `NAME` or `NAME@2`. Return None if NAME is not a valid model name.

        Raises:
            ZooError: The part after the @ is not a revision number.
        """
        name, at, number = text.partition("@")
        if not is_name(name):
            return None
        if at and not re.fullmatch(r"[1-9][0-9]{0,8}", number):
            hint = f"write a number, such as `{name}@2`; to see the numbers, run `zoo list --published`"
            raise ZooError(f"`{number}` in `{text}` is not a revision number", hint=hint)
        return cls(name, int(number) if at else None)

    @property
    def pinned(self) -> bool:
        """Whether the reference specifies a revision. Otherwise, it refers to the newest revision."""
        return self.revision is not None

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name}@{self.revision}"


def is_name(text: str) -> bool:
    """Return whether a string is a valid model name. The `name` field of a spec follows the same rule."""
    return bool(_NAME.validator.isinstance_python(text))


def is_file_name(text: str) -> bool:
    """Return whether a string is a valid name for a file of a published model."""
    return bool(_FILE_NAME.validator.isinstance_python(text))


_NAME = TypeAdapter[str](Name, config=ConfigDict(defer_build=True))
_FILE_NAME = TypeAdapter[str](_FileName, config=ConfigDict(defer_build=True))
