"""The inventory lists specs, runs and published models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.models.local_store import ORIGIN_FILE
from zoo.publishing.inventory import _matches, inventory
from zoo.report import Report
from zoo.training.run import Run


def test_a_pattern_is_a_part_of_a_name_or_has_wildcards() -> None:
    candidates = "base big big-enfr table3/big table3/a-h1 table3/a-h16 table3/a-h4"
    for pattern, expected in (
        ("big", "big big-enfr table3/big"),
        ("BIG-ENFR", "big-enfr"),
        ("big*", "big big-enfr"),
        ("table3/a-h?", "table3/a-h1 table3/a-h4"),
    ):
        assert [name for name in candidates.split() if _matches(pattern, name)] == expected.split()
    assert _matches("transformer-big", "big", "transformer-big-ende")


def test_a_run_is_listed_with_its_progress(trained: Callable[..., Run]) -> None:
    run = trained()
    (listed,) = inventory(None, Report()).runs
    assert (listed.step, listed.steps, listed.trained) == (None, run.spec.training.steps, True)
    assert (listed.dev, listed.test) == (12.345, None)
    for step in ("0000900", "0001000"):
        (run.checkpoints / step).mkdir(parents=True)
    run.weights.unlink()
    run.scores.write_text('{"dev": {"bleu": "much"}, "test": {"bleu": 3}}')
    (listed,) = inventory(None, Report()).runs
    assert (listed.step, listed.trained, listed.dev, listed.test) == (1000, False, None, 3.0)


def test_damaged_models_hide_no_others(trained: Callable[..., Run], stored: Callable[..., Path], report: Any) -> None:
    trained("runs/tiny")
    trained("runs/broken").spec_file.write_bytes(b"\xff")
    trained("runs/scores").scores.write_text("{")
    bundle = stored()
    _, pulled, local = (shutil.copytree(bundle, storage.models() / name) for name in ("second", "pulled", "local"))
    (bundle / "spec.yaml").write_text("name: 3")
    write_json(pulled / ORIGIN_FILE, {"registry": "r", "name": "pulled", "revision": 1, "digest": "0" * 64})
    for folder in (pulled, local):
        os.truncate(folder / "manifest.json", 100_000_001)
    found = inventory(None, report)
    assert ([run.folder for run in found.runs], [model.name for model in found.models]) == (["runs/tiny"], ["second"])
    assert len(report.warnings) == 5
