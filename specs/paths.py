"""Where the paths of a corpus start: at the file that writes them."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from specs.catalogue import Source
from specs.written import Written

_SPLITS = ("train", "dev", "test")
_PATHS = ("source", "target", "trees")
_HERE = "."


def from_their_files(written: Written, own: Sequence[Source], overrides: Collection[str] = ()) -> Written:
    """The values with `corpus.folder` as it is seen from the current folder.

    One of the files `own`, which are a person's and extend others, means it from its own folder on. Where none of them
    writes it, and a shipped spec says `.`, it is the folder of the one that lists the first files of the corpus, and
    paths that another one lists, in another folder, are told from there. What a shipped spec, a whole one (such as a
    run's own) or one of the `overrides` writes is meant from the current folder on.
    """
    corpus = written.at(["corpus"]).value
    folder = corpus.get("folder") if isinstance(corpus, dict) else None
    if folder is None or not isinstance(folder.value, str):
        return written
    files = {source.file for source in own}
    place = folder.file
    if place not in files and folder.value == _HERE and place not in overrides:
        parts = [part for split in _SPLITS for part in _of_files(corpus.get(split))]
        place = parts[0].file if parts else place
        written = written.overlaid(_from_there(_start(place, files), corpus, files, written.file))
    if place not in files:
        return written
    value = _moved(folder.value, _start(place, files))
    moved = Written({"corpus": Written({"folder": Written(value, folder.file, folder.line)}, folder.file)}, folder.file)
    return written.overlaid(moved)


def _from_there(there: str, corpus: Mapping[str, Written], files: Collection[str], file: str) -> Written:
    """The parts with their paths as they are seen from the folder `there`; each is written as from its own."""

    def seen(part: Written) -> Written:
        start = _start(part.file, files)
        if start == there:
            return part
        paths = {key: part.value[key] for key in _PATHS if key in part.value}
        told = {key: path for key, path in paths.items() if isinstance(path.value, str) and _is_relative(path.value)}
        texts = {key: os.path.relpath(os.path.join(start, path.value), there or _HERE) for key, path in told.items()}
        return replace(part, value=part.value | {key: replace(told[key], value=text) for key, text in texts.items()})

    splits = {split: _with_files(corpus[split], seen) for split in _SPLITS if split in corpus}
    return Written({"corpus": Written(splits, file)}, file)


def _with_files(parts: Written, seen: Callable[[Written], Written]) -> Written:
    if not isinstance(parts.value, list):
        return parts
    return replace(parts, value=[seen(part) if _is_of_files(part.value) else part for part in parts.value])


def _start(place: str, files: Collection[str]) -> str:
    """The folder that paths written there start from, as it is seen from the current one."""
    return os.path.dirname(place) if place in files else ""


def _moved(folder: str, start: str) -> str:
    whole = os.path.join(start, folder) if _is_relative(folder) else folder
    return folder if whole == folder else os.path.normpath(whole)


def _is_relative(path: str) -> bool:
    return bool(path) and not path.startswith("~") and not os.path.isabs(path)


def _of_files(parts: Written | None) -> Iterator[Written]:
    """The parts that name local files."""
    several = parts.value if parts is not None and isinstance(parts.value, list) else []
    return (part for part in several if _is_of_files(part.value))


def _is_of_files(part: Any) -> bool:
    return isinstance(part, Mapping) and ("trees" in part or ("source" in part and "archive" not in part))
