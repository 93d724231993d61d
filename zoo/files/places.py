"""Where `zoo` keeps what outlives a run: published models, fetched archives, prepared corpora, compiled programs."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_dir

from zoo.files.files import require_utf8


def home() -> Path:
    """The folder that the environment variable ZOO_HOME names, else the user's data folder. It may not exist yet.

    Raises ZooError where its path is not UTF-8.
    """
    chosen = os.environ.get("ZOO_HOME")
    folder = Path(os.path.expanduser(chosen)).absolute() if chosen else Path(user_data_dir("zoo", appauthor=False))
    require_utf8(folder)
    return folder


def shelf() -> Path:
    """Published models, one folder each."""
    return home() / "shelf"


def pulls() -> Path:
    """What has arrived of models that are being pulled, one folder each, named by digest."""
    return home() / "pulls"


def registries() -> Path:
    """The user's list of registries, an address a line."""
    return home() / "registries.txt"


def archives() -> Path:
    """Fetched archives, what was taken out of them, and `corpus.lock`."""
    return home() / "archives"


def prepared() -> Path:
    """Prepared corpora, one folder each, named by fingerprint."""
    return home() / "prepared"


def compiled() -> Path:
    """Compiled artefacts, one folder each, named by their content: a cache that may be removed at any time."""
    return home() / "compiled"


def calibrations() -> Path:
    """What was measured of specs on this processor, with these versions: a cache, too."""
    return home() / "calibrations"


def verified() -> Path:
    """Which large files had the right digest when they were last read: a cache, too."""
    return home() / "verified"
