"""The paper's recipe beside a plain loop: model, loss, Adam and schedule once more, written from the paper alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import islice

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from specs import PAD, Spec
from zoo.training.train import train
from zoo.training.trainer import Trainer

STEPS = 50
Weights = dict[str, Tensor]


def attention(w: Weights, name: str, x: Tensor, memory: Tensor, hidden: Tensor, heads: int) -> Tensor:
    """3.2.2, of one head after the other, with residual connection and norm around it (3.1)."""
    q, k, v = (y @ w[f"{name}.{m}"] for y, m in ((x, "query"), (memory, "key"), (memory, "value")))
    parts = []
    for q1, k1, v1 in zip(*(y.chunk(heads, -1) for y in (q, k, v)), strict=True):
        scores = q1 @ k1.transpose(1, 2) / math.sqrt(q1.shape[-1])
        parts.append(scores.masked_fill(hidden, -math.inf).softmax(-1) @ v1)
    return norm(w, name, x + torch.cat(parts, -1) @ w[f"{name}.output"])


def feed_forward(w: Weights, name: str, x: Tensor) -> Tensor:
    inner = (x @ w[f"{name}.w1"] + w[f"{name}.b1"]).clamp(min=0)  # 3.3
    return norm(w, name, x + inner @ w[f"{name}.w2"] + w[f"{name}.b2"])


def norm(w: Weights, name: str, x: Tensor) -> Tensor:
    return layer_norm(x, x.shape[-1:], w[f"{name}.norm_gain"], w[f"{name}.norm_bias"], 1e-6)


def embedded(w: Weights, tokens: Tensor) -> Tensor:
    x = w["embedding"][tokens] * math.sqrt(w["embedding"].shape[1])  # 3.4
    position, i = torch.arange(x.shape[1])[:, None].double(), torch.arange(0, x.shape[2], 2)
    angle = position / 10000 ** (i / x.shape[2])  # 3.5
    return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


def loss(w: Weights, source: Tensor, target: Tensor, spec: Spec) -> Tensor:
    """Against smoothed labels (5.4), a mean over the target tokens."""
    layers, heads, smoothing = spec.architecture.N, spec.architecture.h, spec.training.label_smoothing
    given, labels = target[:, :-1], target[:, 1:]
    padding = (source == PAD)[:, None]
    later = torch.ones(given.shape[1], given.shape[1], dtype=torch.bool).triu(1)
    x = embedded(w, source)
    for n in range(layers):
        x = attention(w, f"encoder.{n}.self_attention", x, x, padding, heads)
        x = feed_forward(w, f"encoder.{n}.feed_forward", x)
    y = embedded(w, given)
    for n in range(layers):
        y = attention(w, f"decoder.{n}.self_attention", y, y, later, heads)
        y = attention(w, f"decoder.{n}.cross_attention", y, x, padding, heads)
        y = feed_forward(w, f"decoder.{n}.feed_forward", y)
    log_p = (y @ w["embedding"].T).log_softmax(-1)[labels != PAD]
    wanted = torch.full_like(log_p, smoothing / (log_p.shape[1] - 1))
    wanted.scatter_(1, labels[labels != PAD][:, None], 1 - smoothing)
    return -(wanted * log_p).sum() / len(log_p)


@pytest.mark.parametrize("parts", [1, 3], ids=["whole", "in parts"])
def test_the_losses_are_those_of_a_plain_loop(
    world: Callable[..., Spec], trainer: Callable[..., Trainer], parts: int
) -> None:
    keys = [
        *("architecture.N=2", "architecture.dropout=0.0", "training.log_steps=1", f"training.steps={STEPS}"),
        *("training.warmup_steps=20", "training.label_smoothing=0.1", f"training.accumulation_steps={parts}"),
    ]
    spec, begun = world(*keys), trainer(*keys)
    run = train(spec)
    losses = [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]

    w = {name: tensor.clone().requires_grad_() for name, tensor in begun.program.weights().items()}
    adam = torch.optim.Adam(list(w.values()), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    expected = []
    for step, work in enumerate(islice(begun.inputs(), STEPS), 1):
        adam.param_groups[0]["lr"] = spec.architecture.d_model**-0.5 * min(step**-0.5, step * 20**-1.5)  # 5.3
        adam.zero_grad()
        found = loss(w, work.batch.source, work.batch.target, spec)
        found.backward()
        adam.step()
        expected.append(found.item())
    assert expected[-1] < 0.85 * expected[0]
    assert losses == pytest.approx(expected, abs=2e-4)
