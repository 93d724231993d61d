"""The benchmark script for GPUs runs at toy size on a CPU: each part has results, or a reason for having none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> tuple[str, dict[str, dict[str, dict[str, Any]]]]:
    """Run the script. Return its table, and the rows of each part."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.gpu",
        *arguments,
        "--toy",
        "--out",
        str(Path("figures").resolve()),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, {file.stem: json.loads(file.read_text()) for file in Path("figures").glob("*.json")}


@pytest.mark.slow
def test_each_part_has_results() -> None:
    table, found = run("correct", "training", "decoding", "packed", "real")
    limits = found["limits"]["limits"]
    assert (limits["device"], limits["size"]) == ("cpu", "toy")
    assert min(limits[name] for name in ("bfloat16, TFLOP/s", "float32, TFLOP/s", "copy, TB/s")) > 0

    correct = found["correct"]
    assert 0 < max(correct["eager, float32"][f"error of {name}"] for name in ("score", "decode_step")) < 1e-5
    assert 1e-5 < correct["eager, bfloat16"]["error of decode_step"] < 0.05
    assert correct["training"]["error of the loss, float32"] < 1e-5
    assert correct["alone and in a batch, float32"]["changed"] == 0
    recorded = correct["recorded, float32"]
    assert (recorded["numbers that differ from the same step"], recorded["changed"]) == (0, 0)
    assert recorded["largest difference from the step without padding, nats"] < 1e-4
    suite = correct["tests: those that want a GPU"]
    assert suite["passed"] > 0
    assert not suite["not passed"]

    training = found["training"]["base, eager"]
    assert training["compiled after them"] == 0
    assert min(training[name] for name in ("target tokens/s", "of the peak", "step, s", "100,000 steps, h")) > 0

    for batch in (1, 3):
        step = found["decoding"][f"eager, batch {batch}"]
        assert min(step[name] for name in ("sentences/s", "the program's step, us", "of the copy rate")) > 0
    bytes_ = [found["decoding"][f"eager, batch {batch}"]["bytes of a step"] for batch in (1, 3)]
    assert bytes_[0] < bytes_[1] < 3 * bytes_[0]  # the weights are read once
    assert 0 < found["packed"]["base, padded"]["padding"] < 0.5
    assert 0 <= found["real"]["test set"]["BLEU"] <= 100

    for part, row in [
        ("correct", "tensorrt, float32"),
        ("training", "the whole step as one CUDA graph"),
        ("decoding", "eager, batch 1, recorded"),
        ("packed", "base, packed"),
    ]:
        assert found[part][row]["absent"]
    for rows in found.values():
        assert all("failed" not in figures for figures in rows.values())
        assert all(row in table for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_compilation_is_measured() -> None:
    _, found = run("artefacts", "--limit", "1700")
    aot, cache = found["artefacts"]["aot"], found["artefacts"]["torch.compile's cache"]
    assert aot["with other weights, s"] < aot["built, s"] / 2
    assert max(aot["error of a step"], aot["error with other weights"]) < 1e-5
    assert cache["saved, s"] > 0
    assert found["artefacts"]["tensorrt"]["absent"]


@pytest.mark.slow
def test_results_before_the_time_limit_are_kept() -> None:
    _, found = run("correct", "--limit", "3")
    *whole, last = found["correct"].items()
    assert whole
    assert last == ("the rest", {"absent": "its 3 seconds were over"})
    table, _ = run("--table")
    assert "its 3 seconds were over" in table
