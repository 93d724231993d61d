"""The foreign formats. To add one: its room beside this file, and its line here."""

from __future__ import annotations

from pathlib import Path

from specs import ZooError, nearest
from zoo.interop.ctranslate2.format import CTranslate2
from zoo.interop.fairseq.format import Fairseq
from zoo.interop.huggingface.format import HuggingFaceMarian
from zoo.interop.imported import Format
from zoo.interop.marian.format import Marian

FORMATS: tuple[Format, ...] = (HuggingFaceMarian(), Marian(), CTranslate2(), Fairseq())


def format_of(place: Path, name: str | None = None) -> Format:
    """The format of this name, else the one that the files have.

    Raises ZooError where there is no such format or no such place, and where the files are of none of them.
    """
    if not place.exists():
        raise ZooError(f"there is no `{place}`", hint="name a file or a folder, or `hf:ORG/NAME`")
    if name is not None:
        return _called(name)
    for each in FORMATS:
        if each.recognises(place):
            return each
    known = "; ".join(f"{each.name} ({each.description})" for each in FORMATS)
    raise ZooError(f"`{place}` is of no format that is known here", hint=f"the formats are {known}")


def _called(name: str) -> Format:
    for each in FORMATS:
        if each.name == name:
            return each
    names = [each.name for each in FORMATS]
    near = nearest(name, names)
    guess = f"did you mean `{near}`? " if near else ""
    raise ZooError(f"there is no format `{name}`", hint=f"{guess}the formats are {', '.join(names)}")
