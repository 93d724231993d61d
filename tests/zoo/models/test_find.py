"""What SPEC, NAME and RUN lead to, and what is said where they lead nowhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import specs
from specs import ZooError
from zoo.models import find
from zoo.models.folder import differing_fields
from zoo.publishing.publish import publish
from zoo.training.run import Run

SIZES = {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1}


def age(run: Run, seconds: int) -> Run:
    stamp = 1_700_000_000 - seconds
    os.utime(run.weights, (stamp, stamp))
    return run


def own(run: Run, file: str = "own.yaml") -> str:
    """A file with the spec that a run is of."""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(run.spec.yaml(), encoding="utf-8")
    return file


def test_how_a_run_was_trained_decoded_and_compiled_does_not_matter(trained: Callable[..., Run]) -> None:
    spec = own(trained("runs/own"))
    more = {"decoding": {"beam": 9}, "training": {"steps": 7, "seed": 3}, "compilation": {"backend": "native"}}
    shutil.rmtree("runs")
    run = trained("runs/own", **more)
    assert find.of_spec(spec) == find.run(spec) == find.model(spec) == run.folder


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("name", {"name": "other"}),
        ("architecture.dropout", {"architecture": {**SIZES, "dropout": 0.3}}),
        ("corpus.train", {"corpus": {"train": [{"grammar": 10}]}}),
    ],
)
def test_a_run_of_another_spec_is_told_with_what_differs(
    trained: Callable[..., Run], key: str, fields: dict[str, object]
) -> None:
    spec = own(trained("runs/elsewhere"))
    shutil.rmtree("runs")
    trained("runs/own", **fields)
    for look in (find.of_spec, find.run, find.model):
        with pytest.raises(ZooError, match=r"^`runs/own` is of another spec than `own.yaml`:") as caught:
            look(spec)
        assert f"\n  {key}: " in str(caught.value)
    assert find.model("own") == find.run("own") == Path("runs/own"), "called by its own name it is meant"
    there = trained("runs/there")
    assert find.of_spec(spec) == there.folder


def test_a_published_model_of_another_spec_does_not_stand_in(trained: Callable[..., Run]) -> None:
    publish(trained("runs/there").folder)
    shutil.rmtree("runs")
    Path("mine.yaml").write_text("extends: tiny\n")
    with pytest.raises(ZooError, match=r"shelf/transformer-tiny-ende` is of another spec than `mine.yaml`"):
        find.of_spec("mine.yaml")


def test_a_run_that_a_newer_zoo_wrote_is_said(trained: Callable[..., Run]) -> None:
    run = trained("runs/newer")
    spec = own(run)
    text = run.spec_file.read_text()
    run.spec_file.write_text(text.replace(text.partition("\n")[0], "format: 99"))
    with pytest.raises(ZooError, match=r"no trained model of `own.yaml`.*; a newer zoo wrote this, in format 99"):
        find.of_spec(spec)
    other = trained("runs/other")
    assert find.of_spec(spec) == other.folder


def test_the_newest_run_of_a_spec_is_meant(trained: Callable[..., Run]) -> None:
    run = age(trained("runs/own"), 100)
    spec = own(run)
    newer = age(trained("runs/elsewhere/second"), 50)
    assert find.of_spec(spec) == newer.folder
    age(run, 10)
    assert find.of_spec(spec) == run.folder


def test_a_run_without_weights_is_passed_over(trained: Callable[..., Run]) -> None:
    Path("mine.yaml").write_text("extends: tiny\nname: mine\n")
    older = age(trained("runs/older", **_as("mine.yaml")), 100)
    trained("runs/mine", **_as("mine.yaml")).weights.unlink()
    assert find.of_spec("mine.yaml") == older.folder


def test_a_spec_that_inherits_its_name_does_not_take_its_parents_place(trained: Callable[..., Run]) -> None:
    """Whoever forgets `name:` must not be given the other's model."""
    parent = own(trained("runs/parent"), "parent.yaml")
    Path("mine.yaml").write_text(f"extends: {parent}\narchitecture: {{dropout: 0.3}}\n")
    shutil.rmtree("runs")
    mine = trained("runs/mine", architecture={**SIZES, "dropout": 0.3})
    with pytest.raises(ZooError, match=r"no trained model of `parent.yaml`"):
        find.of_spec(parent)
    assert find.of_spec("mine.yaml") == mine.folder


def test_a_published_model_stands_in_for_a_run(trained: Callable[..., Run]) -> None:
    run = trained()
    bundle, spec = publish(run.folder), own(run)
    assert find.of_spec(spec) == run.folder
    run.weights.unlink()
    assert find.of_spec(spec) == bundle


def test_a_damaged_run_hides_no_other(trained: Callable[..., Run]) -> None:
    trained("runs/broken").spec_file.write_bytes(b"\xff\xfe")
    run = trained("runs/tiny")
    assert find.of_spec(own(run)) == run.folder


def test_where_there_is_neither_the_places_and_the_commands_are_named(home: Path) -> None:
    with pytest.raises(ZooError) as caught:
        find.of_spec("base")
    assert "`runs/base` is not there" in str(caught.value)
    assert str(home / "shelf" / "transformer-base-ende") in str(caught.value)
    assert "`zoo train base`" in str(caught.value.hint)
    assert "`zoo publish base`" in str(caught.value.hint)
    assert caught.value.exit_code == 2


def test_a_model_is_a_folder_a_published_name_or_a_specs_run(trained: Callable[..., Run], tmp_path: Path) -> None:
    run, other = trained("runs/table3/a-h1"), trained(tmp_path / "other")
    bundle = publish(run.folder, name="published")
    assert find.model("published") == bundle
    assert find.model("table3/a-h1") == run.folder
    assert find.model("runs/table3/a-h1") == run.folder
    assert find.model(str(other.folder)) == other.folder
    assert find.model(str(bundle)) == bundle
    os.chdir(other.folder)
    assert find.model(".") == Path()


def test_a_folder_that_is_no_model_hides_no_name(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    Path("tiny").mkdir()
    assert find.model("tiny") == Path("runs/tiny")


@pytest.mark.parametrize("name", ["../x", "..", "", "/no/such", "a b", "x\0y"])
def test_a_name_that_leads_nowhere_leads_nowhere_else(home: Path, name: str) -> None:
    for folder in (home / "shelf", home / "x", Path("runs"), Path("x")):
        folder.mkdir(parents=True)
    for folder in (home, home / "x", Path("x")):  # models, where `..` leads out of shelf and runs
        for file in ("spec.yaml", "manifest.json", "weights.safetensors"):
            (folder / file).write_text("")
    with pytest.raises(ZooError, match="there is no model"):
        find.model(name)


def test_a_missing_model_suggests_the_nearest(trained: Callable[..., Run]) -> None:
    publish(trained().folder)
    for written in ("transformer-tiny-endde", "transformer-tiny", "tiny-ende"):
        with pytest.raises(ZooError) as caught:
            find.model(written)
        assert "did you mean `transformer-tiny-ende`?" in str(caught.value.hint)


def test_a_run_is_a_folder_or_the_name_of_a_spec(trained: Callable[..., Run], tmp_path: Path) -> None:
    run, other = trained(), trained(tmp_path / "other")
    assert find.run("tiny") == find.run("runs/tiny") == run.folder
    assert find.run(other.folder) == other.folder


def test_a_bundle_is_no_run(trained: Callable[..., Run]) -> None:
    bundle = publish(trained().folder)
    with pytest.raises(ZooError, match="no run"):
        find.run(bundle)


def test_weights_that_are_not_there_yet_are_told_with_what_makes_them(trained: Callable[..., Run]) -> None:
    run = trained()
    run.weights.unlink()
    with pytest.raises(ZooError, match="has no weights yet") as caught:
        find.model("tiny")
    assert "zoo train" in str(caught.value.hint)
    (run.checkpoints / "0000010").mkdir(parents=True)
    with pytest.raises(ZooError, match="has no weights yet") as caught:
        find.model("tiny")
    assert "`zoo average runs/tiny`" in str(caught.value.hint)


def test_exactly_one_says_which_model_is_meant(trained: Callable[..., Run]) -> None:
    run = trained()
    assert find.from_options(own(run), None) == find.from_options(None, "tiny") == run.folder
    for spec, model in ((None, None), ("tiny", "tiny")):
        with pytest.raises(ZooError) as caught:
            find.from_options(spec, model)
        assert "`--spec SPEC` or `--model NAME|RUN`" in str(caught.value.hint)


def _as(reference: str) -> dict[str, object]:
    """The fields by which a run is known to be of a spec."""
    spec = specs.load(reference)
    return {
        "name": spec.name,
        **{key: getattr(spec, key).model_dump() for key in ("architecture", "vocabulary", "corpus")},
    }


def test_the_same_words_about_other_texts_are_another_model(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "own.yaml").write_text(
            "extends: tiny\nname: own\ncorpus: {train: [{source: x.en, target: x.de}]}\n"
        )
    a, b = (specs.load(f"{folder}/own.yaml") for folder in ("a", "b"))
    assert list(differing_fields(a, b)) == ["corpus.folder"]
    assert not differing_fields(a, a)
    Path("b").rename("elsewhere")  # where the texts lie now, the spec does not know
    assert not differing_fields(a, b)
