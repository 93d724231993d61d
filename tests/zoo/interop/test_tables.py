"""Tables read the tensors and the settings that they write."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import specs
from specs import ZooError
from zoo.interop.tables import (
    Setting,
    Settings,
    TensorRow,
    read_settings,
    read_tensors,
    written_settings,
    written_tensors,
)
from zoo.interop.tensors import ForeignTensors

ROWS = [
    TensorRow("matrix", "w1", (3, 2), is_linear=True),
    TensorRow("gain", "norm_gain", (2,)),
    TensorRow("vector", "b1", (1, 4), is_row=True),
    TensorRow("table", "positions", (5, 2), unused=2),
    TensorRow("bias", "b2", (3,), is_bias=True),
]
SETTINGS = (
    Setting("{side}_layers", "N.{side}", int),
    Setting("{side}_heads", "h", 8),
    Setting("rate", "dropout", 0.5),
    Setting("epsilon", "norm.epsilon", 1e-3),
    Setting("scaled", "scale_embeddings", False),
    Setting("function", "activation", "rectified", {"rectified": "relu", "ramp": "relu", "swish": "silu"}),
)


def test_tensors_are_the_same_when_they_are_written_and_read() -> None:
    shapes = {"w1": (2, 3), "norm_gain": (2,), "b1": (4,), "positions": (3, 2), "b2": (3,)}
    tensors = {name: torch.randint(-9, 9, shape).float() for name, shape in shapes.items()}
    written = dict(written_tensors(tensors, ROWS))
    assert {row.foreign: row.shape for row in ROWS} == {name: tuple(tensor.shape) for name, tensor in written.items()}
    source = ForeignTensors(written, Path("file"))
    read = read_tensors(source, ROWS)
    source.require_all_taken()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_missing_biases_become_zeros() -> None:
    (bias,) = (row for row in ROWS if row.is_bias)
    ((_, written),) = written_tensors({}, [bias])
    assert not written.any()
    source = ForeignTensors({}, Path("file"))
    assert not read_tensors(source, [bias], optional_biases=True)["b2"].any()
    with pytest.raises(ZooError, match="has no tensor `bias`"):
        read_tensors(source, [bias])


def test_tensors_without_a_row_are_named_in_short() -> None:
    """A damaged file may have a name of any length."""
    source = ForeignTensors({"x" * 100_000: torch.ones(1)}, Path("file"))
    with pytest.raises(ZooError, match=r"`file` has the tensor `x+\.\.\.`") as error:
        source.require_all_taken()
    assert len(error.value.problem) < 200


def test_settings_are_the_same_when_they_are_written_and_read() -> None:
    for changes in ({}, {"N": {"encoder": 3, "decoder": 1}, "activation": "silu", "scale_embeddings": False}):
        a = specs.load("base", {"architecture": changes}).architecture
        written = written_settings(a, SETTINGS)
        assert written["function"] == ("swish" if changes else "rectified")
        fields = read_settings(Settings(written, "file"), SETTINGS)
        again = specs.load("base", {"architecture": fields}).architecture
        assert again == a


def test_settings_that_must_agree_or_exist_are_rejected_by_name() -> None:
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    for values, message in (
        ({"encoder_layers": 1}, "the `decoder_layers` setting is missing"),
        (layers | {"encoder_heads": 2}, "`decoder_heads: null` differs from the encoder's value `2`"),
        (layers | {"function": "tanh"}, "`function: tanh` is a value that zoo does not support"),
        (layers | {"encoder_heads": 0}, "`encoder_heads: 0` is not an integer of at least 1"),
    ):
        with pytest.raises(ZooError, match=message):
            read_settings(Settings(values, "file"), SETTINGS)
