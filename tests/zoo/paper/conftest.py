"""Folders of runs, made without a training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import specs

MakeRun = Callable[..., Path]
"""Type of the fixture `make_run`."""
SMALL = {"architecture": {"N": 1, "d_model": 32, "d_ff": 64, "h": 2, "d_k": 16, "d_v": 16}}
LINE = {"source_tokens_per_second": 100.0, "target_tokens_per_second": 80.0, "utilisation": 0.5}

LOG = ({"step": 10, "seconds": 4.0, **LINE}, {"step": 30, "seconds": 12.0, **LINE})


@pytest.fixture
def make_run() -> MakeRun:
    """Makes the folder of a run under `runs/`, with a spec, scores by set, and the lines of a log."""

    def make(
        spec: str,
        folder: str,
        overrides: Mapping[str, Any] = SMALL,
        scores: Mapping[str, Any] | None = None,
        log: tuple[Mapping[str, Any], ...] = LOG,
        processes: int = 2,
    ) -> Path:
        run = Path("runs") / folder
        run.mkdir(parents=True)
        corpus = {"train": [{"grammar": 40}], "dev": [{"grammar": 5}], "test": [{"grammar": 5}]}
        (run / "spec.yaml").write_text(specs.load(spec, {"corpus": corpus, **overrides}).yaml(), encoding="utf-8")
        (run / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log), encoding="utf-8")
        (run / "data.json").write_text(json.dumps({"processes": processes}), encoding="utf-8")
        if scores is not None:
            (run / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        return run

    return make
