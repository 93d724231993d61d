"""Where the paths of a corpus start: at the file that writes them."""

import os
from collections.abc import Mapping, Sequence

from specs.catalogue import Source
from specs.written import Written

_SPLITS = ("train", "dev", "test")
_HERE = "."


def from_their_files(written: Written, own: Sequence[Source]) -> Written:
    """The values with `corpus.folder` as it is seen from the current folder.

    One of the files `own`, which are a person's and extend others, means it from its own folder on. Where none of them
    writes it, and a shipped spec says `.`, it is the folder of the one that lists the files of the corpus. What a
    shipped spec, a whole one (such as a run's own) or an override writes is meant from the current folder on.
    """
    corpus = written.at(["corpus"]).value
    folder = corpus.get("folder") if isinstance(corpus, dict) else None
    if folder is None or not isinstance(folder.value, str):
        return written
    files = {source.file for source in own}
    place = folder.file
    if place not in files and folder.value == _HERE and not folder.file.startswith(_GIVEN):
        place = next((part.file for split in _SPLITS if (part := _first_of_files(corpus.get(split)))), place)
    if place not in files:
        return written
    start = folder.value if folder.value.startswith("~") else os.path.join(os.path.dirname(place), folder.value)
    value = start if start == folder.value else os.path.normpath(start)
    moved = Written({"corpus": Written({"folder": Written(value, folder.file, folder.line)}, folder.file)}, folder.file)
    return written.overlaid(moved)


def _first_of_files(parts: Written | None) -> Written | None:
    """The first part that names local files."""
    several = parts.value if parts is not None and isinstance(parts.value, list) else []
    return next((part for part in several if isinstance(part.value, Mapping) and _is_of_files(part.value)), None)


def _is_of_files(part: Mapping[str, Written]) -> bool:
    return "trees" in part or ("source" in part and "archive" not in part)


_GIVEN = ("command line", "override")
