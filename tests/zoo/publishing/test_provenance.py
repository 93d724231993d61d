"""Facts about the provenance of a model are gathered from its run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import zoo
from zoo.data.prepare import prepare
from zoo.files import manifest
from zoo.files.atomic import write_json
from zoo.models import weights
from zoo.models.folder import FACTS
from zoo.publishing.provenance import Provenance, provenance_of_run
from zoo.report import Report
from zoo.training.run import Run

LINE = {"source_tokens_per_second": 30.0, "target_tokens_per_second": 50.0, "utilisation": 0.5, "loss": 2.0}


def gather(run: Run) -> Provenance:
    return provenance_of_run(run.spec, run, weights.read(run.weights))


def test_facts_describe_the_run_its_log_and_its_corpus(trained: Callable[..., Run]) -> None:
    run = trained()
    estimate = gather(run).training  # without a log
    assert (estimate.steps, estimate.seconds, estimate.flops > 0) == (9, None, True)
    prepared = prepare(run.spec, Report())
    machine = {"machine": "A processor, 2 threads", "software": "zoo 0.1.0", "processes": 2}
    write_json(run.data, {"fingerprint": prepared.fingerprint, **machine})
    lines = [{"step": 10 * n, "seconds": 4.0 * n, **LINE} for n in (1, 2, 3)]
    run.log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = gather(run)
    training = found.training
    assert (training.steps, training.averaged_steps, training.seconds) == (30, (3, 6, 9), 12.0)
    assert (training.machine, training.software, training.devices) == ("A processor, 2 threads", "zoo 0.1.0", 2)
    assert training.flops
    assert found.corpus.fingerprint == prepared.fingerprint
    assert found.corpus.files["dev/source.txt"] == manifest.read(prepared.folder).entries["dev/source.txt"].sha256
    assert found.zoo_version == zoo.__version__


def test_facts_and_notes_of_an_import_are_written(tmp_path: Path) -> None:
    Provenance(imported={"format": "marian", "source": "model.npz"}, notes=("It has no BOS.",)).write(tmp_path)
    values = json.loads((tmp_path / FACTS).read_text())
    assert (values["imported"]["source"], values["notes"]) == ("model.npz", ["It has no BOS."])
