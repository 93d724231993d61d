"""Publishing puts a whole bundle in place of an older one, or changes nothing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import specs
import zoo
from specs import ZooError
from zoo.data.prepare import prepare
from zoo.files import storage
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.publishing import proof, publish
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.training.run import Run, RunIdentity

SIZES = {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1}
BASIS = RunIdentity("0123456789abcdef", 30, "eager", 2, 1)


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
    verify("second,v1.2_b")


@pytest.mark.parametrize("name", ["../x", "..", ".", "", "/tmp/x", "a/b", "a\\b", ".hidden", "a..b", "x" * 101, "a\n"])
def test_a_name_never_leads_out_of_the_shelf(trained: Callable[..., Run], home: Path, name: str) -> None:
    run = trained()
    with pytest.raises(ZooError, match="cannot be the name"):
        publish.publish(run.folder, name=name)
    with pytest.raises(ZooError, match="there is no published model"):
        verify(name)
    assert not (home / "shelf").exists()


def test_an_older_bundle_gives_way(trained: Callable[..., Run], tmp_path: Path) -> None:
    folder = publish.publish(trained().folder)
    (folder / "stray.txt").write_text("of the old one")
    before = contents(folder)
    assert publish.publish(trained(tmp_path / "second", training={"seed": 2}).folder, replace=True) == folder
    after = contents(folder)
    assert "stray.txt" not in after
    assert after["weights.safetensors"] != before["weights.safetensors"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def at_step(run: Run, *steps: int) -> Run:
    read = weights.read(run.weights)
    Weights(read.tensors, {**read.facts, "steps": ",".join(map(str, steps))}).write(run.weights)
    return run


OTHERS: list[dict[str, object]] = [
    {"training": {"seed": 2}},
    {"training": {"warmup_steps": 7}},
    {"architecture": {"dropout": 0.2}},
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_model_of_another_run_gives_way_by_word_alone(
    trained: Callable[..., Run], tmp_path: Path, other: dict[str, dict[str, object]]
) -> None:
    folder = publish.publish(trained().folder, name="mine")
    before, ((section, fields),) = contents(folder), other.items()
    ((key, value),) = fields.items()
    whole = {**SIZES, **fields} if section == "architecture" else fields
    second = trained(tmp_path / "second", **{section: whole})
    with pytest.raises(
        ZooError, match=f"mine` is of another run:\n  {section}.{key}: .* there, `{value}` here"
    ) as told:
        publish.publish(second.folder, name="mine")
    assert "`--replace`" in str(told.value.hint)
    assert contents(folder) == before
    publish.publish(second.folder, name="mine", replace=True)
    assert contents(folder) != before


def test_a_run_that_went_on_takes_the_place_of_what_it_was(trained: Callable[..., Run], tmp_path: Path) -> None:
    folder = publish.publish(trained().folder)
    longer = {"steps": 5000, "average": 2, "patience": 3}
    further = at_step(trained(tmp_path / "further", training=longer, decoding={"beam": 9}), 9, 12)
    assert publish.publish(further.folder) == folder
    assert "beam: 9" in (folder / "spec.yaml").read_text()
    assert publish.publish(further.folder) == folder, "again, to the same"


def test_a_training_of_fewer_steps_is_another_run(trained: Callable[..., Run], tmp_path: Path) -> None:
    folder = publish.publish(trained().folder)
    before = contents(folder)
    with pytest.raises(ZooError, match="its weights are of step 9, and these of step 5"):
        publish.publish(at_step(trained(tmp_path / "short"), 5).folder)
    assert contents(folder) == before


def test_the_same_recipe_trained_to_other_weights_is_another_run(trained: Callable[..., Run], tmp_path: Path) -> None:
    folder = publish.publish(trained().folder)
    before, again = contents(folder), trained(tmp_path / "again")
    read = weights.read(again.weights)
    Weights({name: 1.1 * tensor for name, tensor in read.tensors.items()}, read.facts).write(again.weights)
    with pytest.raises(ZooError, match="is of another run: it has other weights of the same steps"):
        publish.publish(again.folder)
    assert contents(folder) == before
    assert publish.publish(at_step(again, 3, 9).folder) == folder, "a mean of other checkpoints"


@pytest.mark.parametrize("damaged", ["spec.yaml", "weights.safetensors"])
def test_what_cannot_be_read_gives_way_by_word_alone(trained: Callable[..., Run], damaged: str) -> None:
    run = trained()
    folder = publish.publish(run.folder)
    (folder / damaged).write_bytes(b"\xff")
    with pytest.raises(ZooError, match="transformer-tiny-ende` cannot be read"):
        publish.publish(run.folder)
    publish.publish(run.folder, replace=True)
    verify(folder.name)


def test_a_name_that_was_inherited_is_not_published() -> None:
    Path("own.yaml").write_text("extends: tiny\n")
    Path("named.yaml").write_text("extends: own.yaml\nname: mine\n")
    own, named = specs.load("own.yaml"), specs.load("named.yaml")
    assert (own.named, named.named, specs.load("tiny").named) == (False, True, True)
    assert specs.load("own.yaml", ["name=mine"]).named
    run = Run(Path("runs/own"))
    run.start(own, replace(BASIS, named=own.named), Report())
    with pytest.raises(ZooError, match="says no name of its own: `transformer-tiny-ende`") as told:
        publish.publish("own")
    assert "`--name NAME`" in str(told.value.hint)
    run.start(own, BASIS, Report())
    with pytest.raises(ZooError, match="says no name of its own"):  # it stays what it was begun as
        publish.publish("own")
    with pytest.raises(ZooError, match="no weights yet"):
        publish.publish("own", name="mine")


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
        "interrupt": (publish, "verify_folder", KeyboardInterrupt()),
    }
    place, name, error = wrong[at]

    def fail(*given: object, **more: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place, name, fail)
        with pytest.raises(type(error)) as caught:
            publish.publish(second.folder, replace=True)
    assert str(caught.value).startswith(str(error))
    assert contents(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    verify(folder.name)


def test_a_model_that_fails_its_proof_is_not_published(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """The program that opens the bundle must compute what the program that was proved did."""
    monkeypatch.setattr(proof, "TOLERANCE", -1.0)
    run = trained()
    with pytest.raises(ZooError, match="differ"):
        publish.publish(run.folder)
    assert list((home / "shelf").iterdir()) == []


def test_what_is_on_the_shelf_already_is_told(trained: Callable[..., Run]) -> None:
    publish.publish(trained().folder, name="mine")
    with pytest.raises(ZooError, match="`mine` is no run: it is published already") as told:
        publish.publish("mine", name="other")
    assert "--to PLACE" in str(told.value.hint)
    with pytest.raises(ZooError, match="there is no run `neither`"):
        publish.publish("neither")


def test_a_run_without_weights_is_refused(trained: Callable[..., Run]) -> None:
    run = trained()
    run.weights.unlink()
    with pytest.raises(ZooError, match="no weights yet"):
        publish.publish(run.folder)


def test_a_run_without_scores_is_published(trained: Callable[..., Run]) -> None:
    run = trained()
    run.scores.unlink()
    assert "Nobody had scored it" in (publish.publish(run.folder) / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("scores", [{"dev": {}}, {"dev": 3}, {"dev": {"bleu": "much"}}])
def test_scores_that_do_not_say_enough_are_told(trained: Callable[..., Run], home: Path, scores: object) -> None:
    run = trained()
    publish.write_json(run.scores, scores)  # type: ignore[arg-type]
    with pytest.raises(ZooError, match=r"scores.json` is damaged"):
        publish.publish(run.folder)
    assert list((home / "shelf").iterdir()) == []


def test_the_proof_is_of_the_dev_set_where_its_text_goes_along(trained: Callable[..., Run]) -> None:
    run = trained()
    prepared = prepare(run.spec, Report())
    made = proof.read(publish.publish(run.folder, with_text=True) / "proof.safetensors", run.spec)
    vocabulary = prepared.vocabulary
    assert [vocabulary.decode(row, "source") for row in made.source.tolist()] == prepared.texts("dev")[0]
    assert [vocabulary.decode(row, "target") for row in made.target.tolist()] == prepared.texts("dev")[1]


def test_the_proof_needs_no_corpus(trained: Callable[..., Run], home: Path) -> None:
    run = trained()
    for file in Path().glob("pairs.*"):
        file.unlink()
    publish.publish(run.folder)
    assert not storage.prepared().exists()


def test_learned_positions_bound_the_proof(trained: Callable[..., Run]) -> None:
    """Sentences that the model has no positions for are left out of it."""
    architecture = {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4}
    learned = {**architecture, "positional_encoding": "learned", "max_positions": 14}
    run = trained(architecture=learned, corpus={"max_length": 12, "train": [{"grammar": 9}]})
    made = proof.read(publish.publish(run.folder) / "proof.safetensors", run.spec)
    assert 0 < made.source.shape[1] <= 14


def test_of_two_that_publish_under_one_name_the_second_is_refused(
    trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = trained(), trained(tmp_path / "second", training={"seed": 7})
    checked = publish.verify_folder

    def meanwhile(folder: Path, report: Report) -> None:
        monkeypatch.setattr(publish, "verify_folder", checked)
        other = threading.Thread(target=publish.publish, args=[second.folder], kwargs={"name": "one"})
        other.start()
        other.join()
        checked(folder, report)

    monkeypatch.setattr(publish, "verify_folder", meanwhile)
    with pytest.raises(ZooError, match="is of another run"):
        publish.publish(first.folder, name="one")
    assert zoo.load("one", device="cpu").spec.training.seed == 7
