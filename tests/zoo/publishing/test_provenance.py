"""Provenance of a model are gathered from its run, read as they were written, and refused if invalid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specs
import zoo
from specs import ZooError
from zoo.data.prepare import prepare
from zoo.files import manifest
from zoo.files.atomic import write_json
from zoo.models import weights
from zoo.publishing import provenance
from zoo.publishing.provenance import (
    Provenance,
    fingerprint,
    provenance_of_import,
    provenance_of_run,
)
from zoo.report import Report
from zoo.training.run import Run

LINE = {"source_tokens_per_second": 30.0, "target_tokens_per_second": 50.0, "utilisation": 0.5, "loss": 2.0}


def write_log(run: Run, count: int) -> None:
    lines = [{"step": 10 * n, "seconds": 4.0 * n, **LINE} for n in range(1, count + 1)]
    run.log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def gather(run: Run) -> Provenance:
    return provenance_of_run(run.spec, run, weights.read(run.weights))


def test_facts_describe_the_run_and_its_corpus(trained: Callable[..., Run]) -> None:
    run = trained()
    prepared = prepare(run.spec, Report())
    machine = {"machine": "A processor, 2 threads", "software": "zoo 0.1.0", "processes": 2}
    write_json(run.data, {"fingerprint": prepared.fingerprint, **machine})
    write_log(run, 3)
    found = gather(run)
    training = found.training
    assert training is not None
    assert (training.steps, training.averaged_steps, training.seconds) == (30, (3, 6, 9), 12.0)
    assert (training.machine, training.software, training.devices) == ("A processor, 2 threads", "zoo 0.1.0", 2)
    assert training.flops
    assert found.corpus.fingerprint == prepared.fingerprint
    assert found.corpus.files["dev/source.txt"] == manifest.read(prepared.folder).entries["dev/source.txt"].sha256
    assert (found.zoo_version, found.spec) == (zoo.__version__, fingerprint(run.spec))


def test_without_a_log_flops_are_estimated(trained: Callable[..., Run]) -> None:
    training = gather(trained()).training
    assert training is not None
    assert training.flops
    assert (training.steps, training.seconds) == (9, None)


def test_facts_of_an_import_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = provenance_of_import(specs.load("tiny"), {"format": "marian", "source": "model.npz"}, ["It has no BOS."])
    written.write(tmp_path)
    values = json.loads((tmp_path / provenance.NAME).read_text())
    for content in (values, {**values, "novelty": {"a": 1}}):
        (tmp_path / provenance.NAME).write_text(json.dumps(content))
        manifest.write(tmp_path)
        assert provenance.read(manifest.read(tmp_path)) == written
    assert (written.imported["source"], written.notes, written.training) == ("model.npz", ("It has no BOS.",), None)


def test_the_fingerprint_identifies_model_and_training() -> None:
    tiny = specs.load("tiny")
    renamed = {"name": "other", "description": "other", "licence": "MIT", "corpus.folder": "/elsewhere"}
    assert fingerprint(specs.load("tiny", renamed)) == fingerprint(tiny)
    assert fingerprint(specs.load("tiny", {"training.seed": 7})) != fingerprint(tiny)


def test_invalid_facts_are_refused(tmp_path: Path) -> None:
    invalid: list[Any] = [
        {"spec": 3},
        {"training": {"seed": -1}},
        {"training": {"seed": 1, "averaged_steps": [1.5]}},
        {"notes": ["x" * 100_000]},
        {"imported": {"a": {"b": "c"}}},
        [],
        {"training": {"seed": 1, "flops": "1e999"}},
    ]
    for values in invalid:
        (tmp_path / provenance.NAME).write_text(json.dumps(values))
        manifest.write(tmp_path)
        with pytest.raises(ZooError, match=r"facts.json` is damaged") as raised:
            provenance.read(manifest.read(tmp_path))
        assert raised.value.exit_code == 1
