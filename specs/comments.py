"""Why a spec's file says what it says: the comments that stand beside its values."""

import os
from collections import Counter
from collections.abc import Iterator

import yaml

from specs.catalogue import find
from specs.reader import read
from specs.written import Written

_MODELINE = "yaml-language-server:"


def comments(reference: str | os.PathLike[str]) -> dict[str, str]:
    """Dotted key -> the comment on the line of its value, in the file that `reference` names and in no other.

    A line of several values says of none which it means. Under the empty key stands what the file says before its first
    one. Raises ZooError as `load` does.
    """
    source = find(os.fspath(reference))
    text = source.text()
    beside, before = _by_line(text)
    leaves = list(_leaves(read(text, source.file)))
    alone = {line for line, count in Counter(line for _, line in leaves).items() if count == 1}
    found = {key: beside[line] for key, line in leaves if line in alone and line in beside}
    return ({"": before} if before else {}) | found


def _by_line(text: str) -> tuple[dict[int, str], str]:
    """Line -> the comment after what stands there; and those that stand alone before the first value."""
    ends: dict[int, int] = {}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        mark = token.end_mark
        if not isinstance(token, yaml.StreamStartToken | yaml.BlockEndToken | yaml.StreamEndToken):
            ends[mark.line] = max(ends.get(mark.line, 0), mark.column)
    beside: dict[int, str] = {}
    before: list[str] = []
    for number, line in enumerate(text.splitlines()):
        after = line[ends.get(number, 0) :].strip()
        if not after.startswith("#") or _MODELINE in after:
            continue
        if number in ends:
            beside[number + 1] = after.lstrip("# ")
        elif not any(each < number for each in ends):
            before.append(after.lstrip("# "))
    return beside, " ".join(before)


def _leaves(written: Written, prefix: str = "") -> Iterator[tuple[str, int | None]]:
    for key, value in written.value.items():
        if isinstance(value.value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value.line
