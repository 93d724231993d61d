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


@pytest.fixture(scope="session")
def published_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published")


@pytest.fixture
def stored(trained: Callable[..., Run], published_once: Path, tmp_path: Path) -> Stored:
    """Function that puts the bundle of a run of `trained` into the local model store. Keywords are fields of its spec.

    It returns the folder. The run itself is removed.
    """

    def store(name: str = NAME, **fields: object) -> Path:
        key = hashlib.sha256(json.dumps([name, fields], sort_keys=True).encode()).hexdigest()[:16]
        if not (published_once / key).exists():
            run = trained(tmp_path / key, **fields)
            shutil.move(publish(run.folder, name=name), published_once / key)
            shutil.rmtree(run.folder)
        return Path(shutil.copytree(published_once / key, storage.models() / name))

    return store


@pytest.fixture
def bundle(stored: Stored) -> Path:
    """Folder of a bundle in the local model store."""
    return stored()
