"""SPEC, NAME and RUN name the right model, and a missing one is a helpful error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specs
import zoo
from tests.conftest import missing
from tests.refusals import refused
from zoo.files import manifest, storage
from zoo.models import find, local_store
from zoo.models.folder import ModelFolder, differing_fields
from zoo.models.loading import read_model
from zoo.models.registries import registry
from zoo.publishing.publish import publish, upload
from zoo.training.run import Run

SIZES = {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1}


def age(run: Run, seconds: int) -> Run:
    stamp = 1_700_000_000 - seconds
    os.utime(run.weights, (stamp, stamp))
    return run


def write_spec(run: Run, file: str = "own.yaml") -> str:
    """Write the spec of a run to a file, and return its name."""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(run.spec.yaml(), encoding="utf-8")
    return file


def store(run: Run, name: str = "") -> Path:
    """Copy a run into the local model store, with a manifest, which makes it a bundle."""
    folder = storage.models() / (name or run.spec.name)
    shutil.copytree(run.folder, folder)
    manifest.write(folder)
    return folder


def test_training_decoding_and_compilation_do_not_identify_a_model(trained: Callable[..., Run]) -> None:
    spec = write_spec(trained("runs/own"))
    more = {"decoding": {"beam": 9}, "training": {"steps": 7, "seed": 3}, "compilation": {"backend": "native"}}
    shutil.rmtree("runs")
    run = trained("runs/own", **more)
    assert find.of_spec(spec) == find.run(spec) == find.model(spec) == run.folder


DIFFERENCES = {
    "name": {"name": "other"},
    "architecture.dropout": {"architecture": {**SIZES, "dropout": 0.3}},
    "corpus.train": {"corpus": {"train": [{"grammar": 10}]}},
}


@pytest.mark.parametrize("key", DIFFERENCES)
def test_a_run_of_another_spec_is_an_error_with_the_differences(trained: Callable[..., Run], key: str) -> None:
    spec = write_spec(trained("runs/elsewhere"))
    shutil.rmtree("runs")
    trained("runs/own", **DIFFERENCES[key])
    for look_up in (find.of_spec, find.run, find.model):
        assert f"\n  {key}: " in str(refused(r"^the spec in `runs/own` differs from `own.yaml`:", look_up, spec))
    assert find.model("own") == find.run("own") == Path("runs/own")
    matching = trained("runs/matching")
    assert find.of_spec(spec) == matching.folder


def test_folders_whose_names_are_not_model_names_are_not_listed(trained: Callable[..., Run]) -> None:
    run = trained()
    for folder in ("b", f"a@{'0' * 12}", "copy of b", "-b"):
        store(run, folder)
    assert local_store.names() == ["b"]


def test_the_newest_run_with_weights_of_a_spec_is_used(trained: Callable[..., Run]) -> None:
    run = age(trained("runs/own"), 100)
    spec = write_spec(run)
    newer = age(trained("runs/elsewhere/second"), 50)
    assert find.of_spec(spec) == newer.folder
    age(run, 10)
    assert find.of_spec(spec) == run.folder
    run.weights.unlink()
    assert find.of_spec(spec) == newer.folder


def test_an_inherited_name_does_not_confuse_two_specs(trained: Callable[..., Run]) -> None:
    parent = write_spec(trained("runs/parent"), "parent.yaml")
    Path("mine.yaml").write_text(f"extends: {parent}\narchitecture: {{dropout: 0.3}}\n")
    shutil.rmtree("runs")
    mine = trained("runs/mine", architecture={**SIZES, "dropout": 0.3})
    refused("no trained model for `parent.yaml`", find.of_spec, parent)
    assert find.of_spec("mine.yaml") == mine.folder


def test_a_published_model_of_the_same_spec_is_used_if_there_is_no_trained_run(trained: Callable[..., Run]) -> None:
    run = trained()
    bundle, spec = store(run), write_spec(run)
    assert find.of_spec(spec) == run.folder
    run.weights.unlink()
    assert find.of_spec(spec) == bundle
    Path("mine.yaml").write_text("extends: tiny\n")
    refused("models/transformer-tiny-ende` differs from `mine.yaml`", find.of_spec, "mine.yaml")


def test_a_missing_model_is_an_error_with_paths_and_commands(home: Path) -> None:
    error = refused("`runs/base` does not exist", find.of_spec, "base")
    assert str(home / "models" / "transformer-base-ende") in str(error)
    assert not missing(error.hint, "`zoo train base`", "`zoo publish base`")
    assert error.exit_code == 2


def test_a_model_that_is_named_as_a_spec_is_an_error_with_the_right_option(trained: Callable[..., Run]) -> None:
    trained("runs/mine")
    for name in ("mine", "runs/mine"):
        assert f"use `--model {name}`" in refused(f"`{name}` is a model, not a spec", find.of_spec, name).hint
    refused("no spec is named `yours`", find.of_spec, "yours")


def test_a_model_is_named_by_folder_published_name_or_spec(trained: Callable[..., Run], tmp_path: Path) -> None:
    run, other = trained("runs/table3/a-h1"), trained(tmp_path / "other")
    bundle = store(run, "published")
    assert find.model("published") == find.model(str(bundle)) == bundle
    assert find.model("table3/a-h1") == find.model("runs/table3/a-h1") == run.folder
    assert find.model(str(other.folder)) == other.folder
    os.chdir(other.folder)
    assert find.model(".") == Path()
    trained("runs/tiny")
    Path("tiny").mkdir()
    assert find.model("tiny") == Path("runs/tiny"), "a folder that is not a model is ignored"


def test_a_name_never_leads_out_of_the_folders(home: Path) -> None:
    for folder in (home / "models", home / "x", Path("runs"), Path("x")):
        folder.mkdir(parents=True)
    for folder in (home, home / "x", Path("x")):  # models that `..` would reach
        for file in ("spec.yaml", "manifest.json", "weights.safetensors"):
            (folder / file).write_text("")
    for name in ("../x", "..", "", "/no/such", "a b", "x\0y"):
        refused("there is no model", find.model, name)


def test_a_missing_model_suggests_a_similar_name_and_a_bundle_is_not_a_run(trained: Callable[..., Run]) -> None:
    bundle = store(trained())
    for written in ("transformer-tiny-endde", "transformer-tiny", "tiny-ende"):
        assert "did you mean `transformer-tiny-ende`?" in refused("there is no model", find.model, written).hint
    refused("there is no run `.*`: `.*` is a published model", find.run, bundle)
    refused("`runs` is not a run: it has no spec.yaml", find.run, "runs")


def test_a_run_without_weights_uses_its_newest_checkpoint(trained: Callable[..., Run], report: Any) -> None:
    run = trained()
    for step in ("0000008", "0000010", "best-0000012"):
        (run.checkpoints / step).mkdir(parents=True)
        shutil.copy(run.weights, run.checkpoints / step)
    run.weights.unlink()
    assert find.model("tiny", report) == find.model(run.folder, report) == run.folder
    message = "`runs/tiny` has no averaged weights yet: its newest checkpoint is used (step 10)"
    assert report.warnings == [message, message]
    assert run.newest_weights == run.checkpoints / "0000010" / "weights.safetensors"
    assert read_model(run.folder, tensors=False).spec == run.spec
    refused("no weights yet", publish, run.folder)
    shutil.rmtree(run.checkpoints)
    assert "zoo train" in refused("has no weights yet", find.model, "tiny").hint


def test_exactly_one_option_names_the_model(trained: Callable[..., Run]) -> None:
    run = trained()
    assert find.from_options(write_spec(run), None) == find.from_options(None, "tiny") == run.folder
    for option in (None, "tiny"):
        assert "`--spec SPEC` or `--model NAME|RUN`" in refused(None, find.from_options, option, option).hint


def test_the_folder_of_the_corpus_counts_if_both_exist(tmp_path: Path) -> None:
    text = "extends: tiny\nname: own\ncorpus: {train: [{source: x.en, target: x.de}]}\n"
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "own.yaml").write_text(text)
    a, b = (specs.load(f"{folder}/own.yaml") for folder in ("a", "b"))
    assert list(differing_fields(a, b)) == ["corpus.folder"]
    assert not differing_fields(a, a)
    Path("b").rename("elsewhere")  # a corpus may have been moved
    assert not differing_fields(a, b)


def test_included_models_are_found_by_name_and_by_spec(
    trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained()
    monkeypatch.setattr(registry, "INCLUDED", tmp_path / "included")  # other tests share the one without models
    folder = publish(run.folder, name="everyday")
    upload(folder, str(registry.INCLUDED))
    shutil.rmtree(folder)
    spec_file = write_spec(run)
    shutil.rmtree(run.folder)
    assert zoo.names() == zoo.names("every*") == ["everyday"]
    assert zoo.names("x*") == local_store.names() == []
    assert find.model("everyday") == folder
    assert ModelFolder(folder).published
    shutil.rmtree(folder)
    text = Path(spec_file).read_text().replace("transformer-tiny-ende", "everyday")
    Path("same.yaml").write_text(text)
    assert find.of_spec("same.yaml") == folder
    shutil.rmtree(folder)
    Path("other.yaml").write_text(text.replace("d_ff: 24", "d_ff: 25"))
    refused(r"architecture.d_ff: `25` in `other.yaml`, `24` in the folder", find.of_spec, "other.yaml")
