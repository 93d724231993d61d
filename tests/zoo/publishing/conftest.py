"""Published bundles, made once per session and copied for each test."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.files import storage
from zoo.publishing.publish import publish
from zoo.training.run import Run

NAME = "transformer-tiny-ende"
Stored = Callable[..., Path]


@pytest.fixture
def stored(trained: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Stored:
    """Function that puts the bundle of a run of `trained` into the local model store. Keywords are fields of its spec.

    It returns the folder. The run itself is removed.
    """

    def store(name: str = NAME, **fields: object) -> Path:
        key = hashlib.sha256(json.dumps([name, fields], sort_keys=True).encode()).hexdigest()[:16]
        kept = tmp_path_factory.getbasetemp() / key
        if not kept.exists():
            run = trained(tmp_path / key, **fields)
            shutil.move(publish(run.folder, name=name), kept)
            shutil.rmtree(run.folder)
        return Path(shutil.copytree(kept, storage.models() / name))

    return store


@pytest.fixture
def bundle(stored: Stored) -> Path:
    """Folder of a bundle in the local model store."""
    return stored()
