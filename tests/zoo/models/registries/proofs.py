"""Publishers and pullers in processes of their own, to be killed or to meet one another: `python proofs.py WHAT ...`.

No torch is loaded: a process is begun, and killed, in a fraction of a second.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from zoo.files import manifest
from zoo.models import find
from zoo.models.registries import publishing
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


def bundle(folder: Path, seed: int, size: int) -> Path:
    """One whose bytes follow from the seed."""
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(random.Random(seed).randbytes(size))
    (folder / "spec.yaml").write_text(f"seed: {seed}")
    manifest.write(folder)
    return folder


def publish(address: str, folder: str, name: str) -> None:
    """One bundle, by which the parent is told when it begins."""
    print("begun", flush=True)
    made = publishing.publish(open_registry(address), name, Path(folder), SUMMARY, Report())
    publishing.write_index(open_registry(address), str)
    print(made.pin, flush=True)


def meet(address: str, folder: str, seed: str, rounds: str) -> None:
    """So many bundles, each at the tenth of a second at which the other publisher publishes his."""
    for number in range(int(rounds)):
        made = bundle(Path(folder) / f"{seed}-{number}", int(seed) * 10_000 + number, 20_000)
        time.sleep(0.1 - time.time() % 0.1)
        print(publishing.publish(open_registry(address), "model", made, SUMMARY, Report()).pin, flush=True)
        publishing.write_index(open_registry(address), str)


def pull(name: str) -> None:
    """From the registries that the environment names."""
    print("begun", flush=True)
    print(find.pull_model(name, Report()), flush=True)


if __name__ == "__main__":
    {"publish": publish, "meet": meet, "pull": pull}[sys.argv[1]](*sys.argv[2:])
