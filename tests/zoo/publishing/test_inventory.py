"""The inventory lists specs, runs and published models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compiler
import specs
from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.models.local_store import ORIGIN_FILE
from zoo.publishing.inventory import Inventory, _matches, inventory
from zoo.report import Report
from zoo.training.run import Run


def names(found: Inventory) -> tuple[list[str], list[str], list[str]]:
    return (
        [spec.short_name for spec in found.specs],
        [run.folder for run in found.runs],
        [model.name for model in found.models],
    )


def test_everything_is_listed_without_a_pattern(trained: Callable[..., Run], bundle: Path) -> None:
    trained("runs/table3/a-h1")
    trained("runs/tiny")
    found = inventory(None, Report())
    assert names(found) == (list(specs.names()), ["runs/table3/a-h1", "runs/tiny"], [bundle.name])
    parameters = {spec.short_name: spec.parameters for spec in found.specs}
    assert parameters == {name: compiler.parameters(specs.load(name)) for name in specs.names()}


def test_a_pattern_is_a_part_of_a_name_or_has_wildcards() -> None:
    candidates = ("base", "big", "big-enfr", "table3/big", "table3/a-h1", "table3/a-h16", "table3/a-h4")
    for pattern, expected in (
        ("big", ["big", "big-enfr", "table3/big"]),
        ("BIG-ENFR", ["big-enfr"]),
        ("big*", ["big", "big-enfr"]),
        ("table3/a-h?", ["table3/a-h1", "table3/a-h4"]),
        ("nothing", []),
        (None, list(candidates)),
    ):
        assert [name for name in candidates if _matches(pattern, name)] == expected
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


def test_scores_are_those_of_the_first_metric_of_the_task(
    trained: Callable[..., Run], parsing: Callable[..., specs.Spec]
) -> None:
    scores = '{"dev": {"bleu": 3.0, "f1": 95.5}, "test": {"perplexity": 3.0}}'
    trained().scores.write_text(scores)
    parser = trained("runs/parser")
    parser.scores.write_text(scores)
    parser.spec_file.write_text(parsing().yaml())
    listed = {run.folder: (run.metric, run.dev, run.test) for run in inventory(None, Report()).runs}
    assert listed == {"runs/tiny": ("bleu", 3.0, None), "runs/parser": ("f1", 95.5, None)}


def test_damaged_models_are_warned_of_and_do_not_hide_others(
    trained: Callable[..., Run], stored: Callable[..., Path], report: Any
) -> None:
    trained("runs/tiny")
    trained("runs/broken").spec_file.write_bytes(b"\xff")
    trained("runs/scores").scores.write_text("{")
    bundle = stored()
    for name in ("second", "pulled", "local"):
        shutil.copytree(bundle, storage.models() / name)
    (bundle / "spec.yaml").write_text("name: 3")
    pulled = storage.models() / "pulled"
    write_json(pulled / ORIGIN_FILE, {"registry": "r", "name": "pulled", "revision": 1, "digest": "0" * 64})
    for name in ("pulled", "local"):
        os.truncate(storage.models() / name / "manifest.json", 100_000_001)
    assert names(inventory(None, report))[1:] == (["runs/tiny"], ["second"])
    assert len(report.warnings) == 5
