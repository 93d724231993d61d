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
    writes it, and a shipped spec says `.`, it is the folder of the one that lists the files of the corpus; where
    several list some, in several folders, each part's paths start at its own. What a shipped spec, a whole one (such as
    a run's own) or one of the `overrides` writes is meant from the current folder on.
    """
    corpus = written.at(["corpus"]).value
    folder = corpus.get("folder") if isinstance(corpus, dict) else None
    if folder is None or not isinstance(folder.value, str):
        return written
    files = {source.file for source in own}
    place = folder.file
    if place not in files and folder.value == _HERE and place not in overrides:
        places = dict.fromkeys(part.file for split in _SPLITS for part in _of_files(corpus.get(split)))
        if len({_start(each, files) for each in places}) > 1:
            return written.overlaid(_each_from_its_own(corpus, files, written.file))
        place = next(iter(places), place)
    if place not in files:
        return written
    value = _moved(folder.value, _start(place, files))
    moved = Written({"corpus": Written({"folder": Written(value, folder.file, folder.line)}, folder.file)}, folder.file)
    return written.overlaid(moved)


def _each_from_its_own(corpus: Mapping[str, Written], files: Collection[str], file: str) -> Written:
    def moved(part: Written) -> Written:
        start = _start(part.file, files)
        paths = {key: part.value[key] for key in _PATHS if key in part.value}
        texts = {key: path for key, path in paths.items() if isinstance(path.value, str)}
        return replace(part, value=part.value | {k: replace(t, value=_moved(t.value, start)) for k, t in texts.items()})

    splits = {split: corpus[split] for split in _SPLITS if split in corpus}
    lists = {split: _with_files(parts, moved) for split, parts in splits.items()}
    return Written({"corpus": Written(lists, file)}, file)


def _with_files(parts: Written, moved: Callable[[Written], Written]) -> Written:
    if not isinstance(parts.value, list):
        return parts
    return replace(parts, value=[moved(part) if _is_of_files(part.value) else part for part in parts.value])


def _start(place: str, files: Collection[str]) -> str:
    """The folder that paths written there start from, as it is seen from the current one."""
    return os.path.dirname(place) if place in files else ""


def _moved(path: str, start: str) -> str:
    whole = path if path.startswith("~") else os.path.join(start, path)
    return path if whole == path else os.path.normpath(whole)


def _of_files(parts: Written | None) -> Iterator[Written]:
    """The parts that name local files."""
    several = parts.value if parts is not None and isinstance(parts.value, list) else []
    return (part for part in several if _is_of_files(part.value))


def _is_of_files(part: Any) -> bool:
    return isinstance(part, Mapping) and ("trees" in part or ("source" in part and "archive" not in part))
