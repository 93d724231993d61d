"""A checkpoint of fairseq's Transformer, read: its network, its dictionaries, and how fairseq searches by default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import file_exists
from zoo.interop.cutting import cut
from zoo.interop.fairseq import checkpoint
from zoo.interop.fairseq.dictionary import listing
from zoo.interop.fairseq.network import Network
from zoo.interop.fairseq.options import (
    architecture,
    flat,
    languages,
    learns_positions,
    scales_embeddings,
    shares_output,
)
from zoo.interop.imported import Engine, Imported, Wanted, are_codes
from zoo.interop.settings import Settings
from zoo.interop.spec import imported_spec

_NAMES = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_DECODING: dict[str, Any] = {
    "beam": 5,
    "alpha": 1.0,
    "length_penalty": "power",
    "stopping_rule": "full",
    "length_factor": 0.0,
    "extra_length": 200,
    "min_length": 1,
}
"""Those of `fairseq-generate`, which takes them from its command line and from no checkpoint."""


class Fairseq:
    """A checkpoint with its dictionaries beside it."""

    name = "fairseq"
    description = "a checkpoint of fairseq (.pt) with its dictionaries (dict.LANGUAGE.txt) beside it"
    engine = None  # it runs the code that its checkpoints' pickles call

    def recognises(self, place: Path) -> bool:
        """By a file of torch and a dictionary in one folder."""
        file = _checkpoint(place)
        return file is not None and any(file.parent.glob("dict.*.txt"))

    def read(self, place: Path, wanted: Wanted) -> Imported:
        """The model. Raises ZooError for a damaged file, and by name for what a spec cannot say."""
        file = _checkpoint(place)
        if file is None:
            raise ZooError(f"`{place}` has no checkpoint: none of {', '.join(_NAMES)}", hint="name the file itself")
        held = checkpoint.read(file)
        options = flat(held.options, str(file))
        shape = architecture(options)
        network = Network(held.tensors)
        said = network.read(shape, learned=learns_positions(options))
        tables = network.tables(shared_output=shares_output(options), scaled=scales_embeddings(options))
        names = _pair(file.parent, options)
        source, target = (listing(file.with_name(f"dict.{name}.txt")) for name in names)
        options.finish()
        source.require("source", len(tables.source))
        target.require("target", len(tables.target))
        tokens = cut(file.parent, source if source == target else replace(source, start=None), target)
        tensors, fields = tables.tensors(tokens.source, tokens.target)
        spec = imported_spec(
            wanted if wanted.languages else replace(wanted, languages=_codes(names)),
            f"Imported from fairseq ({options.text('arch', options.text('_name', 'transformer'))}).",
            architecture={**shape, **said, **fields, "N": _depths(shape["N"])},
            vocabulary=tokens.fields,
            decoding=_DECODING,
        )
        origin = {"format": self.name, "source": file.name, "engine": "fairseq"}
        everything = {**network.layers.finished(), **tensors}
        return Imported(spec, tokens.vocabulary, everything, origin, tokens.notes)

    def open(self, place: Path, imported: Imported) -> Engine:
        raise NotImplementedError


def _checkpoint(place: Path) -> Path | None:
    if file_exists(place):
        return place if place.suffix == ".pt" else None
    named = [place / name for name in _NAMES if file_exists(place / name)]
    others = sorted(place.glob("*.pt")) if place.is_dir() else []
    return named[0] if named else others[0] if len(others) == 1 else None


def _pair(folder: Path, options: Settings) -> tuple[str, str]:
    """The names of the dictionaries, as the options say, else as the two files do that are there."""
    source, target = languages(options)
    if source and target:
        return source, target
    problem = f"nothing says which of the dictionaries in `{folder}` is the source's (`source_lang`, `target_lang`)"
    raise ZooError(problem, hint="a checkpoint of a task `translation` says it")


def _codes(names: tuple[str, str]) -> tuple[str, str] | None:
    """As codes of a corpus, where they are such: en_XX is en-XX."""
    codes = [name.replace("_", "-") for name in names]
    return (codes[0], codes[1]) if are_codes(codes) else None


def _depths(found: dict[str, int]) -> Any:
    return found if found["encoder"] != found["decoder"] else found["encoder"]
