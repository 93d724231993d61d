"""The benchmark script for GPUs runs at toy size on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT


@pytest.mark.slow
def test_parts_that_start_processes_have_results() -> None:
    """`test_benchmarks.py` runs the other parts."""
    out = Path("figures").resolve()
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "correct", "real", "--toy", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {file.stem: json.loads(file.read_text()) for file in out.glob("*.json")}
    limits = found["limits"]["limits"]
    assert (limits["device"], limits["size"]) == ("cpu", "toy")
    assert min(limits[name] for name in ("bfloat16, TFLOP/s", "float32, TFLOP/s", "copy, TB/s")) > 0

    correct = found["correct"]
    assert 0 < max(correct["eager, float32"][f"error of {name}"] for name in ("score", "decode_step")) < 1e-5
    assert correct["5 steps, dropout 0.1"]["difference of weights"] == 0
    searches = [figures for row, figures in correct.items() if row.startswith("search, ")]
    assert sum(each["other than on the CPU"] + each["other alone than in a batch"] for each in searches) == 0
    assert correct["stopped and resumed"]["bitwise equal"]

    assert 0 <= found["real"]["test set"]["BLEU"] <= 100

    for rows in found.values():
        assert all("failed" not in figures for figures in rows.values())
        assert all(row in done.stdout for row in rows)
