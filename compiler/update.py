"""Gradients of a training update, computed by a forward and backward pass on buffers with constant addresses.

The sentences of a batch are concatenated into one row of source tokens and one row of target tokens. Both rows have a
constant length. All positions after the last sentence are padding: they attend to nothing, nothing attends to them, and
their label is PAD. Therefore all updates have the same shapes, and a CUDA graph can compute them.

The caller adds gradient clipping and Adam. On a GPU, the whole update is one CUDA graph (see `compiler.capture`). On
any other device, the same functions run directly, as a reference for the graph in tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from compiler.emitted import EmittedProgram
from compiler.graph import Purpose
from compiler.operations.gpu import ResidualNorm
from compiler.padded_batch import PaddedBatch
from compiler.passes.pack_rows import PACKED_INPUTS
from specs import PAD

Indices = npt.NDArray[np.integer[Any]]


class PackedRows:
    """Device buffer for a batch whose sentences are concatenated into one source row and one target row.

    Each training step overwrites the buffer with one copy from the host.
    """

    def __init__(self, source: int, target: int, device: torch.device | str) -> None:
        """Allocate the buffer.

        Args:
            source: Length of the source row, in tokens.
            target: Length of the target row, in tokens.
            device: The device of the buffer.
        """
        self.source, self.target = source, target
        shapes = {name: type_.concrete(batch=1, source=source, target=target) for name, type_ in PACKED_INPUTS.items()}
        scalars = [("seed", np.int64), ("rate", np.float32), ("tokens", np.float32)]
        self._layout = np.dtype([*scalars, *((name, np.int32, shape) for name, shape in shapes.items())])
        self.buffer = torch.zeros(self._layout.itemsize // 4, dtype=torch.int32, device=device)
        seed, rate, tokens, *parts = torch.split(self.buffer, [2, 1, 1, *map(math.prod, shapes.values())])
        views = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        self.inputs = {"seed": seed.view(torch.int64)[0], **views}
        """The inputs of the UPDATE graph, as views of the buffer."""
        self.rate = rate.view(torch.float32)[0]
        """The learning rate."""
        self.tokens = tokens.view(torch.float32)[0]
        """The number of target tokens in the whole batch, by which gradients are divided."""

    def host(self, source: PaddedBatch, target: PaddedBatch, **scalars: float) -> Tensor:
        """Return the buffer's contents for a batch, as a CPU tensor. If the device is a GPU, the tensor is pinned.

        Args:
            source: Sources that end with EOS.
            target: Targets that start with BOS and end with EOS.
            **scalars: Random seed (`seed`), learning rate (`rate`), and number of target tokens in the whole batch
                (`tokens`).

        Raises:
            ValueError: The batch does not fit into the rows.
        """
        host, views = self._empty()
        for name, value in scalars.items():
            views[name] = value
        read, predicted = source.lengths.numpy(), target.lengths.numpy() - 1
        if read.sum() > self.source or predicted.sum() > self.target:
            raise ValueError(
                f"a batch of {read.sum():,} source and {predicted.sum():,} target tokens does not fit into rows of "
                f"{self.source:,} and {self.target:,} tokens"
            )
        views["labels"].fill(PAD)
        for name, values, lengths in (
            ("source", source.values.numpy(), read),
            ("target", target.values.numpy()[:, :-1], predicted),
            ("labels", target.values.numpy()[:, 1:], predicted),
        ):
            views[name][0, : lengths.sum()] = values[np.arange(values.shape[1]) < lengths[:, None]]
        _locate(views, "source", read, {"source_spans": read, "reader_spans": predicted})
        _locate(views, "target", predicted, {"target_spans": predicted, "memory_spans": read})
        return host

    def host_sources(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """Return the buffer's contents for sources without targets, as a CPU tensor (see `host`)."""
        host, views = self._empty()
        lengths = np.array([len(source) for source in sources])
        views["source"][0, : lengths.sum()] = np.fromiter(chain.from_iterable(sources), np.int32)
        _locate(views, "source", lengths, {"source_spans": lengths})
        return host

    def _empty(self) -> tuple[Tensor, Any]:
        """Return a CPU tensor of zeros for the buffer's contents, and a numpy record that shares its memory."""
        host = torch.empty(self.buffer.shape, dtype=torch.int32, pin_memory=self.buffer.is_cuda)
        host.numpy().fill(0)  # torch would divide the work between threads, which can take longer than the work
        return host, host.numpy().view(self._layout)[0]


def _locate(views: Any, side: str, own: Indices, spans: Mapping[str, Indices]) -> None:
    """Write the position of each token in its sentence, and spans of this sentence in the source or target row.

    A span is the index of a sentence's first token in a row, and the index after its last token.

    Args:
        views: The arrays to write, keyed by name.
        side: The row that contains the tokens: `source` or `target`.
        own: The length of each sentence in this row.
        spans: Maps the name of each array of spans to the sentence lengths in the row that the spans refer to.
    """
    count = own.sum()
    views[f"{side}_position"][0, :count] = np.arange(count) - np.repeat(own.cumsum() - own, own)
    for name, lengths in spans.items():
        ends = np.repeat(lengths.cumsum(), own)
        views[name][:, :count] = ends - np.repeat(lengths, own), ends


class GradientProgram:
    """Gradient computation for batches in packed rows.

    Inputs, gradients and losses have constant addresses, as CUDA graphs require.
    """

    def __init__(self, program: EmittedProgram, rows: PackedRows, *, bfloat16: bool) -> None:
        """Allocate the gradients and, if necessary, bfloat16 copies of the parameters.

        Args:
            program: The compiled model to train. It must have a graph for `Purpose.UPDATE`.
            rows: The buffer that contains the inputs.
            bfloat16: Whether to compute in bfloat16. The parameters themselves stay in float32.
        """
        self.rows, self._program = rows, program
        parameters = dict(program.named_parameters())
        device = program.device
        self.gradient = torch.zeros(sum(p.numel() for p in parameters.values()), device=device)
        """Gradients of the smoothed loss for all parameters, concatenated. They are sums over target tokens."""
        parts = torch.split(self.gradient, [p.numel() for p in parameters.values()])
        self._gradients = [part.view(p.shape) for part, p in zip(parts, parameters.values(), strict=True)]
        for parameter, gradient in zip(parameters.values(), self._gradients, strict=True):
            parameter.grad = gradient
        self.losses = torch.zeros(2, device=device)
        """Loss with and without label smoothing, summed over target tokens."""
        graph = program.graphs[Purpose.UPDATE]
        # The kernels for norms read parameters in float32.
        precise = {name for node in graph.nodes if isinstance(node.operation, ResidualNorm) for name in node.parameters}
        rounded = [name for name in parameters if bfloat16 and name not in precise]
        copies = {name: torch.empty_like(parameters[name], dtype=torch.bfloat16) for name in rounded}
        self._masters = [parameters[name].detach() for name in rounded]
        self._copies = [copy.requires_grad_() for copy in copies.values()]
        self._leaves = [copies.get(name, parameter) for name, parameter in parameters.items()]
        self._compute = program.with_parameters(copies) if copies else program

    def compute(self) -> None:
        """Compute the losses and gradients of the batch in `rows`, and overwrite the values of the previous batch."""
        losses, gradients = self._run()
        self.losses.copy_(losses)
        for dtype in {gradient.dtype for gradient in gradients}:  # one call for both types would copy tensor by tensor
            same = [gradient.dtype == dtype for gradient in gradients]
            torch._foreach_copy_(list(compress(self._gradients, same)), list(compress(gradients, same)))

    def accumulate(self) -> None:
        """Add the losses and gradients of the batch in `rows` to the sums over the previous batches."""
        losses, gradients = self._run()
        self.losses.add_(losses)
        torch._foreach_add_(self._gradients, [gradient.float() for gradient in gradients])

    def _run(self) -> tuple[Tensor, list[Tensor]]:
        if self._copies:
            with torch.no_grad():
                torch._foreach_copy_(self._copies, self._masters)
        with torch.enable_grad():
            losses = self._compute.run(Purpose.UPDATE, **self.rows.inputs)["loss"]
            gradients = torch.autograd.grad(losses[0], self._leaves)
        return losses.detach(), list(gradients)
