"""Resolve the paths of corpus files, and check that the languages of training files are set."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specs.corpus import SPLITS, Corpus, kind_of_part
from specs.errors import ZooError
from specs.reader import LocatedValue


def resolve_folder(spec: LocatedValue, user_files: Collection[str], overrides: Collection[str] = ()) -> LocatedValue:
    """Make `corpus.folder` relative to the current folder, and return all values of the spec with this change.

    If a user's file sets `folder`, its value is relative to that file. Values in a shipped spec, in an override, or in
    a spec without `extends` (such as the spec of a run) are already relative to the current folder.

    If no user's file sets `folder`, the paths in a corpus part are relative to the file that lists the part. For a
    part in the shipped spec, the paths are relative to the `folder` of this spec. The base folder of the first part
    then becomes `folder`, and all other paths are rewritten to be relative to this folder.

    Args:
        spec: The merged values of all files and overrides.
        user_files: Names of the user's files that extend another spec.
        overrides: Names of the overrides. Values from overrides have these names instead of file names.
    """
    corpus = _mapping(spec.at(["corpus"]))
    folder = corpus.get("folder")
    if folder is None or not isinstance(folder.value, str) or folder.file in overrides:
        return spec
    origin, path, changed = folder.file, folder.value, dict[str, LocatedValue]()
    if origin in user_files:
        if _is_relative(path) and (base := os.path.dirname(origin)):
            path = os.path.normpath(os.path.join(base, path))
    else:
        shipped = "" if path == "." else path
        parts = [part for split in SPLITS for part in _parts(corpus, split) if _path_fields(part.value)]
        base = _start_of(parts[0], user_files, shipped) if parts else shipped
        changed = {
            split: replace(corpus[split], value=[_rebased(part, base, user_files, shipped) for part in listed])
            for split in SPLITS
            if (listed := _parts(corpus, split))
        }
        path = base or "."
    changed["folder"] = replace(folder, value=path)
    return spec.overlaid(LocatedValue({"corpus": LocatedValue(changed, folder.file)}, folder.file))


def require_languages(layers: Sequence[LocatedValue], corpus: Corpus) -> None:
    """Check that a spec with its own training files also sets their languages, instead of inheriting other languages.

    Args:
        layers: The values of each spec file, followed by the values of all overrides. Later values replace earlier
            values.
        corpus: The corpus after merging all layers.

    Raises:
        ZooError: A layer lists training files whose suffixes differ from the languages of `corpus`, and neither this
            layer nor a later layer sets the languages of `corpus`.
    """
    listing = [index for index, layer in enumerate(layers) if _training_files(layer)]
    if not listing:
        return
    files = _training_files(layers[listing[-1]])
    set_there = {key for layer in layers[listing[-1] :] for key in _mapping(layer.at(["corpus"]))}
    missing: dict[str, str] = {}
    for side in ("source", "target"):
        own = f"{side}_language"  # a part with this key does not use the language of the corpus
        paths = [part.value.get(side, part.value.get("tsv")) for part in files if own not in part.value]
        suffixes = {language_suffix(path.value) for path in paths}
        if side not in set_there and suffixes - {getattr(corpus, side)}:
            suffix = suffixes.pop()
            missing[side] = suffix if not suffixes and re.fullmatch("[a-z]{2,3}", suffix) else "CODE"
    if missing:
        in_file = f"corpus: {{{', '.join(f'{side}: {language}' for side, language in missing.items())}}}"
        as_override = " ".join(f"corpus.{side}={language}" for side, language in missing.items())
        is_override = files[0].line is None
        codes = ", with codes such as en, de or pt-BR" if "CODE" in missing.values() else ""
        problem = f"the spec does not specify the {' and '.join(missing)} language of the files in `corpus.train`"
        raise ZooError(problem, hint=f"add `{as_override if is_override else in_file}`{codes}", where=files[0].where)


def _training_files(layer: LocatedValue) -> list[LocatedValue]:
    """Return the text files and tables that a spec file or override lists in `corpus.train`."""
    parts = _parts(_mapping(layer.at(["corpus"])), "train")
    return [part for part in parts if {"source", "target"} <= part.value.keys() or "tsv" in part.value]


def _mapping(located: LocatedValue) -> Mapping[str, LocatedValue]:
    return located.value if isinstance(located.value, dict) else {}


def language_suffix(path: Path | str) -> str:
    """Return the language suffix of a file name, ignoring suffixes of file formats: `de` for `test.de.gz`."""
    path = Path(path)
    while path.suffix.lower() in (".gz", ".sgm", ".sgml", ".txt", ".tsv", ".lst"):
        path = path.with_suffix("")
    return path.suffix.removeprefix(".")


def _rebased(part: LocatedValue, base: str, user_files: Collection[str], shipped: str) -> LocatedValue:
    """Rewrite the paths of a corpus part to be relative to the folder `base`, and return the changed part."""
    start, fields = _start_of(part, user_files, shipped), _path_fields(part.value)
    if start == base or not fields:
        return part
    rebased, to = dict(part.value), os.path.expanduser(base) or "."
    for field in fields:
        path = rebased[field]
        if isinstance(path.value, str) and _is_relative(path.value):
            full = os.path.expanduser(os.path.join(start, path.value))
            rebased[field] = replace(path, value=os.path.relpath(full, to) if _is_relative(start or ".") else full)
    return replace(part, value=rebased)


def _parts(corpus: Mapping[str, LocatedValue], split: str) -> list[LocatedValue]:
    parts = corpus[split].value if split in corpus else None
    return parts if isinstance(parts, list) else []


def _start_of(part: LocatedValue, user_files: Collection[str], shipped: str) -> str:
    """Return the base folder of a corpus part's paths: the folder of the user's file that lists it, or `shipped`."""
    return os.path.dirname(part.file) if part.file in user_files else shipped


def _is_relative(path: str) -> bool:
    return bool(path) and not path.startswith("~") and not os.path.isabs(path)


def _path_fields(part: Any) -> list[str]:
    """Return the keys of a corpus part that contain paths of local files."""
    kind = kind_of_part(part)
    return [field for field in kind.path_fields if field in part] if kind else []
