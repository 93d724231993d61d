"""The lowered graph against the paper's figures and against torch's own Transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

import compiler
import specs
from compiler import Purpose, interpret, lower
from compiler.graph import GraphError, stored_tensors, verify
from compiler.runtime import sinusoids
from specs import Spec

TABLE_3 = {
    "table3/base": 65,
    "table3/b-dk16": 58,
    "table3/b-dk32": 60,
    "table3/c-n2": 36,
    "table3/c-n4": 50,
    "table3/c-n8": 80,
    "table3/c-dmodel256": 28,
    "table3/c-dmodel1024": 168,
    "table3/c-dff1024": 53,
    "table3/c-dff4096": 90,
}


def test_parameters_of_base_and_big() -> None:
    assert compiler.parameters(specs.load("base")) == 63_045_632
    assert compiler.parameters(specs.load("big")) == 214_171_648


@pytest.mark.parametrize(("name", "millions"), TABLE_3.items())
def test_one_vocabulary_explains_every_count_of_table_3(name: str, millions: int) -> None:
    spec = specs.load(name, ["vocabulary.size=41100"])
    assert round(compiler.parameters(spec) / 1e6) == millions


def test_parameters_follow_the_formula(small: Callable[..., Spec]) -> None:
    spec = small(N=3, projection_bias=True, output_bias=True, tied_embeddings="none", norm="pre")
    a, v = spec.architecture, spec.vocabulary.size
    projections = a.h * (2 * a.d_k + a.d_v) * (a.d_model + 1) + a.h * a.d_v * a.d_model + a.d_model
    feed_forward = 2 * a.d_model * a.d_ff + a.d_ff + a.d_model
    layers = a.N * (3 * projections + 2 * feed_forward + 5 * 2 * a.d_model)
    assert compiler.parameters(spec) == layers + 3 * v * a.d_model + v + 2 * 2 * a.d_model


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_models_of_their_own_for_each_side_leave_the_weights_those_of_one_vocabulary(tied: str) -> None:
    both = (
        specs.load("tiny", {"architecture": {"tied_embeddings": tied}, "vocabulary": {"separate_models": separate}})
        for separate in (False, True)
    )
    one, other = (stored_tensors([lower(spec, Purpose.TRAIN)]) for spec in both)
    assert one == other


def test_a_piece_that_cannot_come_has_no_probability_and_takes_none(small: Callable[..., Spec]) -> None:
    """A bias of -1e9: all others have what they have in a softmax without that token."""
    spec = small(output_bias=True)
    weights, closed = _random_weights(spec), [0, 2, 50]
    weights["output_bias"][closed] = -1e9
    program = compiler.build(spec, weights=weights, backend="eager")
    found, _ = program.decode_step(program.encode(torch.tensor([[5, 6, 3]])), torch.tensor([2]))
    left = torch.tensor([token for token in range(101) if token not in closed])
    assert (found[:, closed] < -1e8).all()
    torch.testing.assert_close(found[:, left].exp().sum(), torch.tensor(1.0))


@pytest.mark.parametrize("name", specs.names())
def test_every_shipped_spec_lowers_for_every_purpose(name: str) -> None:
    spec = specs.load(name)
    for purpose in Purpose:
        verify(lower(spec, purpose))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # torch's own, and of no consequence here
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("activation", "biased", "first"), [("relu", False, 0), ("silu", True, 2), ("gelu", True, 0)])
def test_the_interpreter_is_torchs_transformer(
    small: Callable[..., Spec], norm: str, activation: str, biased: bool, first: int
) -> None:
    """Where d_k = d_v = d_model / h torch has the same model; given our weights it must give our memory and output."""
    spec = small(d_k=8, d_v=8, norm=norm, activation=activation, output_bias=biased, first_position=first)
    a = spec.architecture
    weights = _random_weights(spec)
    theirs = _torch_transformer(spec, weights)
    tokens = torch.tensor([[4, 9, 17, 3], [8, 3, 0, 0]]), torch.tensor([[2, 30, 31, 3], [2, 7, 3, 0]])
    source, target = tokens
    embedded = [weights["embedding"][t] * a.d_model**0.5 for t in (source, target[:, :-1])]
    x, y = (e + sinusoids(torch.zeros(1, 9, a.d_model))[first:][: e.shape[1]] for e in embedded)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    hidden = source == 0
    out = theirs(x, y, tgt_mask=mask, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    expected = (out @ weights["embedding"].T + weights.get("output_bias", 0)).log_softmax(-1)
    labels = target[:, 1:]
    expected = expected.gather(-1, labels[..., None])[..., 0] * (labels != 0)
    graph = lower(spec, Purpose.SCORE)
    ours = interpret(graph, weights, {"source": source, "target": target})["log_probabilities"]
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def _random_weights(spec: Spec) -> dict[str, torch.Tensor]:
    return {n: torch.randn(t.shape) / 4 for n, t in stored_tensors([lower(spec, Purpose.SCORE)]).items()}


def _torch_transformer(spec: Spec, weights: dict[str, torch.Tensor]) -> nn.Module:
    a = spec.architecture
    model = nn.Transformer(
        a.d_model, a.h, a.N, a.N, a.d_ff, dropout=0.0, batch_first=True,
        norm_first=a.norm == "pre", layer_norm_eps=a.norm_epsilon, activation=getattr(functional, a.activation),
    )  # fmt: skip
    if a.norm == "post":
        model.encoder.norm = model.decoder.norm = None  # torch has one norm more than the paper
    state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}

    def put(ours: str, theirs: str, parts: dict[str, str]) -> None:
        for number, (part, attention) in enumerate(parts.items(), 1):
            w = {k.removeprefix(f"{ours}.{part}."): v for k, v in weights.items() if k.startswith(f"{ours}.{part}.")}
            if attention == "":
                state[f"{theirs}.linear1.weight"], state[f"{theirs}.linear1.bias"] = w["w1"].T, w["b1"]
                state[f"{theirs}.linear2.weight"], state[f"{theirs}.linear2.bias"] = w["w2"].T, w["b2"]
            else:
                packed = torch.cat([w["query"].T, w["key"].T, w["value"].T])
                state[f"{theirs}.{attention}.in_proj_weight"] = packed
                state[f"{theirs}.{attention}.out_proj.weight"] = w["output"].T
            state[f"{theirs}.norm{number}.weight"] = w["norm_gain"]
            state[f"{theirs}.norm{number}.bias"] = w["norm_bias"]

    for i in range(a.N):
        put(f"encoder.{i}", f"encoder.layers.{i}", {"self_attention": "self_attn", "feed_forward": ""})
        decoder = {"self_attention": "self_attn", "cross_attention": "multihead_attn", "feed_forward": ""}
        put(f"decoder.{i}", f"decoder.layers.{i}", decoder)
    for stack in ("encoder", "decoder") if a.norm == "pre" else ():
        state[f"{stack}.norm.weight"] = weights[f"{stack}.norm_gain"]
        state[f"{stack}.norm.bias"] = weights[f"{stack}.norm_bias"]
    model.load_state_dict(state)
    return model.eval()


class TestVerify:
    """A graph that breaks the grammar is refused, whatever the way it breaks it."""

    def test_a_value_used_before_it_is_made(self, small: Callable[..., Spec]) -> None:
        graph = lower(small(), Purpose.ENCODE)
        with pytest.raises(GraphError, match="before it is made"):
            verify(replace(graph, nodes=graph.nodes[::-1]))

    def test_a_value_made_twice(self, small: Callable[..., Spec]) -> None:
        graph = lower(small(), Purpose.ENCODE)
        with pytest.raises(GraphError, match="made twice"):
            verify(replace(graph, nodes=(graph.nodes[0], *graph.nodes)))

    def test_a_wrong_type(self, small: Callable[..., Spec]) -> None:
        graph = lower(small(), Purpose.ENCODE)
        first = replace(graph.nodes[0], type=graph.inputs["source"])
        with pytest.raises(GraphError, match="not i"):
            verify(replace(graph, nodes=(first, *graph.nodes[1:])))

    def test_an_output_that_is_never_made(self, small: Callable[..., Spec]) -> None:
        with pytest.raises(GraphError, match="never made"):
            verify(replace(lower(small(), Purpose.ENCODE), outputs={"memory": "nothing"}))

    def test_a_parameter_that_nothing_uses(self, small: Callable[..., Spec]) -> None:
        graph = lower(small(), Purpose.ENCODE)
        extra = {"idle": next(iter(graph.parameters.values()))}
        with pytest.raises(GraphError, match="nothing uses"):
            verify(replace(graph, parameters={**graph.parameters, **extra}))
