"""Publishing and pulling processes that tests kill or run at the same time: `python processes.py COMMAND ...`.

They do not load torch, so they start in a fraction of a second.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from zoo.files import manifest
from zoo.models import find
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import Summary
from zoo.report import Report

SUMMARY = Summary(
    task="translation",
    source="en",
    target="de",
    parameters=7,
    metric="bleu",
    dev=None,
    test=None,
    description="",
    published="2026-01-01T00:00:00+00:00",
    zoo="0.1.0",
)


def make_bundle(folder: Path, seed: int, size: int) -> Path:
    """Write a bundle with random weights."""
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(random.Random(seed).randbytes(size))
    (folder / "spec.yaml").write_text(f"seed: {seed}")
    manifest.write(folder)
    return folder


def publish(address: str, folder: str, name: str) -> None:
    """Publish one bundle. Print a line at the start, for the parent process."""
    print("started", flush=True)
    revision = open_registry(address).publish(name, Path(folder), SUMMARY, Report())
    open_registry(address).write_index(str, Report())
    print(revision.pin, flush=True)


def publish_many(address: str, folder: str, seed: str, count: str) -> None:
    """Publish bundles, each at a tenth of a second of the clock, when the other process also publishes one."""
    for number in range(int(count)):
        bundle = make_bundle(Path(folder) / f"{seed}-{number}", int(seed) * 10_000 + number, 20_000)
        time.sleep(0.1 - time.time() % 0.1)
        print(open_registry(address).publish("model", bundle, SUMMARY, Report()).pin, flush=True)
        open_registry(address).write_index(str, Report())


def pull(name: str) -> None:
    """Pull a model from the configured registries. Print a line at the start, for the parent process."""
    print("started", flush=True)
    print(find.pull_model(name, Report()), flush=True)


if __name__ == "__main__":
    {"publish": publish, "publish_many": publish_many, "pull": pull}[sys.argv[1]](*sys.argv[2:])
