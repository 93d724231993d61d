"""Attention weights are an output that a graph is asked for: the interpreter's, whole, and of every attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from compiler import EmittedProgram, Purpose, build, graphs, interpret, lower
from compiler.initialization import initial_weights
from compiler.operations.attention import Attention, AttentionKernel, RestrictedAttention
from specs import BOS, EOS, PAD, Spec

SHAPES: dict[str, dict[str, object]] = {
    "post": {"N": {"encoder": 3, "decoder": 2}, "attention_dropout": 0.3},
    "pre": {"norm": "pre", "positional_encoding": "learned", "tied_embeddings": "none", "projection_bias": True},
    "one head": {"h": 1, "d_k": 5, "d_v": 7},
    "additive": {"attention_score": "additive"},
    "unscaled": {"attention_score": "dot_product", "d_k": 3},
    "restricted": {
        "encoder": [{"kind": "restricted_attention", "radius": 2}, {"kind": "feed_forward"}],
        "decoder": [{"kind": "restricted_attention", "radius": 1}, {"kind": "cross_attention"}],
    },
    "no self-attention": {"encoder": [{"kind": "feed_forward"}], "decoder": [{"kind": "cross_attention"}]},
}
BATCH = {
    "source": torch.tensor([[7, 8, 9, 10, EOS], [11, 12, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]),
    "target": torch.tensor([[BOS, 20, 21, EOS, PAD], [BOS, 22, 23, 24, EOS], [BOS, EOS, PAD, PAD, PAD]]),
}


@pytest.fixture(params=SHAPES)
def spec(request: pytest.FixtureRequest, small: Callable[..., Spec]) -> Spec:
    return small(**SHAPES[request.param])


def asked(spec: Spec, **how: str) -> dict[str, Tensor]:
    with torch.no_grad():
        return attending(spec, **how).attend(**BATCH)[1]


def attending(spec: Spec, **how: str) -> EmittedProgram:
    program = build(spec, [Purpose.ATTEND], weights=weights(spec), backend="eager", **how)
    assert isinstance(program, EmittedProgram)
    return program


def weights(spec: Spec) -> dict[str, Tensor]:
    """Large enough that attention is far from even."""
    drawn = initial_weights(spec, graphs(spec, [Purpose.SCORE]))
    return {name: 3 * tensor if "attention" in name else tensor for name, tensor in drawn.items()}


def test_each_attention_of_each_layer_is_asked_for(spec: Spec) -> None:
    a = spec.architecture
    names = [f"encoder.{i}.{each.kind}" for i in range(a.depths.encoder) for each in a.encoder]
    names += [f"decoder.{i}.{each.kind}" for i in range(a.depths.decoder) for each in a.decoder]
    found = asked(spec)
    assert sorted(found) == sorted(name for name in names if not name.endswith("feed_forward"))
    lengths = {"encoder": {"self": (5, 5)}, "decoder": {"self": (4, 4), "memory": (4, 5)}}
    for own in lengths.values():
        own["restricted"] = own["self"]
    for name, each in found.items():
        stack, _, kind = name.split(".")
        assert each.shape == (3, a.h, *lengths[stack][kind.partition("_")[0]])


def test_they_are_the_interpreters(spec: Spec) -> None:
    expected = interpret(lower(spec, Purpose.ATTEND), weights(spec), BATCH)
    found = asked(spec)
    assert found
    for name, each in found.items():
        torch.testing.assert_close(each, expected[name], atol=1e-5, rtol=0)


def test_they_are_those_that_scoring_has(spec: Spec) -> None:
    """The softmax of scores of the queries and keys that the graph for scoring makes, in plain torch."""
    graph, drawn = lower(spec, Purpose.SCORE), weights(spec)
    values, parameters = dict(BATCH), {n: p.origin.make(drawn) for n, p in graph.parameters.items()}
    expected = []
    for node in graph.nodes:
        values[node.name] = node.operation.interpret(
            [values[name] for name in node.inputs], [parameters[name] for name in node.parameters]
        )
        if isinstance(node.operation, Attention | RestrictedAttention):
            query, key, _, *masks = (values[name] for name in node.inputs)
            products = query @ key.transpose(2, 3)
            if spec.architecture.attention_score == "additive":
                vector = parameters[node.parameters[0]][:, None, None]
                products = (vector * torch.tanh(query[:, :, :, None] + key[:, :, None])).sum(-1)
            elif spec.architecture.attention_score == "scaled_dot_product":
                products = products / spec.architecture.d_k**0.5
            hidden = torch.zeros_like(products).bool()
            for mask in masks:
                hidden = hidden | mask
            if isinstance(node.operation, RestrictedAttention):
                apart = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])
                reach = node.operation.radius
                hidden = (hidden & (apart != 0)) | (apart > reach) | (apart < (0 if node.operation.causal else -reach))
            expected.append(torch.softmax(products.masked_fill(hidden, float("-inf")), -1))
    found = list(asked(spec).values())
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_rows_sum_to_one_and_what_is_hidden_is_nothing(spec: Spec, precision: str) -> None:
    for name, each in asked(spec, precision=precision).items():
        assert each.dtype == torch.float32
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]), atol=1e-5, rtol=0)
        padding = (BATCH["source"] == PAD)[:, None, None, :]
        if name.endswith("restricted_attention"):  # padding looks at itself there, or it would have nothing
            padding = padding & (~torch.eye(padding.shape[3], dtype=torch.bool))
        if name.startswith("encoder") or name.endswith("cross_attention"):
            assert not each.masked_select(padding).any()
        else:
            assert not each.triu(1).any()
        assert each.masked_select(each > 0).std() > 0.01  # they are not all alike


def test_they_are_whole_on_a_gpu_too(small: Callable[..., Spec]) -> None:
    lowered = graphs(small(), [Purpose.ATTEND, Purpose.SCORE], "cuda")
    fused = {
        purpose: [
            n for n in graph.nodes if isinstance(n.operation, Attention) and n.operation.kernel is AttentionKernel.FUSED
        ]
        for purpose, graph in lowered.items()
    }
    assert len(fused[Purpose.SCORE]) == 6
    assert not fused[Purpose.ATTEND]
    assert len(lowered[Purpose.ATTEND].outputs) == 6 + 1


def test_who_attends_computes_what_scoring_does(spec: Spec) -> None:
    expected = interpret(lower(spec, Purpose.SCORE), weights(spec), BATCH)["log_probabilities"]
    with torch.no_grad():
        found, _ = attending(spec).attend(**BATCH)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_other_programs_have_none(small: Callable[..., Spec]) -> None:
    with pytest.raises(ValueError, match="was not built to attend"):
        build(small(), backend="eager").attend(**BATCH)  # type: ignore[union-attr]
