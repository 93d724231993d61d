"""A publication is complete, or changes nothing."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from unittest import mock

import pytest

import specs
import zoo
from specs import ZooError
from tests.conftest import Trained
from tests.examples import SMALL
from tests.refusals import refused
from tests.zoo.publishing.conftest import Stored
from zoo.files import storage
from zoo.models.folder import ModelFolder
from zoo.publishing import publish, reference_results
from zoo.publishing.publish import verify
from zoo.report import Report
from zoo.training.run import Run, RunIdentity


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_a_model_is_published_under_the_name_of_its_spec_or_another_one(trained: Trained, home: Path) -> None:
    run = trained()
    assert publish.publish(run.folder) == home / "models" / "transformer-tiny-ende"
    folder = publish.publish(run.folder, name="second,v1.2_b")
    assert (folder, ModelFolder(folder).spec.name) == (home / "models" / "second,v1.2_b", "second,v1.2_b")
    assert (zoo.names(), zoo.names("*big*")) == (["second,v1.2_b", "transformer-tiny-ende"], [])
    problem = r"`second,v1\.2_b` is not a run: it is already published"
    assert "--to REGISTRY" in refused(problem, publish.publish, "second,v1.2_b", name="other").hint
    refused("there is no run `neither`", publish.publish, "neither")


def test_a_name_never_leads_out_of_the_store(trained: Trained, home: Path) -> None:
    run = trained()
    for name in ("../x", "..", ".", "", "/tmp/x", "a/b", "a\\b", ".hidden", "a..b", "x" * 101, "a\n"):
        refused("is not a valid model name", publish.publish, run.folder, name=name)
        refused("there is no published model", verify, name)
    assert not (home / "models").exists()


def test_a_model_is_replaced_only_on_request(trained: Trained, stored: Stored, tmp_path: Path) -> None:
    folder = stored("mine")
    (folder / "stray.txt").write_text("of the old model")
    before = hashes(folder)
    second = trained(tmp_path / "second", training={"seed": 2})
    error = refused("a published model `mine` already exists", publish.publish, second.folder, name="mine")
    assert "`--replace`" in error.hint
    assert hashes(folder) == before
    assert publish.publish(second.folder, name="mine", replace=True) == folder
    after = hashes(folder)
    assert "stray.txt" not in after
    assert after["spec.yaml"] != before["spec.yaml"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_an_inherited_name_is_not_published() -> None:
    identity = RunIdentity("0123456789abcdef", 30, "eager", 2, 1, named=False)
    Run(Path("runs/own")).start(specs.load("tiny"), identity, Report())
    assert "`--name NAME`" in refused("has no name of its own: `transformer-tiny-ende`", publish.publish, "own").hint
    refused("no weights yet", publish.publish, "own", name="mine")


def test_a_failure_keeps_the_older_bundle(trained: Trained, stored: Stored, tmp_path: Path) -> None:
    folder = stored()
    before = hashes(folder)
    second = trained(tmp_path / "second", training={"seed": 2})
    failures: list[tuple[object, str, BaseException]] = [
        (publish, "card", RuntimeError("no card")),
        (reference_results, "compute", ZooError("no references")),
        (publish.manifest, "check", ZooError("no manifest")),
        (publish, "verify_folder", KeyboardInterrupt()),
    ]
    for module, name, error in failures:
        with mock.patch.object(module, name, side_effect=error), pytest.raises(type(error)) as raised:
            publish.publish(second.folder, replace=True)
        assert str(raised.value).startswith(str(error))
        assert hashes(folder) == before
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_model_that_fails_its_verification_is_not_published(trained: Trained, home: Path) -> None:
    run = trained()
    with mock.patch.object(reference_results, "TOLERANCE", -1.0):
        refused("differ", publish.publish, run.folder)
    for scores in ({"dev": {}}, {"dev": 3}, {"dev": {"bleu": "much"}}):
        publish.write_json(run.scores, scores)
        refused(r"scores.json` is damaged", publish.publish, run.folder)
    assert list((home / "models").iterdir()) == []


def test_a_run_is_published_without_its_corpus_and_without_scores(trained: Trained) -> None:
    """With learned positions, the references have no more tokens than there are positions."""
    learned = {**SMALL["architecture"], "positions": {"kind": "learned", "rows": 14}}
    run = trained(architecture=learned, corpus={"max_length": 12, "train": [{"grammar": 9}]})
    for file in (*Path().glob("pairs.*"), run.scores):
        file.unlink()
    folder = publish.publish(run.folder)
    assert 0 < reference_results.read(folder / reference_results.NAME, run.spec).source.shape[1] <= 14
    assert "was not evaluated" in (folder / "README.md").read_text(encoding="utf-8")
    assert not storage.prepared().exists()


def test_of_two_concurrent_publishers_the_second_is_refused(trained: Trained, stored: Stored) -> None:
    run, other = trained(), shutil.copytree(stored("one", training={"seed": 7}), "other")
    shutil.rmtree(storage.models() / "one")
    verify_folder = publish.verify_folder

    def publish_meanwhile(folder: Path, report: Report) -> None:
        shutil.copytree(other, storage.models() / "one")
        verify_folder(folder, report)

    with mock.patch.object(publish, "verify_folder", publish_meanwhile):
        refused("`one` already exists", publish.publish, run.folder, name="one")
    assert ModelFolder(storage.models() / "one").spec.training.seed == 7
