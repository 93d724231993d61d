"""Values as they were written: each knows its file and its line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Written:
    """A value and its place. Mappings and lists hold further written values."""

    value: Any
    file: str
    line: int | None = None

    @property
    def where(self) -> str:
        """The place, as an error shows it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def plain(self) -> Any:
        """The value alone, as Python's own dict, list, str, int, float, bool or None."""
        if isinstance(self.value, dict):
            return {key: value.plain() for key, value in self.value.items()}
        if isinstance(self.value, list):
            return [value.plain() for value in self.value]
        return self.value

    def overlaid(self, upper: "Written") -> "Written":
        """`upper` laid over this: mappings merge, all else replaces.

        A merged mapping stands where `upper`'s does, unless that has no line: what it lacks
        is then missing here.
        """
        if not (isinstance(self.value, dict) and isinstance(upper.value, dict)):
            return upper
        merged = dict(self.value)
        for key, value in upper.value.items():
            merged[key] = merged[key].overlaid(value) if key in merged else value
        place = self if upper.line is None else upper
        return Written(merged, place.file, place.line)

    def at(self, location: Sequence[str | int]) -> "Written":
        """The value at `location` (keys and indices), or the innermost one on the way there that exists."""
        found = self
        for step in location:
            inside = found.value
            here = dict(enumerate(inside)) if isinstance(inside, list) else inside
            if not isinstance(here, dict) or step not in here:
                break
            found = here[step]
        return found


def given(value: object, file: str, line: int | None = None) -> Written:
    """A value of Python's own as a written one; `file` says where it came from, and `line` what it stands for."""
    if isinstance(value, Mapping):
        return Written({str(key): given(inner, file, line) for key, inner in value.items()}, file, line)
    if isinstance(value, (list, tuple)):
        return Written([given(inner, file, line) for inner in value], file, line)
    return Written(value, file, line)
