"""A bundle opens as the run it was made of, and any damage to it is detected."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import load_file, save_file

from tests.conftest import Trained
from tests.refusals import refused
from zoo.files import manifest
from zoo.generation.loading import open_model
from zoo.models import folder as model_folder
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.publishing.publish import verify
from zoo.text import tokenizer

FILES = ["README.md", "facts.json", "manifest.json", "proof.safetensors", "scores.json"]
FILES += ["spec.yaml", "vocabulary.model", "weights.safetensors"]
OPENED = ["spec.yaml", "vocabulary.model", "weights.safetensors"]


def flipped(content: bytes, position: float) -> bytes:
    """Return the content with one flipped bit, at a share of its length."""
    place = int(position * (len(content) - 1))
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def test_a_bundle_has_these_files_with_equal_permissions(bundle: Path) -> None:
    assert sorted(path.name for path in bundle.iterdir()) == FILES
    assert len({path.stat().st_mode for path in bundle.iterdir()}) == 1
    tensors = load_file(bundle / "weights.safetensors")
    assert [tuple(tensor.shape) for name, tensor in tensors.items() if "embedding" in name] == [(101, 16)]
    assert not [name for name in tensors if "output_projection" in name]


def test_verify_reports_what_it_checked_also_for_a_folder(bundle: Path, tmp_path: Path) -> None:
    verified = verify(bundle.name)
    assert (verified.files, verified.sentences) == (len(FILES) - 1, 4)  # the manifest does not list itself
    assert verified.max_difference <= 1e-5
    assert verify(bundle.name, backend="eager").backend == "eager"
    elsewhere = shutil.copytree(bundle, tmp_path / "else" / "where")
    assert verify(str(elsewhere)).files == verified.files
    (elsewhere / "README.md").unlink()
    refused(r"else/where/README\.md", verify, str(elsewhere))


def test_verify_detects_every_flipped_bit_and_every_truncation(bundle: Path) -> None:
    for name in FILES:
        content = (bundle / name).read_bytes()
        truncated = [content[: int(share * len(content))] for share in (0.0, 0.5, 0.99)]
        for damaged in (*truncated, *(flipped(content, position) for position in (0.0, 0.3, 0.7, 1.0)), None):
            (bundle / name).unlink()
            if damaged is not None:
                (bundle / name).write_bytes(damaged)
            # A wrong digest in the manifest looks like a damaged file.
            error = refused(None if name == "manifest.json" else name, verify, str(bundle))
            assert error.hint or name == "manifest.json"
        (bundle / name).write_bytes(content)
    verify(str(bundle))


def test_a_damaged_file_is_not_parsed(bundle: Path) -> None:
    parsers = ((model_folder, "parse"), (tokenizer, "_load_model"), (weights, "safe_open"))
    for name, parser in zip(OPENED, parsers, strict=True):
        content = (bundle / name).read_bytes()
        (bundle / name).write_bytes(flipped(content, 0.4))
        with mock.patch.object(*parser, side_effect=AssertionError("the damaged file was parsed")):
            refused(f"{name}` is damaged: its SHA-256", open_model, bundle, device="cpu")
        (bundle / name).write_bytes(content)


def test_other_weights_fail_even_with_a_new_manifest(stored: Callable[..., Path]) -> None:
    bundle, other = stored(), stored("other", training={"seed": 2})
    shutil.copyfile(other / "weights.safetensors", bundle / "weights.safetensors")
    manifest.write(bundle)
    refused("does not reproduce its reference log-probabilities", verify, bundle.name)


def test_a_spec_or_vocabulary_of_another_model_is_refused(trained: Trained) -> None:
    run = trained()
    spec = run.spec_file.read_text()
    run.spec_file.write_text(spec.replace("size: 101", "size: 102"))
    refused("101 tokens", open_model, run.folder, device="cpu")
    run.spec_file.write_text(spec)
    file = run.folder / "vocabulary.model"
    file.write_bytes(file.read_bytes() + b"\x12\x00")  # an additional empty field: equivalent, but not the same file
    refused("is not the one", open_model, run.folder, device="cpu")


def test_weights_of_another_spec_are_refused(trained: Trained) -> None:
    run = trained()
    tensors = load_file(run.weights)
    without = {name: tensor for name, tensor in tensors.items() if name != "encoder.1.feed_forward.w1"}
    for changed, message in (
        (without, "`encoder.1.feed_forward.w1`"),
        ({**tensors, "encoder.7.feed_forward.w1": torch.ones(2, 2)}, "`encoder.7.feed_forward.w1`"),
        ({**tensors, "encoder.0.self_attention.query": torch.ones(3, 12)}, "[16, 12]"),
        ({**tensors, "embedding": tensors["embedding"].long()}, "int64"),
    ):
        Weights(changed).write(run.weights)
        refused(re.escape(message), open_model, run.folder, device="cpu")
    save_file(tensors, run.weights)
    assert open_model(run.folder, device="cpu").longest_source is None
