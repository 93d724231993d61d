"""What a person writes for a published model: `NAME`, `NAME@2`, `NAME@sha256:...`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from specs import ZooError
from specs.spec import Name

_NAME = TypeAdapter(Name)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Reference:
    """A name, and the revision that it is pinned to: by number, by digest, or neither (the newest)."""

    name: str
    revision: int | None = None
    digest: str | None = None

    @property
    def pinned(self) -> bool:
        return self.revision is not None or self.digest is not None

    def __str__(self) -> str:
        pin = self.revision if self.digest is None else f"sha256:{self.digest}"
        return self.name if pin is None else f"{self.name}@{pin}"


def reference(text: str) -> Reference | None:
    """What `text` refers to; None where no model can be called so.

    Raises ZooError where a name is followed by an @ and by no revision.
    """
    name, at, pin = text.partition("@")
    if not is_name(name):
        return None
    if not at:
        return Reference(name)
    if _NUMBER.fullmatch(pin):
        return Reference(name, revision=int(pin))
    if found := _DIGEST.fullmatch(pin):
        return Reference(name, digest=found[1])
    hint = f"write its number (`{name}@2`), or `{name}@sha256:` and all 64 hexadecimal digits"
    raise ZooError(f"`{text}` pins no revision: `{pin}` is none", hint=f"{hint}; `zoo list --published` shows numbers")


def is_name(text: str) -> bool:
    """Whether a model may be called so: as the `name` of a spec, which leads out of no folder."""
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True
