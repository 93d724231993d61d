"""The lowered graph against the paper's figures and against torch's own Transformer."""

from __future__ import annotations

from typing import Any

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
from compiler.runtime.layers import sinusoids
from specs import Spec
from tests.examples import small


def test_parameters_of_base_and_big() -> None:
    assert compiler.parameters(specs.load("base")) == 63_045_632
    assert compiler.parameters(specs.load("big")) == 214_171_648


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_separate_vocabulary_models_do_not_change_the_weights(tied: str) -> None:
    fields = {"architecture": {"tied_embeddings": tied}, "vocabulary": {"separate_models": True}}
    one, other = (specs.load("tiny", given) for given in ({"architecture": fields["architecture"]}, fields))
    assert stored_tensors([lower(one, Purpose.TRAIN)]) == stored_tensors([lower(other, Purpose.TRAIN)])


def test_every_shipped_spec_lowers_for_every_purpose() -> None:
    for name in specs.names():
        for purpose in Purpose:
            verify(lower(specs.load(name), purpose))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # a warning of torch without consequence here
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("activation", "biased", "first"), [("relu", False, 0), ("silu", True, 2), ("gelu", True, 0)])
def test_the_interpreter_agrees_with_torchs_transformer(norm: str, activation: str, biased: bool, first: int) -> None:
    """If d_k = d_v = d_model / h, torch has the same model; with the same weights the outputs are equal."""
    fields = {"activation": activation, "output_bias": biased, "positions": {"kind": "sinusoidal", "first": first}}
    spec = small(d_k=8, d_v=8, norm={"placement": norm}, **fields)
    weights = {n: torch.randn(t.shape) / 4 for n, t in stored_tensors([lower(spec, Purpose.SCORE)]).items()}
    a, theirs = spec.architecture, _torch_transformer(spec, weights)
    source, target = PaddedBatch.pad([[4, 9, 17, 3], [8, 3]]), torch.tensor([[2, 30, 31, 3], [2, 7, 3, 0]])
    embedded = [weights["embedding"][t] * a.d_model**0.5 for t in (source.values, target[:, :-1])]
    x, y = (e + sinusoids(torch.zeros(1, 9, a.d_model))[first:][: e.shape[1]] for e in embedded)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    hidden = torch.tensor([[False] * 4, [False, False, True, True]])
    out = theirs(x, y, tgt_mask=mask, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    expected, labels = (out @ weights["embedding"].T + weights.get("output_bias", 0)).log_softmax(-1), target[:, 1:]
    expected = expected.gather(-1, labels[..., None])[..., 0] * (labels != 0)
    ours = interpret(lower(spec, Purpose.SCORE), weights, {**source.inputs, "target": target})["log_probabilities"]
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def _torch_transformer(spec: Spec, weights: dict[str, torch.Tensor]) -> nn.Module:
    a = spec.architecture
    norm: Any = {"norm_first": a.norm.placement == "pre", "layer_norm_eps": a.norm.epsilon, "batch_first": True}
    model = nn.Transformer(a.d_model, a.h, a.N, a.N, a.d_ff, 0.0, getattr(functional, a.activation), **norm)
    if a.norm.placement == "post":
        model.encoder.norm = model.decoder.norm = None  # torch has one more norm than the paper
    state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}

    parts = {"self_attention": "self_attn", "cross_attention": "multihead_attn", "feed_forward": ""}
    for layer in (f"{stack}.{i}" for stack in ("encoder", "decoder") for i in range(a.N)):
        found = [part for part in parts if f"{layer}.{part}.norm_gain" in weights]
        for number, part in enumerate(found, 1):
            prefix, attention = f"{layer}.{part}.", parts[part]
            w = {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}
            new = {f"norm{number}.weight": w["norm_gain"], f"norm{number}.bias": w["norm_bias"]}
            if part == "feed_forward":
                new |= {"linear1.weight": w["w1"].T, "linear1.bias": w["b1"]}
                new |= {"linear2.weight": w["w2"].T, "linear2.bias": w["b2"]}
            else:
                new[f"{attention}.in_proj_weight"] = torch.cat([w["query"].T, w["key"].T, w["value"].T])
                new[f"{attention}.out_proj.weight"] = w["output"].T
            state |= {f"{layer.replace('.', '.layers.')}.{name}": each for name, each in new.items()}
    for stack in ("encoder", "decoder") if a.norm.placement == "pre" else ():
        state[f"{stack}.norm.weight"] = weights[f"{stack}.norm_gain"]
        state[f"{stack}.norm.bias"] = weights[f"{stack}.norm_bias"]
    model.load_state_dict(state)
    return model.eval()


SCORES = [("scaled_dot_product", 6**-0.5, 0), ("dot_product", 1.0, 0), ("additive", 1.0, 1)]


@pytest.mark.parametrize(("score", "scale", "vectors"), SCORES)
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
    inner = [node for node in lower(spec, Purpose.TRAIN).nodes if node.operation == Dropout(0.25)]
    assert [node.type.shape[-1].constant for node in inner] == [spec.architecture.d_ff] * 4
    program, batch = build_module(spec), (PaddedBatch.pad([[5, 6, 3]]), torch.tensor([[2, 8, 3]]))
    assert program(*batch).plain != program(*batch).plain
    assert "dropout" not in str(emit(graphs(spec, [Purpose.SCORE]).values()))
