"""A bundle opens as the run it was made of, and any damage to it is detected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specs import ZooError
from zoo.files import manifest
from zoo.generation.loading import open_model
from zoo.models import folder as model_folder
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.publishing import publish
from zoo.publishing.publish import verify
from zoo.text import tokenizer
from zoo.training.run import Run

Trained = Callable[..., Run]
FILES = [
    "README.md",
    "facts.json",
    "manifest.json",
    "proof.safetensors",
    "scores.json",
    "spec.yaml",
    "vocabulary.model",
    "weights.safetensors",
]
OPENED = ["spec.yaml", "vocabulary.model", "weights.safetensors"]


def flip(file: Path, position: float) -> None:
    """Flip one bit, at a share of the file's length."""
    content = bytearray(file.read_bytes())
    content[int(position * (len(content) - 1))] ^= 1 << 2
    file.write_bytes(content)


def test_a_bundle_has_these_files_with_equal_permissions(bundle: Path) -> None:
    assert sorted(path.name for path in bundle.iterdir()) == FILES
    assert len({path.stat().st_mode for path in bundle.iterdir()}) == 1
    tensors = load_file(bundle / "weights.safetensors")
    assert [tuple(tensor.shape) for name, tensor in tensors.items() if "embedding" in name] == [(101, 16)]
    assert not [name for name in tensors if "output_projection" in name]


def test_a_bundle_translates_as_its_run(trained: Trained) -> None:
    run = trained()
    texts = ["the old dog sees the cat", "", "two books?"]
    before = open_model(run.folder, device="cpu").translate(texts, n_best=2)
    folder = publish.publish(run.folder)
    shutil.rmtree("runs")
    translator = open_model(folder, device="cpu")
    assert translator.translate(texts, n_best=2) == before
    assert translator.longest_source == 31


def test_verify_reports_what_it_checked_also_for_a_folder(bundle: Path, tmp_path: Path) -> None:
    verified = verify(bundle.name)
    assert verified.files == len(FILES) - 1  # the manifest does not list itself
    assert verified.sentences == 4
    assert verified.max_difference <= 1e-5
    shutil.copytree(bundle, tmp_path / "else" / "where")
    assert verify(str(tmp_path / "else" / "where")).files == verified.files
    (tmp_path / "else" / "where" / "README.md").unlink()
    with pytest.raises(ZooError, match=r"else/where/README\.md"):
        verify(str(tmp_path / "else" / "where"))


def test_verify_detects_every_flipped_bit_and_every_truncation(bundle: Path) -> None:
    damages: list[tuple[str, Callable[[Path], object]]] = []
    for name in FILES:
        damages += [(name, lambda file, p=position: flip(file, p)) for position in (0.0, 0.3, 0.7, 1.0)]
        for share in (0.0, 0.5, 0.99):
            cut = lambda file, s=share: file.write_bytes(file.read_bytes()[: int(s * file.stat().st_size)])  # noqa: E731
            damages.append((name, cut))
        damages.append((name, Path.unlink))
    for name, damage in damages:
        content = (bundle / name).read_bytes()
        damage(bundle / name)
        with pytest.raises(ZooError) as raised:
            verify(str(bundle))
        # A wrong digest in the manifest looks like a damaged file.
        assert name in str(raised.value) or name == "manifest.json"
        assert raised.value.hint or name == "manifest.json"
        (bundle / name).write_bytes(content)
    verify(str(bundle))


def test_a_damaged_file_is_not_parsed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(*given: object, **options: object) -> None:
        pytest.fail("the damaged file was parsed")

    parsers = ((model_folder, "parse"), (tokenizer, "_load_model"), (weights, "safe_open"))
    for name, parser in zip(OPENED, parsers, strict=True):
        content = (bundle / name).read_bytes()
        flip(bundle / name, 0.4)
        with monkeypatch.context() as patch:
            patch.setattr(*parser, parsed)
            with pytest.raises(ZooError, match=f"{name}` is damaged: its SHA-256"):
                open_model(bundle, device="cpu")
        (bundle / name).write_bytes(content)


@pytest.mark.parametrize("name", ["weights.safetensors", "proof.safetensors"])
def test_a_header_that_is_too_long_is_not_read(bundle: Path, name: str) -> None:
    """Padding with spaces gives a valid file of any length."""
    content = (bundle / name).read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    padding = b" " * 10_000_000
    length = (end - 8 + len(padding)).to_bytes(8, "little")
    (bundle / name).write_bytes(length + content[8:end] + padding + content[end:])
    manifest.write(bundle)
    with pytest.raises(ZooError, match=f"{name}` is damaged: its header is 10 MB"):
        verify(bundle.name)


def test_other_weights_fail_even_with_a_new_manifest(stored: Callable[..., Path]) -> None:
    bundle, other = stored(), stored("other", training={"seed": 2})
    shutil.copyfile(other / "weights.safetensors", bundle / "weights.safetensors")
    manifest.write(bundle)
    with pytest.raises(ZooError, match="does not reproduce its reference log-probabilities"):
        verify(bundle.name)


def test_a_spec_or_vocabulary_of_another_model_is_refused(trained: Trained) -> None:
    run = trained()
    spec = run.spec_file.read_text()
    run.spec_file.write_text(spec.replace("size: 101", "size: 102"))
    with pytest.raises(ZooError, match="101 tokens"):
        open_model(run.folder, device="cpu")
    run.spec_file.write_text(spec)
    file = run.folder / "vocabulary.model"
    file.write_bytes(file.read_bytes() + b"\x12\x00")  # an additional empty field: equivalent, but not the same file
    with pytest.raises(ZooError, match="is not the one"):
        open_model(run.folder, device="cpu")


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
        with pytest.raises(ZooError) as raised:
            open_model(run.folder, device="cpu")
        assert message in str(raised.value)
    save_file(tensors, run.weights)
    assert open_model(run.folder, device="cpu").longest_source is None
