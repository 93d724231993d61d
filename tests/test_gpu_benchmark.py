"""The benchmark script for GPUs runs at toy size on a CPU, and refuses what it cannot do before it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import gpu
from tests.paths import ROOT


def run(*arguments: str) -> tuple[str, dict[str, dict[str, dict[str, Any]]]]:
    """Run the script. Return its table, and the rows of each part."""
    out = str(Path("figures").resolve())
    command = [sys.executable, "-m", "tests.benchmarks.gpu", *arguments, "--toy", "--out", out]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, {file.stem: json.loads(file.read_text()) for file in Path("figures").glob("*.json")}


def test_the_script_refuses_an_unknown_part_and_a_machine_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for arguments, message in {
        "correct": "torch finds no GPU on this machine; use `--toy`",
        "--toy correct speed": "`speed` is not a part; the parts are correct, training",
    }.items():
        monkeypatch.setattr("sys.argv", ["gpu", *arguments.split()])
        with pytest.raises(SystemExit, match=r"^2$"):
            gpu.main()
        assert message in capsys.readouterr().err
    assert not Path("build").exists()


@pytest.mark.slow
def test_each_part_has_results() -> None:
    table, found = run("correct", "real")
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
        assert all(row in table for row in rows)
