"""Runs a graph node by node in plain torch: slow, and obviously right. What is emitted is tested against this."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from compiler import operation as op
from compiler.graph import Graph, Node
from specs import PAD

Environment = Mapping[str, Tensor]


def interpret(graph: Graph, weights: Environment, inputs: Environment) -> dict[str, Tensor]:
    """The outputs of a graph. `weights` are the tensors of a weights file; dropout does nothing here."""
    parameters = {name: parameter.origin.make(weights) for name, parameter in graph.parameters.items()}
    values = dict(inputs)
    for node in graph.nodes:
        run = _RULES[type(node.operation)]
        given = [values[i] for i in node.inputs] + [parameters[p] for p in node.parameters]
        if isinstance(node.operation, op.Attention):
            given.append(_hidden(node, values))
        values[node.name] = run(node.operation, *given)
    return {output: values[value] for output, value in graph.outputs.items()}


def _hidden(node: Node, values: Environment) -> Tensor:
    """True where a query may not look: [batch or 1, 1, queries or 1, keys]."""
    attention, query, key = node.operation, values[node.inputs[0]], values[node.inputs[1]]
    assert isinstance(attention, op.Attention)
    hidden = torch.zeros(1, 1, query.shape[2], key.shape[2], dtype=torch.bool)
    if attention.causal:
        hidden = hidden | torch.ones_like(hidden).triu(1)
    if attention.cached:
        own, keys = values["position"].flatten()[:, None, None, None] + 1, torch.arange(key.shape[2])
        hidden = hidden | (keys >= own if attention.cached is op.Cached.PLANNED else keys < key.shape[2] - own)
    if attention.padding:
        hidden = hidden | (values[attention.padding] == PAD)[:, None, None, :]
    return hidden


def _attention(o: op.Attention, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    return torch.softmax((q @ k.mT * o.scale).masked_fill(hidden, -math.inf), -1) @ v


def _position(o: op.Position, x: Tensor, *rest: Tensor) -> Tensor:
    positions = next((r for r in rest if not r.is_floating_point()), torch.arange(x.shape[1])[None])
    table = next((r for r in rest if r.is_floating_point()), None)
    if table is not None:
        return x + table[positions]
    encoding = torch.empty(*positions.shape, x.shape[2], dtype=torch.float64)
    for place in product(*map(range, positions.shape)):
        for i in range(x.shape[2] // 2):
            angle = int(positions[place]) / 10000 ** (2 * i / x.shape[2])
            encoding[(*place, 2 * i)], encoding[(*place, 2 * i + 1)] = math.sin(angle), math.cos(angle)
    return x + encoding.to(x.dtype)


def _write(o: op.Write, cache: Tensor, new: Tensor, position: Tensor) -> Tensor:
    here = position.flatten()[:, None] == torch.arange(cache.shape[2])
    return torch.where(here[:, None, :, None], new, cache)


def _quantised(o: op.Operation, x: Tensor, matrix: Tensor, scales: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    largest = x.abs().amax(-1, keepdim=True)
    rows = (x * (127 / largest)).nan_to_num(0.0).round()
    return (rows.double() @ matrix.double()).float() * (largest / 127) * scales + bias


def _loss(o: op.Loss, logits: Tensor, labels: Tensor) -> Tensor:
    real = labels != PAD
    log_p, label = logits[real].log_softmax(-1), labels[real]
    classes = logits.shape[-1]
    wrong = o.smoothing / (classes - 1) if o.wrong_classes else o.smoothing / classes
    right = 1 - o.smoothing if o.wrong_classes else 1 - o.smoothing + o.smoothing / classes
    target = torch.full_like(log_p, wrong).scatter(-1, label[:, None], right)
    return torch.stack([-(target * log_p).sum(), -log_p.gather(-1, label[:, None]).sum()])


def _slice(o: op.Slice, x: Tensor) -> Tensor:
    index = [slice(None)] * x.ndim
    index[o.dimension] = slice(o.start, o.stop)
    return x[tuple(index)]


def _chunked_loss(o: op.ChunkedLoss, x: Tensor, labels: Tensor, table: Tensor) -> Tensor:
    return _loss(op.Loss(o.smoothing, o.wrong_classes), (x @ table.T)[..., : o.classes], labels)


_RULES: Mapping[type[op.Operation], Callable[..., Any]] = {
    op.Embed: lambda o, tokens, table: table[tokens] * o.scale,
    op.Position: _position,
    op.Slice: _slice,
    op.Linear: lambda o, x, w, b=0.0: x @ w + b,
    op.Logits: lambda o, x, table: x @ table.T,
    op.SplitHeads: lambda o, x: torch.stack(x.split(x.shape[-1] // o.heads, -1), 1),
    op.MergeHeads: lambda o, x: torch.cat(tuple(x.unbind(1)), -1),
    op.Attention: _attention,
    op.QuantisedLinear: _quantised,
    op.QuantisedLogits: lambda o, x, table, scales: _quantised(o, x, table.T, scales),
    op.FoldBeams: lambda o, x: x.flatten(0, 1)[:, None],
    op.UnfoldBeams: lambda o, x, like: x.view(*like.shape, -1),
    op.Write: _write,
    op.Append: lambda o, cache, new: torch.cat([cache, new], 2),
    op.Add: lambda o, x, y: x + y,
    op.Norm: lambda o, x, gain, bias: F.layer_norm(x, x.shape[-1:], gain, bias, o.epsilon),
    op.Activation: lambda o, x: x.clamp(min=0),
    op.Dropout: lambda o, x: x,
    op.LogSoftmax: lambda o, x: x.float().log_softmax(-1),
    op.Pick: lambda o, x, labels: x.gather(-1, labels[..., None])[..., 0] * (labels != PAD),
    op.Loss: _loss,
    op.ChunkedLoss: _chunked_loss,
}
