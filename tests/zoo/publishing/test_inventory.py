"""What `zoo list` finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import compiler
import specs
from zoo.models.local_store import Origin
from zoo.publishing.inventory import Inventory, inventory
from zoo.publishing.publish import publish
from zoo.report import Report
from zoo.training.run import Run


class Warned(Report):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def named(found: Inventory) -> dict[str, list[str]]:
    keys = {"specs": "short", "runs": "folder", "models": "name"}
    entries: dict[str, Any] = asdict(found)
    return {kind: [entry[key] for entry in entries[kind]] for kind, key in keys.items()}


def test_without_a_pattern_everything_is_found(trained: Callable[..., Run]) -> None:
    publish(trained("runs/table3/a-h1").folder)
    trained("runs/tiny")
    found = named(inventory(None, Report()))
    assert found["specs"] == list(specs.names())
    assert found["runs"] == ["runs/table3/a-h1", "runs/tiny"]
    assert found["models"] == ["transformer-tiny-ende"]


@pytest.mark.parametrize(
    ("pattern", "shorts"),
    [
        ("big", ["big", "big-enfr", "table3/big"]),
        ("BIG-ENFR", ["big-enfr"]),
        ("big*", ["big", "big-enfr"]),
        ("table3/a-h?", ["table3/a-h1", "table3/a-h4"]),
        ("transformer-big-ende", ["big"]),
        ("nothing", []),
    ],
)
def test_a_pattern_is_a_part_of_a_name_or_has_wildcards(pattern: str, shorts: list[str]) -> None:
    assert named(inventory(pattern, Report()))["specs"] == shorts


def test_parameters_are_those_of_the_graph() -> None:
    found = {entry.short: entry.parameters for entry in inventory(None, Report()).specs}
    assert found == {name: compiler.parameters(specs.load(name)) for name in specs.names()}


def test_a_run_says_how_far_it_is(trained: Callable[..., Run]) -> None:
    run = trained()
    (only,) = inventory(None, Report()).runs
    assert (only.step, only.steps, only.trained, only.dev, only.test) == (
        None,
        run.spec.training.steps,
        True,
        12.345,
        None,
    )
    for step in ("0000900", "0001000"):
        (run.checkpoints / step).mkdir(parents=True)
    run.weights.unlink()
    run.scores.write_text('{"dev": {"bleu": "much"}, "test": {"bleu": 3}}')
    (only,) = inventory(None, Report()).runs
    assert (only.step, only.trained, only.dev, only.test) == (1000, False, None, 3.0)


def test_a_score_is_by_the_first_metric_of_its_models_task(
    trained: Callable[..., Run], parsing: Callable[..., specs.Spec]
) -> None:
    run = trained()
    scores = '{"dev": {"bleu": 3.0, "f1": 95.5}, "test": {"perplexity": 3.0}}'
    run.scores.write_text(scores)
    parser = trained("runs/parser")
    parser.scores.write_text(scores)
    parser.spec_file.write_text(parsing().yaml())
    found = {run.folder: (run.metric, run.dev, run.test) for run in inventory(None, Report()).runs}
    assert found == {"runs/tiny": ("bleu", 3.0, None), "runs/parser": ("f1", 95.5, None)}


def test_what_is_damaged_hides_nothing(trained: Callable[..., Run]) -> None:
    bundle = publish(trained().folder)
    trained("runs/broken").spec_file.write_bytes(b"\xff")
    trained("runs/scores").scores.write_text("{")
    publish(Path("runs/tiny"), name="second")
    (bundle / "spec.yaml").write_text("name: 3")
    pulled = publish(Path("runs/tiny"), name="pulled")
    Origin(registry="r", name="pulled", revision=1, digest="0" * 64).write(pulled)
    os.truncate(pulled / "manifest.json", 100_000_001)
    report = Warned()
    found = named(inventory(None, report))
    assert found["runs"] == ["runs/tiny"]
    assert found["models"] == ["second"]
    assert len(report.warnings) == 4
