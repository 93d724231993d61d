"""Tables read the tensors and the settings that they write."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import specs
from tests.refusals import refused
from zoo.interop.tables import (
    TOOLKITS,
    Settings,
    TensorRow,
    read_settings,
    read_tensors,
    written_settings,
    written_tensors,
)
from zoo.interop.tensors import ForeignTensors

SETTINGS = {
    "{side}_layers": {"field": "N.{side}"},
    "{side}_heads": {"field": "h", "default": 8},
    "rate": {"field": "dropout", "default": 0.5},
    "epsilon": {"field": "norm.epsilon", "default": 1e-3},
    "scaled": {"field": "scale_embeddings", "default": False},
    "first": {"field": "norm.placement", "default": True, "names": {False: "post", True: "pre"}},
    "function": {
        "field": "activation",
        "default": "rectified",
        "names": {"rectified": "relu", "ramp": "relu", "swish": "silu"},
    },
}


@pytest.fixture(autouse=True)
def toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOOLKITS, "toolkit", {"converted": SETTINGS, "written": {"version": 1}})


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
    error = refused(r"`file` has the tensor `x+\.\.\.`", source.require_all_taken)
    assert len(error.problem) < 200


def test_settings_are_the_same_when_they_are_written_and_read() -> None:
    for changes in ({}, {"N": {"encoder": 3, "decoder": 1}, "activation": "silu", "scale_embeddings": False}):
        a = specs.load("base", {"architecture": changes}).architecture
        written = written_settings(a, "toolkit")
        assert written["version"] == 1
        assert written["function"] == ("swish" if changes else "rectified")
        fields = read_settings(Settings(written, "file"), "toolkit")
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
        refused(message, read_settings, Settings(values, "file"), "toolkit")
