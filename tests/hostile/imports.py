"""Imports: other toolkits' models that were damaged, or made to be opened by whoever imports them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from hostile import arrays, binaries, hearing, nodes, pickles, settings, values
from hostile.judge import right
from hostile.trial import Trial

Way = Callable[[Random, Path, Trial], bool]
"""Damages a model in a folder; says whether it must be refused."""
NAME = "new"
_FORMATS = ("marian", "hf-marian", "ctranslate2", "fairseq")


def run(draw: Random, trial: Trial) -> None:
    """Makes one and imports it: it is on the shelf, whole, or refused and nothing of it is there."""
    kind = draw.choice(_FORMATS)
    place = trial.folder / "foreign"
    shutil.copytree(trial.world.foreign / kind, place)
    secret = trial.folder / "secret"
    secret.write_text("nobody's business\n")
    way = draw.choice(_WAYS[kind])
    trial.tell(f"{kind}: {way.__name__}")
    refused = way(draw, place, trial)
    before = _entries(trial.folder)
    hearing.begin()
    insisted = ["--format", kind] if draw.random() < 0.5 else []
    done = trial.zoo("import", str(place.name), "--name", NAME, *insisted)
    right(done.status != 0 or not refused, "it is accepted")
    shelf = trial.home / "models"
    shelved = sorted(path.name for path in shelf.iterdir()) if shelf.exists() else []
    right(shelved == ([NAME] if done.status == 0 else []), f"on the shelf is {shelved}, and the status {done.status}")
    right(not hearing.was_opened(secret), "it was led to what is not its own")
    right(_entries(trial.folder) - {"home"} == before - {"home"}, "something else came of it")
    if done.status == 0:
        right(trial.zoo("verify", NAME).status == 0, "it is imported, and no model")


def _entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _bytes(draw: Random, place: Path, trial: Trial) -> bool:
    """A file cut, flipped, gone."""
    file = draw.choice(sorted(place.iterdir()))
    content = values.damaged(draw, file.read_bytes())
    file.unlink()
    if draw.random() < 0.9:
        file.write_bytes(content)
    trial.tell(f"{file.name}: {len(content)} bytes")
    return False


def _stood_in(draw: Random, place: Path, trial: Trial) -> bool:
    """Something that is no file in place of one, or a file that may not be read."""
    file = draw.choice(sorted(place.iterdir()))
    what = draw.random()
    if what < 0.15:
        file.unlink()
        file.symlink_to(os.path.relpath(trial.folder / "loop", place))
        (trial.folder / "loop").symlink_to("loop")
    elif what < 0.3:
        file.chmod(0)
    else:
        trial.tell(nodes.put(draw, file))
    return False


def _elsewhere(draw: Random, place: Path, trial: Trial) -> bool:
    """Files that are links, as the Hub's cache has them: the model is the same."""
    store = trial.folder / "blobs"
    store.mkdir()
    for number, file in enumerate(sorted(place.iterdir())):
        file.rename(store / str(number))
        file.symlink_to(os.path.relpath(store / str(number), place))
    return False


_ALL: tuple[Way, ...] = (_bytes, _bytes, _stood_in, _elsewhere)
_WAYS: dict[str, tuple[Way, ...]] = {
    "marian": (*_ALL, *arrays.WAYS, settings.marian, settings.marian_out, settings.tokens),
    "hf-marian": (*_ALL, *pickles.IN_BIN, settings.transformers, settings.vocabulary, settings.tokens, settings.header),
    "ctranslate2": (*_ALL, *binaries.WAYS, settings.ctranslate2, settings.tokens),
    "fairseq": (*_ALL, *pickles.IN_PT, pickles.options, settings.dictionary),
}
