"""Tables of tensors: missing biases, and tensors without a row."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.refusals import refused
from zoo.interop.tables import TensorRow, read_tensors, written_tensors
from zoo.interop.tensors import ForeignTensors


def test_missing_biases_become_zeros() -> None:
    bias = TensorRow("bias", "b2", (3,), is_bias=True)
    ((_, written),) = written_tensors({}, [bias])
    assert not written.any()
    source = ForeignTensors({}, Path("file"))
    assert not read_tensors(source, [bias], optional_biases=True)["b2"].any()
    refused("has no tensor `bias`", read_tensors, source, [bias])


def test_tensors_without_a_row_are_named_in_short() -> None:
    """A damaged file may have a name of any length."""
    source = ForeignTensors({"x" * 100_000: torch.ones(1)}, Path("file"))
    assert len(refused(r"`file` contains the tensor `x+\.\.\.`", source.require_all_taken).problem) < 200
