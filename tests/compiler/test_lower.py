"""The lowered graph against the paper's figures and against torch's own Transformer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import compiler
import specs
from compiler import Purpose, build_module, emit, graphs, interpret, lower
from compiler.graph import stored_tensors, verify
from compiler.operations.elementwise import Dropout
from compiler.padded_batch import PaddedBatch
from compiler.runtime import sinusoids
from specs import Spec
from tests.examples import small


def test_parameters_of_base_and_big() -> None:
    assert compiler.parameters(specs.load("base")) == 63_045_632
    assert compiler.parameters(specs.load("big")) == 214_171_648


def test_parameters_follow_the_formula() -> None:
    spec = small(N=3, projection_bias=True, output_bias=True, tied_embeddings="none", norm={"placement": "pre"})
    a, v = spec.architecture, spec.vocabulary.size
    projections = a.h * (2 * a.d_k + a.d_v) * (a.d_model + 1) + a.h * a.d_v * a.d_model + a.d_model
    feed_forward = 2 * a.d_model * a.d_ff + a.d_ff + a.d_model
    layers = a.N * (3 * projections + 2 * feed_forward + 5 * 2 * a.d_model)
    assert compiler.parameters(spec) == layers + 3 * v * a.d_model + v + 2 * 2 * a.d_model


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_separate_vocabulary_models_do_not_change_the_weights(tied: str) -> None:
    both = (
        specs.load("tiny", {"architecture": {"tied_embeddings": tied}, "vocabulary": {"separate_models": separate}})
        for separate in (False, True)
    )
    one, other = (stored_tensors([lower(spec, Purpose.TRAIN)]) for spec in both)
    assert one == other


def test_a_suppressed_token_has_no_probability() -> None:
    """With a bias of -1e9 the other tokens share the whole probability."""
    spec = small(output_bias=True)
    weights, suppressed = _random_weights(spec), [0, 2, 50]
    weights["output_bias"][suppressed] = -1e9
    program = compiler.build(spec, weights=weights, backend="eager")
    log_p, _ = program.advance(program.encode(PaddedBatch.pad([[5, 6, 3]])), torch.tensor([[2]]))
    log_p = log_p[:, 0]
    left = torch.tensor([token for token in range(101) if token not in suppressed])
    assert (log_p[:, suppressed] < -1e8).all()
    torch.testing.assert_close(log_p[:, left].exp().sum(), torch.tensor(1.0))


def test_every_shipped_spec_lowers_for_every_purpose() -> None:
    for name in specs.names():
        for purpose in Purpose:
            verify(lower(specs.load(name), purpose))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # a warning of torch without consequence here
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("activation", "biased", "first"), [("relu", False, 0), ("silu", True, 2), ("gelu", True, 0)])
def test_the_interpreter_agrees_with_torchs_transformer(norm: str, activation: str, biased: bool, first: int) -> None:
    """If d_k = d_v = d_model / h, torch has the same model; with the same weights the outputs are equal."""
    spec = small(
        d_k=8,
        d_v=8,
        norm={"placement": norm},
        activation=activation,
        output_bias=biased,
        positions={"kind": "sinusoidal", "first": first},
    )
    a = spec.architecture
    weights = _random_weights(spec)
    theirs = _torch_transformer(spec, weights)
    source, target = PaddedBatch.pad([[4, 9, 17, 3], [8, 3]]), torch.tensor([[2, 30, 31, 3], [2, 7, 3, 0]])
    embedded = [weights["embedding"][t] * a.d_model**0.5 for t in (source.values, target[:, :-1])]
    x, y = (e + sinusoids(torch.zeros(1, 9, a.d_model))[first:][: e.shape[1]] for e in embedded)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    hidden = torch.tensor([[False] * 4, [False, False, True, True]])
    out = theirs(x, y, tgt_mask=mask, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    expected = (out @ weights["embedding"].T + weights.get("output_bias", 0)).log_softmax(-1)
    labels = target[:, 1:]
    expected = expected.gather(-1, labels[..., None])[..., 0] * (labels != 0)
    graph = lower(spec, Purpose.SCORE)
    ours = interpret(graph, weights, {**source.inputs, "target": target})["log_probabilities"]
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def _random_weights(spec: Spec) -> dict[str, torch.Tensor]:
    return {n: torch.randn(t.shape) / 4 for n, t in stored_tensors([lower(spec, Purpose.SCORE)]).items()}


def _torch_transformer(spec: Spec, weights: dict[str, torch.Tensor]) -> nn.Module:
    a = spec.architecture
    model = nn.Transformer(
        a.d_model, a.h, a.N, a.N, a.d_ff, dropout=0.0, batch_first=True,
        norm_first=a.norm.placement == "pre", layer_norm_eps=a.norm.epsilon,
        activation=getattr(functional, a.activation),
    )  # fmt: skip
    if a.norm.placement == "post":
        model.encoder.norm = model.decoder.norm = None  # torch has one more norm than the paper
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
    for stack in ("encoder", "decoder") if a.norm.placement == "pre" else ():
        state[f"{stack}.norm.weight"] = weights[f"{stack}.norm_gain"]
        state[f"{stack}.norm.bias"] = weights[f"{stack}.norm_bias"]
    model.load_state_dict(state)
    return model.eval()


@pytest.mark.parametrize(
    ("score", "scale", "vectors"), [("scaled_dot_product", 6**-0.5, 0), ("dot_product", 1.0, 0), ("additive", 1.0, 1)]
)
def test_every_attention_has_the_score_of_the_spec(score: str, scale: float, vectors: int) -> None:
    spec = small(attention_score=score, dropout=0.0)
    attentions = [node for node in lower(spec, Purpose.TRAIN).nodes if node.operation.is_attention]
    assert len(attentions) == 6
    assert {(node.operation.scale, len(node.parameters)) for node in attentions} == {(scale, vectors)}
    program = build_module(spec)
    source, target = PaddedBatch.pad([[5, 6, 3], [7, 3]]), torch.tensor([[2, 8, 9, 3], [2, 10, 3, 0]])
    both = program(source, target).smoothed
    alone = sum(program(source.rows(i, i + 1), target[[i]][:, : 4 - i]).smoothed for i in range(2))
    torch.testing.assert_close(both, alone)
    both.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in program.parameters())


def test_dropout_of_the_inner_feed_forward_layer() -> None:
    spec = small(activation_dropout=0.25, dropout=0.0)
    graph = lower(spec, Purpose.TRAIN)
    inner = [node for node in graph.nodes if node.operation == Dropout(0.25)]
    assert [node.type.shape[-1].constant for node in inner] == [spec.architecture.d_ff] * 4
    program, batch = build_module(spec), (PaddedBatch.pad([[5, 6, 3]]), torch.tensor([[2, 8, 3]]))
    assert program(*batch).plain != program(*batch).plain
    assert "dropout" not in str(emit(graphs(spec, [Purpose.SCORE]).values()))
