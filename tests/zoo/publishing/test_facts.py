"""Facts of a model: gathered from its run, read back as they were written, refused where somebody made them up."""

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
from zoo.publishing import facts, publish
from zoo.publishing.facts import Facts, Parent, Point, facts_of_import, fingerprint
from zoo.publishing.provenance import _parent
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.training.run import Run

LINE = {"source_tokens_per_second": 30.0, "target_tokens_per_second": 50.0, "utilisation": 0.5, "loss": 2.0}


def logged(run: Run, count: int, **more: float) -> None:
    lines = [{"step": 10 * n, "seconds": 4.0 * n, **LINE, **more} for n in range(1, count + 1)]
    run.log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def published(folder: Path) -> Facts:
    return facts.read(manifest.read(folder))


def test_they_are_those_of_the_run_and_its_corpus(trained: Callable[..., Run]) -> None:
    run = trained()
    prepared = prepare(run.spec, Report())
    machine = {"machine": "A processor, 2 threads", "software": "zoo 0.1.0", "processes": 2}
    write_json(run.data, {"fingerprint": prepared.fingerprint, **machine})
    logged(run, 3, dev_perplexity=7.5)
    found = published(publish.publish(run.folder))
    assert found.training is not None
    assert (found.training.steps, found.training.averaged, found.training.seconds) == (30, (3, 6, 9), 12.0)
    assert (found.training.machine, found.training.devices) == ("A processor, 2 threads", 2)
    assert found.training.flops
    assert found.training.curve[-1] == Point(30, 2.0, {"perplexity": 7.5})
    assert found.text.fingerprint == prepared.fingerprint
    assert found.text.files["dev/source.txt"] == manifest.read(prepared.folder).entries["dev/source.txt"].sha256
    assert found.parent is not None
    assert found.parent.changed["architecture.d_model"][1] == "16"
    assert (found.by, found.spec) == (zoo.__version__, fingerprint(run.spec))


def test_without_a_log_the_cost_is_that_of_full_batches(trained: Callable[..., Run]) -> None:
    found = published(publish.publish(trained().folder)).training
    assert found is not None
    assert found.flops
    assert (found.steps, found.seconds, found.curve) == (9, None, ())


def test_a_long_curve_keeps_some_points_and_its_end(trained: Callable[..., Run]) -> None:
    run = trained()
    logged(run, 500)
    found = published(publish.publish(run.folder)).training
    assert found is not None
    assert 32 <= len(found.curve) <= 64
    assert found.curve[-1].step == 5000


def test_a_shipped_spec_differs_from_the_one_it_extends() -> None:
    whole = _parent(specs.load("table3/a-h1"))
    assert whole == Parent("table3/base", {f"architecture.{key}": pair for key, pair in _heads().items()})
    other = _parent(specs.load("big", {"training.seed": 7}))
    assert other == Parent("big", {"training.seed": ("1", "7")})


def _heads() -> dict[str, tuple[str, str]]:
    return {"h": ("8", "1"), "d_k": ("64", "512"), "d_v": ("64", "512")}


def test_an_import_says_whence_it_came(tmp_path: Path) -> None:
    found = facts_of_import(specs.load("tiny"), {"format": "marian", "source": "model.npz"}, ["It has no BOS."])
    found.write(tmp_path)
    manifest.write(tmp_path)
    assert published(tmp_path) == found
    assert (found.imported["source"], found.notes, found.training) == ("model.npz", ("It has no BOS.",), None)


def test_a_fingerprint_is_of_what_was_learned() -> None:
    tiny = specs.load("tiny")
    same = specs.load(
        "tiny", {"name": "other", "description": "other", "licence": "MIT", "corpus.folder": "/elsewhere"}
    )
    assert fingerprint(same) == fingerprint(tiny)
    assert fingerprint(specs.load("tiny", {"training.seed": 7})) != fingerprint(tiny)


def test_a_bundle_of_before_has_none(trained: Callable[..., Run]) -> None:
    folder = publish.publish(trained().folder)
    (folder / facts.NAME).unlink()
    manifest.write(folder)
    assert published(folder) == Facts()
    assert verify(folder.name).sample is None


@pytest.mark.parametrize(
    "made",
    [
        {"spec": 3},
        {"training": {"seed": -1}},
        {"training": {"seed": 1, "averaged": [1.5]}},
        {"parent": {"spec": "base", "changed": {"x": ["1"]}}},
        {"notes": ["x" * 100_000]},
        {"imported": {"a": {"b": "c"}}},
        [],
        {"training": {"seed": 1, "flops": "1e999"}},
    ],
)
def test_what_is_no_fact_is_refused(trained: Callable[..., Run], made: Any) -> None:
    folder = publish.publish(trained().folder)
    (folder / facts.NAME).write_text(json.dumps(made))
    manifest.write(folder)
    with pytest.raises(ZooError, match=r"facts.json` is damaged") as caught:
        verify(folder.name)
    assert caught.value.exit_code == 1


def test_what_a_later_zoo_knows_more_is_left_alone(trained: Callable[..., Run]) -> None:
    folder = publish.publish(trained().folder)
    written = json.loads((folder / facts.NAME).read_text())
    (folder / facts.NAME).write_text(json.dumps({**written, "novelty": {"a": 1}}))
    manifest.write(folder)
    assert published(folder).by == zoo.__version__
