"""An update of the weights as a program on static buffers: copy the weights, forward pass, backward pass.

The caller adds clipping and Adam. On a GPU, all of it together is one CUDA graph (see `compiler.capture`). On any other
device, the same functions run directly, as the twin of the graph in tests.
"""

from __future__ import annotations

from itertools import compress

import torch
from torch import Tensor

from compiler.emitted import EmittedProgram
from compiler.graph import Purpose
from compiler.packing import PackedRows


class GradientProgram:
    """Gradients of a batch in packed rows. Its inputs, gradients and losses are always at the same addresses."""

    def __init__(self, program: EmittedProgram, rows: PackedRows, *, bfloat16: bool) -> None:
        """Allocate the gradients and, if necessary, the copies of the matrices in bfloat16.

        Args:
            program: The program to train, which has a graph for the purpose UPDATE.
            rows: The buffer of the inputs.
            bfloat16: Whether to compute in bfloat16. The parameters themselves stay in float32.
        """
        self.rows, self._program = rows, program
        parameters = dict(program.named_parameters())
        device = program.device
        self.gradient = torch.zeros(sum(p.numel() for p in parameters.values()), device=device)
        """Gradients of the smoothed loss of all parameters, one after the other, summed over target tokens."""
        parts = torch.split(self.gradient, [p.numel() for p in parameters.values()])
        self._gradients = [part.view(p.shape) for part, p in zip(parts, parameters.values(), strict=True)]
        for parameter, gradient in zip(parameters.values(), self._gradients, strict=True):
            parameter.grad = gradient
        self.losses = torch.zeros(2, device=device)
        """Loss with and without label smoothing, summed over target tokens."""
        graph = program.graphs[Purpose.UPDATE]
        precise = {name for node in graph.nodes if node.operation.float32_parameters for name in node.parameters}
        rounded = [name for name in parameters if bfloat16 and name not in precise]
        copies = {name: torch.empty_like(parameters[name], dtype=torch.bfloat16) for name in rounded}
        self._masters = [parameters[name].detach() for name in rounded]
        self._copies = [copy.requires_grad_() for copy in copies.values()]
        self._leaves = [copies.get(name, parameter) for name, parameter in parameters.items()]
        self._compute = program.with_parameters(copies) if copies else program

    def compute(self) -> None:
        """Compute the losses and gradients of the batch in `rows`, and overwrite those of the batch before."""
        losses, gradients = self._run()
        self.losses.copy_(losses)
        for dtype in {gradient.dtype for gradient in gradients}:  # one call for both would copy tensor by tensor
            same = [gradient.dtype == dtype for gradient in gradients]
            torch._foreach_copy_(list(compress(self._gradients, same)), list(compress(gradients, same)))

    def accumulate(self) -> None:
        """Add the losses and gradients of the batch in `rows` to those of the batches before."""
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
