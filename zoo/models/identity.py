"""When two specs are of one model: the fields in which they differ, and how that is said."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from specs import Spec, difference
from specs.notation import quote_in_full

_FOLDER = "corpus.folder"
Differing = Mapping[str, tuple[Any, Any]]


OF_A_MODEL = ("name", "architecture", "vocabulary", "corpus")
"""What a model is, however long and by which recipe it was trained."""


def differing(spec: Spec, other: Spec, sections: Iterable[str] = OF_A_MODEL, free: Iterable[str] = ()) -> Differing:
    """Dotted key -> (value in `other`, value in `spec`) of what differs in these sections, but for `free` keys."""
    wanted, unseen = set(sections), {*([] if _are_two(spec, other) else [_FOLDER]), *free}
    found = difference(spec, other).items()
    return {key: pair for key, pair in found if key.partition(".")[0] in wanted and key not in unseen}


def _are_two(spec: Spec, other: Spec) -> bool:
    """Whether the folders of two corpora are there and are not one; else the same files may lie elsewhere now."""
    one, two = (Path(os.path.expanduser(each.corpus.folder)) for each in (spec, other))
    try:
        return one.is_dir() and two.is_dir() and not one.samefile(two)
    except (OSError, ValueError):
        return False


def told(fields: Differing, there: str, here: str) -> str:
    """A line for each field: its value `there`, and its value `here`."""
    return "".join(
        f"\n  {key}: {quote_in_full(old)} {there}, {quote_in_full(new)} {here}" for key, (old, new) in fields.items()
    )
