"""Resolve the paths of a corpus against the file that lists them."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from specs.reader import LocatedValue

_SPLITS = ("train", "dev", "test")
_PATH_FIELDS = ("source", "target", "trees")


def resolve_folder(spec: LocatedValue, user_files: Collection[str], overrides: Collection[str] = ()) -> LocatedValue:
    """Make `corpus.folder` relative to the current folder, and return the changed values.

    If a user's file sets `folder`, its value is relative to that file. In a shipped spec, in a complete spec (such as
    that of a run) and in an override, it is already relative to the current folder.

    If no user's file sets `folder`, and the shipped spec has `.`, the path of each corpus part is relative to the file
    that lists the part. `folder` then becomes the folder of the first such file. Paths from other files are rewritten
    to be relative to it.

    Args:
        spec: The merged values.
        user_files: Files of the user that extend another spec.
        overrides: Origins of overrides.
    """
    corpus = spec.at(["corpus"]).value
    folder = corpus.get("folder") if isinstance(corpus, dict) else None
    if folder is None or not isinstance(folder.value, str):
        return spec
    origin = folder.file
    if origin not in user_files and origin not in overrides and folder.value == ".":
        parts = [part for split in _SPLITS for part in _parts(corpus, split) if _has_paths(part.value)]
        origin = parts[0].file if parts else origin
        base = _folder_of(origin, user_files)
        splits = {
            split: replace(corpus[split], value=[_rebased(part, base, user_files) for part in _parts(corpus, split)])
            for split in _SPLITS
            if isinstance(getattr(corpus.get(split), "value", None), list)
        }
        spec = spec.overlaid(LocatedValue({"corpus": LocatedValue(splits, spec.file)}, spec.file))
    if origin not in user_files:
        return spec
    path = folder.value
    if _is_relative(path) and (base := _folder_of(origin, user_files)):
        path = os.path.normpath(os.path.join(base, path))
    resolved = LocatedValue({"folder": replace(folder, value=path)}, folder.file)
    return spec.overlaid(LocatedValue({"corpus": resolved}, folder.file))


def _rebased(part: LocatedValue, base: str, user_files: Collection[str]) -> LocatedValue:
    """Return a part with its paths relative to the folder `base` instead of that of its own file."""
    start = _folder_of(part.file, user_files)
    if start == base or not _has_paths(part.value):
        return part
    rebased = dict(part.value)
    for field in _PATH_FIELDS:
        path = rebased.get(field)
        if path is not None and isinstance(path.value, str) and _is_relative(path.value):
            rebased[field] = replace(path, value=os.path.relpath(os.path.join(start, path.value), base or "."))
    return replace(part, value=rebased)


def _parts(corpus: Mapping[str, LocatedValue], split: str) -> list[LocatedValue]:
    parts = corpus[split].value if split in corpus else None
    return parts if isinstance(parts, list) else []


def _folder_of(file: str, user_files: Collection[str]) -> str:
    """Return the folder that paths in `file` start from, relative to the current folder."""
    return os.path.dirname(file) if file in user_files else ""


def _is_relative(path: str) -> bool:
    return bool(path) and not path.startswith("~") and not os.path.isabs(path)


def _has_paths(part: Any) -> bool:
    """Return whether a part names local files."""
    return isinstance(part, Mapping) and ("trees" in part or ("source" in part and "archive" not in part))
