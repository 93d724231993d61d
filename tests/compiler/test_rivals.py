"""The rivals of Table 2 against independent implementations in plain torch, and their published sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import compiler
from compiler import Purpose, interpret, lower
from specs import Spec, load
from tests.compiler.conftest import shaken

MATRICES = ("query", "key", "value", "output")
LONG = torch.tensor([[2, 9, 10, 11, 12, 13, 14, 3]])
"""A target with more positions than the source."""
SOURCE, TARGET = torch.tensor([[5, 6, 7, 8, 3]]), torch.tensor([[2, 9, 10, 11, 3]])


def rival(name: str) -> tuple[Spec, dict[str, Tensor]]:
    sizes = {"N": 2, "d_model": 16, "d_k": 16, "d_v": 16, "dropout": 0.0}
    spec = load(f"rivals/{name}", {"architecture": sizes, "vocabulary": {"size": 101}})
    return spec, shaken(spec)


def check(spec: Spec, weights: Mapping[str, Tensor], hidden: Tensor, target: Tensor = TARGET) -> None:
    """Check the scores of the target, given the output of the last layer of the decoder."""
    inputs = {"source": SOURCE, "source_length": torch.tensor([SOURCE.shape[1]]), "target": target}
    expected = (hidden @ weights["embedding"].T).log_softmax(-1).gather(-1, target[:, 1:, None])[..., 0]
    actual = interpret(lower(spec, Purpose.SCORE), weights, inputs)["log_probabilities"]
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def gated_convolution(w: Mapping[str, Tensor], layer: str, x: Tensor, padding: tuple[int, int]) -> Tensor:
    kernel, bias = w[f"{layer}.convolution.kernel"], w[f"{layer}.convolution.bias"]
    convolved = functional.conv1d(functional.pad(x.mT, padding), kernel.permute(2, 1, 0), bias)
    return (x + functional.glu(convolved.mT, -1)) * 0.5**0.5


def test_convs2s() -> None:
    """Gehring et al. 2017, equations 1 and 2, sections 3.2 to 3.5."""
    spec, w = rival("convs2s")
    z = w["embedding"][SOURCE] + w["encoder.positions"][:5]
    for i in range(2):
        z = gated_convolution(w, f"encoder.{i}", z, (1, 1))
    h = g = w["embedding"][TARGET[:, :-1]] + w["decoder.positions"][:4]
    for i in range(2):
        h = gated_convolution(w, f"decoder.{i}", h, (2, 0))
        names = [f"decoder.{i}.cross_attention.{name}" for name in MATRICES]
        (q, k, v, o), (q_bias, k_bias, v_bias, o_bias) = ([w[n + end] for n in names] for end in ("", "_bias"))
        a = (((h + g) @ q + q_bias) @ (z @ k + k_bias).mT).softmax(-1)
        h = (h + (a @ (z @ v + v_bias)) @ o + o_bias) * 0.5**0.5
    check(spec, w, h)


def test_gnmt() -> None:
    """Wu et al. 2016, equations 4 to 7: LSTMs with residual connections, and additive attention."""
    spec, w = rival("gnmt")

    def lstm(path: str, x: Tensor, directions: Sequence[str]) -> Tensor:
        layer = nn.LSTM(16, 16 // len(directions), batch_first=True, bidirectional=len(directions) > 1)
        for prefix, suffix in zip(directions, ("", "_reverse"), strict=False):
            for theirs, mine in (("weight_ih", "input"), ("weight_hh", "state"), ("bias_ih", "bias")):
                getattr(layer, f"{theirs}_l0{suffix}").data = w[f"{path}.lstm.{prefix}{mine}"].t()
            getattr(layer, f"bias_hh_l0{suffix}").data.zero_()
        return x + layer(x)[0]

    z, h = w["embedding"][SOURCE] * 4, w["embedding"][TARGET[:, :-1]] * 4
    for i in range(2):
        z = lstm(f"encoder.{i}", z, ("forwards_", "backwards_"))
    for i in range(2):
        h = lstm(f"decoder.{i}", h, ("",))
        q, k, v, o, score = (w[f"decoder.{i}.cross_attention.{name}"] for name in (*MATRICES, "score"))
        a = (((h @ q)[:, :, None] + (z @ k)[:, None]).tanh() @ score[0]).softmax(-1)
        h = h + a @ (z @ v) @ o
    check(spec, w, h)


def test_bytenet() -> None:
    """Kalchbrenner et al. 2016, figure 3: residual blocks; a target position reads the source at that position."""
    spec, w = rival("bytenet")

    def block(path: str, x: Tensor, causal: bool, dilation: int) -> Tensor:
        p = {name.rpartition(".")[2]: tensor for name, tensor in w.items() if name.startswith(f"{path}.bottleneck")}

        def active(x: Tensor, name: str) -> Tensor:
            return functional.layer_norm(x, x.shape[-1:], p[f"{name}_gain"], p[f"{name}_bias"], 1e-6).relu()

        y = active(active(x, "norm") @ p["reduced"] + p["reduced_bias"], "kernel_norm")
        padded = functional.pad(y.mT, (2 * dilation, 0) if causal else (dilation, dilation))
        y = functional.conv1d(padded, p["kernel"].permute(2, 1, 0), p["bias"], dilation=dilation).mT
        return x + active(y, "expanded_norm") @ p["expanded"] + p["expanded_bias"]

    z, h = w["embedding"][SOURCE] * 4, w["embedding"][LONG[:, :-1]] * 4
    for i in range(2):
        z = block(f"encoder.{i}", z, causal=False, dilation=2**i)
    z = functional.layer_norm(z, (16,), w["encoder.norm_gain"], w["encoder.norm_bias"], 1e-6)
    for i in range(2):
        h = h + functional.pad(z, (0, 0, 0, 2)) @ w[f"decoder.{i}.aligned_memory.memory"]
        h = block(f"decoder.{i}", h, causal=True, dilation=2**i)
    h = functional.layer_norm(h, (16,), w["decoder.norm_gain"], w["decoder.norm_bias"], 1e-6)
    check(spec, w, h, LONG)


def test_parameters_of_gnmt_differ_from_the_published_ones_as_documented() -> None:
    """Shazeer et al. 2017 give 278 million (tables 2 and 3): 8 and 8 layers of 1,024 cells, 32,000 tokens.

    In their encoder, only the first layer runs in both directions. In their decoder, each layer reads the context of
    the one attention.
    """
    sizes = {"N": 8, "d_model": 1024, "d_k": 1024, "d_v": 1024, "tied_embeddings": "none"}
    spec = load("rivals/gnmt", {"architecture": sizes, "vocabulary": {"size": 32_000}})
    assert compiler.parameters(spec) == pytest.approx(249e6, abs=1e6)


def test_parameters_of_experts_are_the_published_ones() -> None:
    """Two mixtures of 2,048 experts of 2 million parameters have 8.6 of the 8.7 billion (Shazeer et al. 2017)."""
    mixture = {"kind": "mixture_of_experts", "experts": 2048, "top_k": 4}
    layers = {"encoder": [{"kind": "self_attention"}, mixture]}
    layers["decoder"] = [{"kind": "self_attention"}, {"kind": "cross_attention"}, mixture]
    spec = load("rivals/mixture-of-experts", {"architecture": {"d_model": 512, "d_ff": 2048, "N": 1, **layers}})
    parameters = lower(spec, Purpose.SCORE).parameters.items()
    assert sum(p.count for name, p in parameters if "mixture" in name) == pytest.approx(8.6e9, rel=0.01)
