"""`decoder.yml`: which files belong to a model of Marian, and how its translations are looked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from os.path import normpath
from pathlib import Path
from typing import Any

from specs import ZooError
from specs.reader import read_value
from zoo.files.reading import file_exists, read_bytes
from zoo.interop.settings import Settings

SUFFIX = "decoder.yml"
_LONGEST = 100_000  # bytes
_BEAM, _FACTOR = 12, 3.0
"""Marian's own defaults."""
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "force-decode": (False,),
    "no-spm-decode": (False,),
    "no-spm-encode": (False,),
    "output-sampling": ([], False, "full 0"),
    "skip-cost": (False,),
    "allow-special": (False,),
    "weights": ([], [1], [1.0]),
    "max-length-crop": (False,),
    "input-types": ([],),
    "tsv": (False,),
}
_WITHOUT_EFFECT = (
    *("relative-paths", "mini-batch", "mini-batch-words", "maxi-batch", "maxi-batch-sort", "workspace", "cpu-threads"),
    *("devices", "quiet", "quiet-translation", "log", "log-level", "log-time-zone", "seed", "n-best", "word-scores"),
    *("alignment", "stat-freq", "fp16", "precision", "optimize", "max-length", "model-mmap", "ignore-model-config"),
    *("data-threads", "authors", "cite", "check-nan", "interpolate-env-vars", "sigterm", "tsv-fields"),
    *("gemm-type", "gemm-precision", "int8shift", "int8shiftAlphaAll", "int8shiftAll", "quantize-range"),
    *("max-length-break", "mini-batch-round-up", "shuffle-in-ram", "type", "version"),
)
_APPROXIMATE = ("shortlist", "output-approx-knn")


@dataclass(frozen=True)
class Decoder:
    """What stands around an .npz."""

    model: Path
    vocabularies: tuple[Path, Path]
    """Of source and target."""
    decoding: Mapping[str, Any]
    """Fields of `decoding` in a spec, but for what needs the numbers of tokens."""
    bars_unknown: bool
    notes: tuple[str, ...] = ()


def decoder(place: Path) -> Decoder:
    """Of an .npz, of a `decoder.yml`, or of the folder of either.

    Raises ZooError where files are missing or none can be told from others, and for what a spec cannot say.
    """
    model, file = _found(place)
    if file is None:
        assert model is not None
        return Decoder(model, _beside(model), _decoding(Settings({}, str(model))), bars_unknown=True)
    values = read_value(read_bytes(file, _LONGEST).decode("utf-8", "replace"), str(file)).plain()
    if not isinstance(values, dict):
        raise ZooError("it does not say how to decode", where=str(file))
    options = Settings(values, str(file))
    models = _paths(options, "models", file.parent)
    if model is None and len(models) != 1:
        raise options.refused("models", "names several: an ensemble", "import each `.npz` by itself")
    options.require(_ALLOWED)
    options.without_effect(*_WITHOUT_EFFECT)
    vocabularies = _paths(options, "vocabs", file.parent) or list(_beside(model or models[0]))
    if len(vocabularies) != 2:
        raise options.refused("vocabs", "are not one for the source and one for the target")
    decoding = _decoding(options)
    notes = tuple(
        f"`{key}` of `{file.name}` is left out: translations are looked for among all tokens"
        for key in _APPROXIMATE
        if options.any(key)
    )
    allows_unknown = options.truth("allow-unk", False)
    options.finish()
    source, target = vocabularies
    return Decoder(model or models[0], (source, target), decoding, not allows_unknown, notes)


def _found(place: Path) -> tuple[Path | None, Path | None]:
    """The .npz, if the place says which, and the decoder.yml, if there is one."""
    if place.is_dir():
        files = [place / SUFFIX] if file_exists(place / SUFFIX) else sorted(place.glob(f"*.{SUFFIX}"))
        models = sorted(place.glob("*.npz"))
        if len(files) == 1:
            return None, files[0]
        if len(models) == 1:
            return models[0], None
        several = ", ".join(each.name for each in files or models) or "none"
        raise ZooError(f"`{place}` does not say which of its models is meant ({several})", hint="name its `.npz`")
    if place.suffix in (".yml", ".yaml"):
        return None, place
    beside = (place.with_name(f"{place.name}.{SUFFIX}"), place.with_suffix(f".{SUFFIX}"), place.with_name(SUFFIX))
    return place, next((file for file in beside if file_exists(file)), None)


def _paths(options: Settings, key: str, folder: Path) -> list[Path]:
    """Files where they are said to be, from the folder on, else by their names in the folder: none outside of it."""
    named = options.any(key, []) or []
    if not isinstance(named, list) or not all(isinstance(each, str) and each for each in named):
        raise options.refused(key, "is no list of files")
    found = []
    for each in named:
        there = Path(normpath(folder.absolute() / each))
        within = there.is_relative_to(normpath(folder.absolute())) and file_exists(there)
        found.append(folder / (there.relative_to(normpath(folder.absolute())) if within else there.name))
    return found


def _beside(model: Path) -> tuple[Path, Path]:
    """The vocabularies of a model of which nothing says what they are called."""
    folder = model.parent
    for source, target in (("source.spm", "target.spm"), ("vocab.spm", "vocab.spm")):
        if file_exists(folder / source) and file_exists(folder / target):
            return folder / source, folder / target
    if len(models := sorted(folder.glob("*.spm"))) == 1:
        return models[0], models[0]
    hint = f"write `{model.name}.{SUFFIX}` with `vocabs: [SOURCE, TARGET]`"
    raise ZooError(f"nothing in `{folder}` says which are the vocabularies of `{model.name}`", hint=hint)


def _decoding(options: Settings) -> dict[str, Any]:
    """Marian divides by length^normalize, once a word's penalty is taken off: of length^1 that is the same for all."""
    alpha = options.number("normalize", 0.0)
    if options.number("word-penalty", 0.0) and alpha != 1:
        raise options.refused(
            "word-penalty",
            f"changes what is best with `normalize: {alpha:g}`, and a spec has no such penalty",
            "write `word-penalty: 0`, with which this model gives other translations, or `normalize: 1`",
        )
    factor = options.number("max-length-factor", _FACTOR)
    if not isfinite(factor):
        raise options.refused("max-length-factor", "is no length")
    return {
        "beam": options.whole("beam-size", _BEAM, least=1),
        "alpha": alpha,
        "length_penalty": "power",
        "stopping_rule": "shrinking",
        "length_factor": factor,
        # Marian counts EOS of source and target: at most F (S + 1) of them are F S + F - 1 tokens and EOS, or where F
        # is no whole number, about that.
        "extra_length": max(0, ceil(factor) - 1),
    }
