"""Files of weights: the same content is the same bytes."""

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
