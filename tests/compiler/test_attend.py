"""Attention weights as outputs: for every attention, equal to the interpreter's and to those that scoring uses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compiler import EmittedProgram, Purpose, build, graphs, interpret, lower
from compiler.assemble import initial_weights
from compiler.operations.attention import Attention
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD
from tests.compiler.test_conformance import ARCHITECTURES, FEED_FORWARD
from tests.examples import small

SHAPES: dict[str, Any] = {name: ARCHITECTURES[name] for name in ("pre", "additive", "unscaled", "restricted")}
SHAPES |= {"post": {**ARCHITECTURES["post"], "attention_dropout": 0.3}, "one head": {"h": 1, "d_k": 5, "d_v": 7}}
SHAPES["no self-attention"] = {"encoder": [FEED_FORWARD], "decoder": [{"kind": "cross_attention"}]}
TOLERANCE = 1e-4
"""Scores are in the tens, because `weights` are large: float32 rounds them by some 1e-5, and the softmax likewise."""
SOURCE = PaddedBatch.pad([[7, 8, 9, 10, EOS], [11, 12, EOS], [EOS]])
TARGET = torch.tensor([[BOS, 20, 21, EOS, PAD], [BOS, 22, 23, 24, EOS], [BOS, EOS, PAD, PAD, PAD]])
BATCH = {**SOURCE.inputs, "target": TARGET}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_the_interpreters_and_sum_to_one_without_hidden_keys(shape: str, precision: str) -> None:
    spec = small(**SHAPES[shape])
    drawn = initial_weights(spec, graphs(spec, [Purpose.SCORE])).items()
    weights = {n: 3 * t if "attention" in n else t for n, t in drawn}  # attention is then far from uniform
    program = build(spec, [Purpose.ATTEND], weights=weights, backend="eager", precision=precision)
    assert isinstance(program, EmittedProgram)
    with torch.no_grad():
        found = program.attend(SOURCE, TARGET)[1]
    assert found
    expected = interpret(lower(spec, Purpose.ATTEND), weights, BATCH)
    for name, each in found.items():
        if precision == "float32":
            torch.testing.assert_close(each, expected[name], atol=TOLERANCE, rtol=0)
        assert each.dtype == torch.float32
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]), atol=TOLERANCE, rtol=0)
        padding = (SOURCE.values == PAD)[:, None, None, :]
        if name.endswith("restricted_attention"):  # where padding sees itself
            padding = padding & (~torch.eye(padding.shape[3], dtype=torch.bool))
        hidden = each.masked_select(padding) if name.startswith("encoder") or "cross" in name else each.triu(1)
        assert not hidden.any()
        assert each.masked_select(each > 0).std() > 0.01  # they differ


def test_they_are_explicit_on_a_gpu() -> None:
    lowered = graphs(small(), [Purpose.ATTEND, Purpose.SCORE], "cuda")
    for purpose, fused in ((Purpose.SCORE, 6), (Purpose.ATTEND, 0)):
        attentions = [n.operation for n in lowered[purpose].nodes if isinstance(n.operation, Attention)]
        assert sum(each.one_kernel for each in attentions) == fused
    assert len(lowered[Purpose.ATTEND].outputs) == 6 + 1
