"""Weights files are reproducible, and damage or a foreign vocabulary is detected."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

import compiler
from compiler import build
from compiler.graph import origins
from compiler.weights import Quantised, Scales
from tests.examples import small
from tests.paths import ROOT
from tests.refusals import refused
from zoo.models.weights import Weights, dequantise, known_digest, quantise, read, read_metadata, same_vocabulary


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "w.safetensors"


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    tensors = {name: torch.arange(3.0) for name in ("b", "a", "c")}
    metadata = {key: key.upper() for key in ("steps", "longest_source", "one", "two", "three", "four")}
    files = [tmp_path / f"{number}.safetensors" for number in range(4)]
    for file in files:
        Weights(tensors, metadata).write(file)
    assert len({file.read_bytes() for file in files}) == 1
    weights = read(files[0])
    assert metadata.items() <= weights.metadata.items()
    assert torch.equal(weights.tensors["a"], tensors["a"])
    assert read_metadata(files[0]) == weights.metadata
    assert known_digest(files[0]) == weights.digest != None  # noqa: E711
    assert known_digest(tmp_path / "none") is None


def test_the_digest_covers_names_types_and_shapes(tmp_path: Path) -> None:
    zeros = torch.zeros(2, 2)  # all have the same bytes
    variants = {"a": zeros}, {"b": zeros}, {"a": zeros.flatten()}, {"a": torch.zeros(8, dtype=torch.bfloat16)}
    digests = set()
    for tensors in variants:
        Weights(tensors, {}).write(tmp_path / "w.safetensors")
        digests.add(known_digest(tmp_path / "w.safetensors"))
    assert len(digests) == len(variants)


def tensor(rows: int, columns: int, seed: int, size: float) -> torch.Tensor:
    return size * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


SIZES = st.integers(1, 9)
VALUES = st.builds(tensor, SIZES, SIZES, st.integers(0, 99), st.sampled_from([0.0, 1e-6, 1.0, 1e6]))


@given(VALUES, st.integers(0, 1))
def test_int8_is_within_half_a_step_and_quantising_again_changes_nothing(matrix: torch.Tensor, dimension: int) -> None:
    stored = quantise({"w": matrix, "other": matrix}, {"w": dimension})
    tensors, dimensions = dequantise(stored)
    assert (set(tensors), tensors["other"] is matrix) == ({"w", "other"}, True)
    scales = stored["w.scales"].float()
    assert (stored["w"].dtype, scales.numel()) == (torch.int8, matrix.shape[dimension])
    # A scale in bfloat16 can be too small for the largest value by a factor of at most 1 + 2^-8.
    assert ((tensors["w"] - matrix).abs() <= scales / 2 + matrix.abs() / 256).all()
    again = quantise(tensors, dimensions)
    assert all(torch.equal(again[name], stored[name]) for name in stored)


@pytest.mark.parametrize("tied", ["all", "none"])
def test_int8_backends_do_not_round_the_matrices_of_an_int8_file_again(file: Path, tied: str) -> None:
    spec = small(tied_embeddings=tied, positions={"kind": "learned", "rows": 128})
    tensors, graphs = build(spec).weights(), compiler.graphs(spec, precision="int8")
    Weights(tensors, {}, compiler.int8_dimensions(compiler.lower(spec, compiler.Purpose.SCORE))).write(file)
    found = read(file).tensors
    rounded = [origin for origin in origins(graphs.values()).values() if isinstance(origin, Quantised)]
    for origin in rounded:
        matrix, scales = (kind(origin.part, origin.dimension).make(found) for kind in (Quantised, Scales))
        torch.testing.assert_close(matrix * scales.unsqueeze(1 - origin.dimension), origin.part.make(found))
    assert all(torch.equal(found[name], tensors[name]) for name in ("encoder.positions", "decoder.positions"))


def test_int8_files_have_a_quarter_of_the_size_and_are_read_as_floats(file: Path) -> None:
    tensors = {"w1": torch.randn(256, 64), "b1": torch.randn(64), "conv": torch.randn(2, 3, 4)}
    Weights(tensors, {"steps": "7"}).write(file)
    full = file.stat().st_size
    Weights(tensors, {"steps": "7"}, {"w1": 1}).write(file)
    assert file.stat().st_size < 0.28 * full
    weights = read(file)
    assert (weights.int8_dimensions, weights.metadata["stored_type"]) == ({"w1": 1}, "int8")
    assert (weights.averaged_steps, weights.tensors["w1"].dtype) == ((7,), torch.float32)
    assert all(torch.equal(weights.tensors[name], tensors[name]) for name in ("b1", "conv"))
    before = file.read_bytes()
    weights.write(file)  # as `zoo publish` does
    assert file.read_bytes() == before


def test_foreign_files_are_read_and_a_wrong_digest_is_damage(file: Path) -> None:
    save_file({"a": torch.ones(2)}, file, metadata={"format": "pt", "longest_source": "7"})
    assert (read(file).longest_source, read(file).averaged_steps) == (7, ())
    for digest in ("0" * 64, ""):
        save_file({"a": torch.ones(2)}, file, metadata={"sha256": digest})
        refused("damaged", read, file)
    save_file({"a": torch.ones(2, dtype=torch.int32)}, file)
    refused(r"torch.int32, but weights must be floating-point numbers", read, file)
    save_file({"a": torch.ones(2, dtype=torch.int8)}, file)
    refused(r"`a` is in int8, but has no scales `a.scales`", read, file)
    file.write_bytes((10_000_001).to_bytes(8, "little") + b"{}")
    refused("w.safetensors` is damaged: its header is 10 MB", read, file)


def test_the_brackets_of_a_parser_belong_to_its_weights(file: Path, tmp_path: Path) -> None:
    (file.parent / "vocabulary.source.model").write_bytes(b"tokens")
    (file.parent / "vocabulary.target.json").write_bytes(b"NP VP")
    Weights({"a": torch.ones(2)}, {"steps": "3,9,6"}).write(file)
    weights, elsewhere = read(file), tmp_path / "other" / "w.safetensors"
    assert weights.averaged_steps == (3, 9, 6)
    elsewhere.parent.mkdir()
    weights.write(elsewhere)
    assert read(elsewhere).metadata.keys() == weights.metadata.keys() - {"brackets"}
    (file.parent / "vocabulary.target.json").write_bytes(b"VP NP")
    refused(r"is damaged, or is not the one that `w.safetensors` was trained with", read, file)
    weights.write(file)
    assert not same_vocabulary(weights.metadata, read(file).metadata)
    assert same_vocabulary(weights.metadata, weights.metadata)


OTHER_USER = """
import os
import sys
from pathlib import Path
from specs import ZooError
from zoo.models import find
from zoo.models.loading import read_model
from zoo.models.weights import read
os.setgid(65534), os.setuid(65534)
for attempt in (lambda: read(Path(sys.argv[1])), lambda: read_model(find.model(sys.argv[2]))):
    try:
        attempt()
    except ZooError as error:
        print(error.summary, "|", error.hint)
"""


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can be another user")
def test_private_files_of_another_user_are_not_reported_as_missing(file: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    private = tmp_path / "private"
    Weights({"a": torch.ones(2)}).write(file)
    file.chmod(0o600)
    private.mkdir(0o700)
    command = [sys.executable, "-c", OTHER_USER, str(file), str(private)]
    lines = subprocess.check_output(command, text=True, cwd=ROOT).splitlines()
    assert lines[0].startswith(f"you do not have permission to read `{file}` | ask its owner")
    assert lines[1].startswith(f"you do not have permission to read `{private}/manifest.json` | ")


def test_limits_of_the_process_are_clear_errors(file: Path) -> None:
    def limited(kind: int, limit: int, message: str, action: object, argument: Path) -> str:
        soft, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit, hard))
        try:
            return str(refused(message, action, argument).hint)
        finally:
            resource.setrlimit(kind, (soft, hard))

    new = file.parent / "new" / "w.safetensors"
    large = Weights({"a": torch.zeros(10_000)})
    hint = limited(resource.RLIMIT_FSIZE, 10_000, "larger than the file size limit", large.write, new)
    assert "ulimit -f" in hint
    assert list(new.parent.iterdir()) == []
    Weights({"a": torch.ones(2)}, {}).write(file)
    os.truncate(file, 1 << 40)
    limited(resource.RLIMIT_AS, 1 << 39, r"w.safetensors` cannot be read", read, file)
