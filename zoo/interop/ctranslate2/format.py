"""A model of CTranslate2, read: its network, its tokens, and how the engine searches where nobody says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import file_exists
from zoo.interop.ctranslate2 import binary
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.ctranslate2.engine import MODEL, Translating
from zoo.interop.ctranslate2.network import network
from zoo.interop.ctranslate2.settings import Ends, ends
from zoo.interop.ctranslate2.vocabularies import listed
from zoo.interop.cutting import Listing, cut
from zoo.interop.imported import Engine, Imported, Wanted, require_folder
from zoo.interop.spec import imported_spec

_NAMES = ("", "TransformerBase", "TransformerBig", "TransformerSpec")
_REVISIONS = range(2, 8)
_DECODING: dict[str, Any] = {
    "beam": 2,
    "alpha": 1.0,
    "length_penalty": "power",
    "stopping_rule": "full",
    "length_factor": 0.0,
    "extra_length": 256,
    "min_length": 1,
}
"""The engine's own, which no file of a model says.

What comes to the limit is cut off there, and given an end here; before `min_length`, EOS has its share of the
probability here, and none there.
"""
_WITHOUT_END = "The model reads no EOS behind a source, and is given none."


class CTranslate2:
    """A folder with `model.bin` and its vocabularies."""

    name = "ctranslate2"
    description = "a folder of CTranslate2: model.bin and its vocabularies"
    engine = "ctranslate2"

    def recognises(self, place: Path) -> bool:
        """By `model.bin`."""
        return file_exists(place / MODEL)

    def read(self, place: Path, wanted: Wanted) -> Imported:
        """The model. Raises ZooError for a damaged file, and by name for what a spec cannot say."""
        require_folder(place, self.name)
        found = binary.read(place / MODEL)
        _require_translator(found)
        said = ends(place, found)
        read = network(found, said.epsilon)
        source, target = _listings(place, said, zeros=read.starts_from_zeros)
        source.require("source", len(read.tables.source))
        target.require("target", len(read.tables.target))
        tokens = cut(place, source, target, source_ends=said.source_ends)
        tensors, fields = read.tables.tensors(tokens.source, tokens.target)
        spec = imported_spec(
            wanted,
            f"Imported from CTranslate2 ({found.name or 'Transformer'}, revision {found.revision}).",
            architecture={**read.architecture, **fields},
            vocabulary=tokens.fields,
            decoding=_DECODING,
        )
        notes = [*tokens.notes, *([] if said.source_ends else [_WITHOUT_END])]
        if file_exists(place / "vmap.txt"):
            notes.append("`vmap.txt`, which narrows the vocabulary where the engine is asked to, is left out.")
        origin = {"format": self.name, "source": place.name, "engine": "CTranslate2", "numbers": found.numbers}
        return Imported(spec, tokens.vocabulary, {**read.tensors, **tensors}, origin, tuple(notes))

    def open(self, place: Path, imported: Imported) -> Engine:
        """The engine with this model, in float32."""
        return Translating(place, imported)


def _require_translator(found: Binary) -> None:
    if found.name not in _NAMES:
        raise ZooError(f"`{found.name}` is no translator as in the paper, but another kind of model of CTranslate2")
    if found.revision not in _REVISIONS:
        raise ZooError(
            f"it is of revision {found.revision} of CTranslate2's Transformer, and {_REVISIONS[0]} to {_REVISIONS[-1]} "
            "are read",
            hint="convert the model anew",
        )


def _listings(place: Path, said: Ends, *, zeros: bool) -> tuple[Listing, Listing]:
    source, target = listed(place, said.unknown)

    def listing(names: list[str], start: str | None) -> Listing:
        for name in (said.end, start):
            if name is not None and name not in names:
                raise ZooError(f"the vocabulary in `{place}` has no `{name}`, which its settings speak of", exit_code=1)
        return Listing(
            tuple(names),
            unknown=names.index(said.unknown),
            end=names.index(said.end),
            start=None if start is None else names.index(start),
            pad=next((names.index(name) for name in ("<blank>", "<pad>") if name in names), None),
        )

    start = None if zeros else said.start
    # Nothing begins a source: what is called as a translation's beginning is a token that no text has.
    of_source = start if source == target or said.start in source else None
    return listing(source, of_source), listing(target, start)
