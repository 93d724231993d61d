"""Attention weights as outputs: for every attention, equal to the interpreter's and to those that scoring uses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from compiler import EmittedProgram, Purpose, build, graphs, interpret, lower
from compiler.initialization import initial_weights
from compiler.operations.attention import Attention
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD, Spec
from tests.compiler.test_conformance import ARCHITECTURES
from tests.examples import small

SHAPES: dict[str, dict[str, object]] = {
    **{name: ARCHITECTURES[name] for name in ("pre", "additive", "unscaled", "restricted")},
    "post": {**ARCHITECTURES["post"], "attention_dropout": 0.3},
    "one head": {"h": 1, "d_k": 5, "d_v": 7},
    "no self-attention": {"encoder": [{"kind": "feed_forward"}], "decoder": [{"kind": "cross_attention"}]},
}
TOLERANCE = 1e-4
"""Scores are in the tens, because `weights` are large: float32 rounds them by some 1e-5, and the softmax likewise."""
SOURCE = PaddedBatch.pad([[7, 8, 9, 10, EOS], [11, 12, EOS], [EOS]])
TARGET = torch.tensor([[BOS, 20, 21, EOS, PAD], [BOS, 22, 23, 24, EOS], [BOS, EOS, PAD, PAD, PAD]])
BATCH = {**SOURCE.inputs, "target": TARGET}


@pytest.fixture(params=SHAPES)
def spec(request: pytest.FixtureRequest) -> Spec:
    return small(**SHAPES[request.param])


def attention_weights(spec: Spec, precision: str = "float32") -> dict[str, Tensor]:
    program = build(spec, [Purpose.ATTEND], weights=weights(spec), backend="eager", precision=precision)
    assert isinstance(program, EmittedProgram)
    with torch.no_grad():
        return program.attend(SOURCE, TARGET)[1]


def weights(spec: Spec) -> dict[str, Tensor]:
    """Return weights so large that attention is far from uniform."""
    drawn = initial_weights(spec, graphs(spec, [Purpose.SCORE]))
    return {name: 3 * tensor if "attention" in name else tensor for name, tensor in drawn.items()}


def test_they_equal_the_interpreters(spec: Spec) -> None:
    expected = interpret(lower(spec, Purpose.ATTEND), weights(spec), BATCH)
    found = attention_weights(spec)
    assert found
    for name, each in found.items():
        torch.testing.assert_close(each, expected[name], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_rows_sum_to_one_and_hidden_keys_have_no_weight(spec: Spec, precision: str) -> None:
    for name, each in attention_weights(spec, precision=precision).items():
        assert each.dtype == torch.float32
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]), atol=TOLERANCE, rtol=0)
        padding = (SOURCE.values == PAD)[:, None, None, :]
        if name.endswith("restricted_attention"):  # where padding sees itself
            padding = padding & (~torch.eye(padding.shape[3], dtype=torch.bool))
        if name.startswith("encoder") or name.endswith("cross_attention"):
            assert not each.masked_select(padding).any()
        else:
            assert not each.triu(1).any()
        assert each.masked_select(each > 0).std() > 0.01  # they differ


def test_they_are_explicit_on_a_gpu() -> None:
    lowered = graphs(small(), [Purpose.ATTEND, Purpose.SCORE], "cuda")
    fused = {
        purpose: [n for n in graph.nodes if isinstance(n.operation, Attention) and n.operation.one_kernel]
        for purpose, graph in lowered.items()
    }
    assert len(fused[Purpose.SCORE]) == 6
    assert not fused[Purpose.ATTEND]
    assert len(lowered[Purpose.ATTEND].outputs) == 6 + 1
