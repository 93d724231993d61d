"""Publishing puts a whole bundle in place of an older one, or changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import zoo
from specs import ZooError
from zoo.corpus.prepare import prepare
from zoo.report import Report
from zoo.shelf import proof, publish
from zoo.storage import places
from zoo.training.run import Run


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_it_stands_under_the_name_of_its_spec(trained: Callable[..., Run], home: Path) -> None:
    assert publish.publish(trained().folder) == home / "shelf" / "transformer-tiny-ende"
    assert zoo.names() == ["transformer-tiny-ende"]
    assert zoo.names("*big*") == []


def test_another_name_is_the_bundles_own(trained: Callable[..., Run]) -> None:
    folder = publish.publish(trained().folder, name="second,v1.2_b")
    assert folder.name == "second,v1.2_b"
    assert zoo.load("second,v1.2_b", device="cpu").spec.name == "second,v1.2_b"
    publish.verify("second,v1.2_b")


@pytest.mark.parametrize("name", ["../x", "..", ".", "", "/tmp/x", "a/b", "a\\b", ".hidden", "a..b", "x" * 101, "a\n"])
def test_a_name_never_leads_out_of_the_shelf(trained: Callable[..., Run], home: Path, name: str) -> None:
    run = trained()
    with pytest.raises(ZooError, match="cannot be the name"):
        publish.publish(run.folder, name=name)
    with pytest.raises(ZooError, match="there is no published model"):
        publish.verify(name)
    assert not (home / "shelf").exists()


def test_an_older_bundle_gives_way(trained: Callable[..., Run], tmp_path: Path) -> None:
    folder = publish.publish(trained().folder)
    (folder / "stray.txt").write_text("of the old one")
    before = contents(folder)
    assert publish.publish(trained(tmp_path / "second", training={"seed": 2}).folder) == folder
    after = contents(folder)
    assert "stray.txt" not in after
    assert after["weights.safetensors"] != before["weights.safetensors"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("at", ["card", "prove", "check", "interrupt"])
def test_what_goes_wrong_leaves_the_older_bundle(
    trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    folder = publish.publish(trained().folder)
    before = contents(folder)
    second = trained(tmp_path / "second", training={"seed": 2})
    wrong: dict[str, tuple[object, str, BaseException]] = {
        "card": (publish, "card", RuntimeError("no card")),
        "prove": (proof, "prove", ZooError("no proof")),
        "check": (publish.manifest, "check", ZooError("no manifest")),
        "interrupt": (publish, "_verify", KeyboardInterrupt()),
    }
    place, name, error = wrong[at]

    def fail(*given: object, **more: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place, name, fail)
        with pytest.raises(type(error)) as caught:
            publish.publish(second.folder)
    assert caught.value is error
    assert contents(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    publish.verify(folder.name)


def test_a_model_that_fails_its_proof_is_not_published(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """The program that opens the bundle must compute what the program that was proved did."""
    monkeypatch.setattr(proof, "TOLERANCE", -1.0)
    run = trained()
    with pytest.raises(ZooError, match="differ"):
        publish.publish(run.folder)
    assert list((home / "shelf").iterdir()) == []


def test_a_run_without_weights_is_refused(trained: Callable[..., Run]) -> None:
    run = trained()
    run.weights.unlink()
    with pytest.raises(ZooError, match="no weights yet"):
        publish.publish(run.folder)


def test_a_run_without_scores_is_published(trained: Callable[..., Run]) -> None:
    run = trained()
    run.scores.unlink()
    assert "Nobody had scored it" in (publish.publish(run.folder) / "README.md").read_text(encoding="utf-8")


def test_the_proof_is_of_the_dev_set_where_it_is_prepared(trained: Callable[..., Run]) -> None:
    run = trained()
    prepared = prepare(run.spec, Report())
    publish.write_json(run.data, {"fingerprint": prepared.fingerprint, "longest_source": 31})
    made = proof.read(publish.publish(run.folder) / "proof.safetensors")
    vocabulary = prepared.vocabulary
    assert [vocabulary.decode(row, "source") for row in made.source.tolist()] == prepared.texts("dev")[0]
    assert [vocabulary.decode(row, "target") for row in made.target.tolist()] == prepared.texts("dev")[1]


def test_the_proof_needs_no_corpus(trained: Callable[..., Run], home: Path) -> None:
    run = trained()
    for file in Path().glob("pairs.*"):
        file.unlink()
    publish.publish(run.folder)
    assert not places.prepared().exists()


def test_learned_positions_bound_the_proof(trained: Callable[..., Run]) -> None:
    """Sentences that the model has no positions for are left out of it."""
    architecture = {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4}
    learned = {**architecture, "positional_encoding": "learned", "max_positions": 14}
    run = trained(architecture=learned, corpus={"max_length": 12, "train": [{"grammar": 9}]})
    made = proof.read(publish.publish(run.folder) / "proof.safetensors")
    assert 0 < made.source.shape[1] <= 14
