"""Translation of batches of rows, and of a Ray dataset while actors are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zoo
from zoo.generation.ray_data import BatchTranslator
from zoo.training.run import Run

ROOT = Path(__file__).parents[3]
LINES = ["the old dog sees a small house", "", "we read two books", "the cat"]
PROGRAM = """
import sys, ray
from zoo.generation.ray_data import BatchTranslator
ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})
ray.data.DataContext.get_current().execution_options.preserve_order = True
lines = ray.data.read_text(sys.argv[1], drop_empty_lines=False).repartition(50)
translated = lines.map_batches(
    BatchTranslator,
    fn_constructor_kwargs={"model": sys.argv[2], "device": "cpu"},
    batch_size=64,
    compute=ray.data.ActorPoolStrategy(size=1),
)
with open(sys.argv[3], "w", encoding="utf-8") as output:
    for row in translated.iter_rows():
        output.write(row["translation"] + "\\n")
        output.flush()
"""


def test_a_batch_gets_the_translations_of_its_texts(trained: Callable[..., Run]) -> None:
    folder = str(trained("runs/tiny").folder)
    batch = {"id": np.arange(4), "line": np.array(LINES, dtype=object)}
    translated = BatchTranslator(folder, texts="line", translations="german", device="cpu", beam=2)(batch)
    assert translated["id"] is batch["id"]
    expected = zoo.load(folder, device="cpu").translate(LINES, beam=2, split=True)
    assert translated["german"].tolist() == expected
    assert BatchTranslator(folder, device="cpu")({"text": np.array([], dtype=object)})["translation"].tolist() == []


@pytest.mark.slow
def test_killed_actors_lose_no_line(trained: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`")
    folder = trained("runs/tiny").folder.resolve()
    lines = tmp_path / "lines.en"
    lines.write_text("".join(f"{LINES[n % 4]} {n}\n" if n % 4 != 1 else "\n" for n in range(6400)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    output, whole = tmp_path / "lines.de", tmp_path / "whole.de"
    command = [sys.executable, "-c", PROGRAM, str(lines), str(folder), str(output)]
    killed: set[int] = set()
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None:
            if output.exists() and output.stat().st_size and len(killed) < 2:
                killed |= set(map(_kill, _actors()[:1]))
            time.sleep(0.2)
    assert process.returncode == 0
    assert len(killed) == 2
    decode = ["decode", "--model", str(folder), "--device", "cpu", "-i", str(lines), "-o", str(whole)]
    subprocess.run([sys.executable, "-m", "zoo", *decode], env=environment, check=True)
    assert output.read_bytes() == whole.read_bytes()


def _actors() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "^ray::.*BatchTranslator"], capture_output=True, text=True, check=False)
    return list(map(int, found.stdout.split()))


def _kill(pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    return pid
