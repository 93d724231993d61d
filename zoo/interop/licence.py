"""Under which licence a model stands, where the card beside it says so."""

from __future__ import annotations

import re
from pathlib import Path

from zoo.files.reading import file_exists, open_file

_CARD = "README.md"
_MOST = 65_536
_SAID = re.compile(rb"^license:[ \t]*[\"']?([A-Za-z0-9][\w.+-]{0,99})[\"']?[ \t]*$", re.MULTILINE | re.ASCII)


def licence_of(place: Path) -> str | None:
    """As the front matter of a folder's card has it (`license: apache-2.0`), which the Hub's cards begin with."""
    card = place / _CARD
    if not place.is_dir() or not file_exists(card):
        return None
    with open_file(card) as file:
        first, _, rest = file.read(_MOST).replace(b"\r\n", b"\n").partition(b"\n")
    matter, ends, _ = rest.partition(b"\n---")
    found = _SAID.search(matter) if first == b"---" and ends else None
    return found[1].decode() if found else None
