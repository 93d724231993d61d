"""Files of weights: the same content is the same bytes."""

import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from specs import ZooError
from zoo.model.weights import Weights, read


def test_the_same_weights_are_the_same_file(tmp_path: Path) -> None:
    """Whatever order a library would keep the facts in."""
    tensors = {name: torch.arange(3.0) for name in ("b", "a", "c")}
    facts = {key: key.upper() for key in ("steps", "longest_source", "one", "two", "three", "four")}
    files = [tmp_path / f"{number}.safetensors" for number in range(4)]
    for file in files:
        Weights(tensors, facts).write(file)
    assert len({file.read_bytes() for file in files}) == 1
    found = read(files[0])
    assert facts.items() <= found.facts.items()
    assert torch.equal(found.tensors["a"], tensors["a"])


def test_files_of_before_and_of_another_hand_are_read(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"a": torch.ones(2)}, file, metadata={"format": "pt", "longest_source": "7"})
    assert read(file).longest_source == 7
    save_file({"a": torch.ones(2)}, file, metadata={"sha256": "0" * 64})
    with pytest.raises(ZooError, match="damaged"):
        read(file)


def test_a_limit_on_the_size_of_files_is_said_to_be_that(tmp_path: Path) -> None:
    """By the system's own word, though a library passes it on as an error of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ZooError, match="larger than this process may write a file") as caught:
            Weights({"a": torch.zeros(10_000)}).write(tmp_path / "new" / "w.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "ulimit -f" in caught.value.hint
    assert list((tmp_path / "new").iterdir()) == []
