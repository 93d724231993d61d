"""A load takes what belongs together, or nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import specs
import zoo
from specs import Spec, ZooError
from zoo.files import digests, manifest, storage
from zoo.files.atomic import atomic_folder
from zoo.files.manifest import Manifest
from zoo.files.reading import MAX_BYTES, MAX_VOCABULARY_BYTES
from zoo.models import contents, weights
from zoo.models.loading import read_model
from zoo.models.weights import Weights
from zoo.publishing.publish import publish
from zoo.publishing.verify import verify
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

Trained = Callable[..., Run]


@pytest.fixture
def bundle(trained: Trained) -> Path:
    return publish(trained().folder)


@pytest.fixture
def other(trained: Trained, tmp_path: Path) -> Path:
    """A bundle of the same spec and of the same sizes, which computes something else."""
    return publish(trained(tmp_path / "other", training={"seed": 2}).folder, name="other")


def test_a_vocabulary_may_have_more_bytes_than_other_small_files(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bundle as in a run: it may have a million tokens."""
    asked, content = {}, Manifest.content

    def counted(self: Manifest, name: str, *most: int) -> bytes:
        asked[name] = most
        return content(self, name, *most)

    monkeypatch.setattr(Manifest, "content", counted)
    read_model(bundle)
    assert asked["vocabulary.model"] == (MAX_VOCABULARY_BYTES,) > (MAX_BYTES,)


def stripped(file: Path) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    save_file(tensors, file)


def test_weights_of_another_bundle_are_refused(bundle: Path, other: Path) -> None:
    shutil.copyfile(other / "weights.safetensors", bundle / "weights.safetensors")
    with pytest.raises(ZooError, match=r"weights.safetensors` is damaged"):
        zoo.load(bundle.name, device="cpu")


def test_weights_and_vocabulary_of_another_bundle_are_refused(bundle: Path, trained: Trained, tmp_path: Path) -> None:
    run = trained(tmp_path / "other")
    file = run.folder / "vocabulary.model"
    file.write_bytes(file.read_bytes() + b"\x12\x00")  # an empty field more: read alike, but not the same file
    Weights(load_file(run.weights)).write(run.weights)
    for name in ("weights.safetensors", "vocabulary.model"):
        shutil.copyfile(run.folder / name, bundle / name)
    with pytest.raises(ZooError, match="is damaged"):
        zoo.load(bundle.name, device="cpu")


def test_weights_without_their_metadata_are_refused(bundle: Path) -> None:
    stripped(bundle / "weights.safetensors")
    with pytest.raises(ZooError, match=r"weights.safetensors` is damaged"):
        zoo.load(bundle.name, device="cpu")


def test_a_run_has_no_manifest_and_is_held_to_what_its_weights_say(trained: Trained) -> None:
    run = trained()
    before = read_model(run.folder)
    stripped(run.weights)
    assert set(read_model(run.folder).weights.tensors) == set(before.weights.tensors)


def test_a_wrong_memory_condemns_no_bundle(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    read_model(bundle)
    entries = list(storage.verified().iterdir())
    assert entries
    for entry in entries:
        said = json.loads(entry.read_text())
        entry.write_text(json.dumps({**said, "digest": "0" * 64}))
    read_model(bundle)


def test_a_bundle_is_hashed_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    read_model(bundle)
    for module, name in ((manifest, "sha256"), (weights, "_digest")):
        monkeypatch.setattr(module, name, lambda given: pytest.fail("hashed twice"))
    read_model(bundle)


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_replaced_while_it_is_read_is_read_again(
    bundle: Path, other: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """After its vocabulary was read, and before its weights: what comes of it belongs to the last that stood there."""
    kept = [shutil.copytree(folder, folder.with_name(f"kept-{folder.name}")) for folder in (other, bundle)]
    load, left = Vocabulary.load, [times]

    def meanwhile(folder: Path, read: Callable[[Path], bytes] | None = None) -> Vocabulary:
        found = load(folder, read)
        if left[0]:
            left[0] -= 1
            with atomic_folder(bundle) as partial:
                shutil.copytree(kept[left[0] % 2], partial, dirs_exist_ok=True)
        return found

    monkeypatch.setattr(Vocabulary, "load", staticmethod(meanwhile))
    found = read_model(bundle)
    assert found.spec.training.seed == 2
    assert torch.equal(found.weights.tensors["embedding"], load_file(other / "weights.safetensors")["embedding"])
    assert left == [0]


def test_what_is_replaced_again_and_again_is_told(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest.Manifest, "current", False)
    monkeypatch.setattr(contents, "_read", lambda of, listed: (_ for _ in ()).throw(ZooError("torn")))
    with pytest.raises(ZooError, match="replaced again and again"):
        read_model(bundle)


@pytest.mark.parametrize("kind", ["translation", "parsing"])
def test_a_target_vocabulary_of_another_task_is_refused(
    tokens: Vocabulary, parsing: Callable[..., Spec], tmp_path: Path, kind: str
) -> None:
    """Its numbers of tokens, and so its weights, may be those that are wanted."""
    fields = {"vocabulary": {"size": 101, "shared": False}, "architecture.tied_embeddings": "target"}
    spec = parsing(**fields) if kind == "parsing" else specs.load("tiny", fields)
    brackets = TreeTokenizer(["NP"], ["XX"], "vinyals", 101)
    Vocabulary(tokens.source, tokens.source if kind == "parsing" else brackets).save(tmp_path)
    (tmp_path / "spec.yaml").write_text(spec.yaml(), encoding="utf-8")
    with pytest.raises(ZooError, match=rf"are .* and the task of its spec is `{kind}`"):
        read_model(tmp_path)


@pytest.mark.parametrize("name", ["vocabulary.model", "weights.safetensors", "spec.yaml"])
@pytest.mark.parametrize("published", [True, False])
def test_a_link_to_a_device_without_end_is_not_read(trained: Trained, name: str, published: bool) -> None:
    run = trained()
    folder = publish(run.folder) if published else run.folder
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(ZooError, match=r"not a regular file|is not a run|is a link out of its folder"):
        read_model(folder)
    if published:
        with pytest.raises(ZooError, match="is a link out of its folder"):
            verify(folder.name)
