"""A model is read from files that belong together, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file

import specs
from specs import Spec, ZooError
from tests.conftest import Trained
from tests.refusals import refused
from tests.zoo.models.test_find import store
from zoo.files import manifest
from zoo.files.atomic import atomic_folder
from zoo.files.manifest import Manifest
from zoo.files.reading import MAX_BYTES, MAX_VOCABULARY_BYTES
from zoo.models import loading
from zoo.models.folder import ModelFolder
from zoo.models.loading import read_model
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.vocabulary import Vocabulary


@pytest.fixture
def bundle(trained: Trained) -> Path:
    return store(trained(), "model")


def test_a_vocabulary_may_be_larger_than_other_small_files(bundle: Path) -> None:
    with mock.patch.object(Manifest, "read_file", autospec=True, side_effect=Manifest.read_file) as read_file:
        read_model(bundle)
    limits = {name: limit for _, name, *limit in (call.args for call in read_file.call_args_list)}
    assert limits["vocabulary.model"] == [MAX_VOCABULARY_BYTES] > [MAX_BYTES]


@pytest.mark.parametrize("times", [1, 3])
def test_a_bundle_that_is_replaced_meanwhile_is_read_again(
    bundle: Path, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It is replaced by one with the same sizes after its vocabulary was read and before its weights are."""
    other = store(trained(tmp_path / "other", training={"seed": 2}), "other")
    copies = [shutil.copytree(folder, folder.with_name(f"copy-{folder.name}")) for folder in (other, bundle)]
    load, remaining = Vocabulary.load, [times]

    def replace_meanwhile(folder: Path, read: Callable[[Path], bytes] | None = None) -> Vocabulary:
        vocabulary = load(folder, read)
        if remaining[0]:
            remaining[0] -= 1
            with atomic_folder(bundle) as partial:
                shutil.copytree(copies[remaining[0] % 2], partial, dirs_exist_ok=True)
        return vocabulary

    monkeypatch.setattr(Vocabulary, "load", staticmethod(replace_meanwhile))
    model = read_model(bundle)
    assert model.spec.training.seed == 2
    assert torch.equal(model.weights.tensors["embedding"], load_file(other / "weights.safetensors")["embedding"])
    assert remaining == [0]


def test_a_bundle_that_is_between_two_renames_is_read(bundle: Path) -> None:
    bundle.rename(bundle.with_name(".model.partial-elsewhere-1.1.replaced"))
    assert set(read_model(bundle).weights.tensors)
    assert ModelFolder(bundle).published


def test_a_bundle_that_is_always_being_replaced_is_an_error(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_manifest_identity", mock.Mock(side_effect=count()))
    monkeypatch.setattr(loading, "_read_light_files", mock.Mock(side_effect=ZooError("torn")))
    refused("repeatedly replaced", read_model, bundle)


@pytest.mark.parametrize("kind", ["translation", "parsing"])
def test_a_target_vocabulary_of_another_task_is_refused(
    tokens: Vocabulary, parsing: Callable[..., Spec], tmp_path: Path, kind: str
) -> None:
    fields = {"vocabulary": {"size": 101, "shared": False}, "architecture.tied_embeddings": "target"}
    spec = parsing(**fields) if kind == "parsing" else specs.load("tiny", fields)
    brackets = TreeTokenizer(["NP"], ["XX"], "vinyals", 101)
    Vocabulary(tokens.source, tokens.source if kind == "parsing" else brackets).save(tmp_path)
    (tmp_path / "spec.yaml").write_text(spec.yaml(), encoding="utf-8")
    refused(rf"are .* but the task of the spec is `{kind}`", read_model, tmp_path)


def test_scores_and_facts_are_not_read_through_links_out_of_a_published_folder(bundle: Path, tmp_path: Path) -> None:
    for name in ("scores.json", "facts.json"):
        (tmp_path / name).write_text('{"imported": {"source": "elsewhere"}, "test": {"bleu": 99}}')
        (bundle / name).unlink(missing_ok=True)
        (bundle / name).symlink_to(tmp_path / name)
    assert ModelFolder(bundle).imported == {}
    with pytest.raises(ZooError, match="is a link to a file outside its folder"):
        assert ModelFolder(bundle).known_scores


@pytest.mark.parametrize("published", [True, False])
def test_a_link_to_an_endless_device_is_not_read(trained: Trained, published: bool) -> None:
    run = trained()
    folder = store(run, "model") if published else run.folder
    for name in ("vocabulary.model", "weights.safetensors", "spec.yaml"):
        (folder / name).rename(folder / "kept")
        (folder / name).symlink_to("/dev/zero")
        refused("pipe or device|is not a run|is a link to a file outside its folder", read_model, folder)
        if published:
            refused("is a link to a file outside its folder", manifest.check, folder)
        (folder / name).unlink()
        (folder / "kept").rename(folder / name)
