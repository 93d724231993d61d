"""Publishing and pulling processes that tests kill or run at the same time.

They do not load torch, so they start in a fraction of a second.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zoo.models import find
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import Summary
from zoo.report import Report

MODEL = {"task": "translation", "source": "en", "target": "de", "parameters": 7, "description": ""}
SCORES = {"metric": "bleu", "dev": None, "test": None}
SUMMARY = Summary(published="2026-01-01T00:00:00+00:00", zoo="0.1.0", **MODEL, **SCORES)


def publish(address: str, folder: str, name: str) -> None:
    """Publish one bundle. Print a line at the start, for the parent process."""
    print("started", flush=True)
    revision = open_registry(address).publish(name, Path(folder), SUMMARY, Report())
    open_registry(address).write_index(Report())
    print(revision.pin, flush=True)


def pull(name: str) -> None:
    """Pull a model from the configured registries. Print a line at the start, for the parent process."""
    print("started", flush=True)
    print(*find.pull_model(name, Report()), flush=True)


if __name__ == "__main__":
    {"publish": publish, "pull": pull}[sys.argv[1]](*sys.argv[2:])
