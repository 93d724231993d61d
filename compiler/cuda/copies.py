"""Copy many tensors to another type in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 8192
"""Number of elements that a program copies."""


@triton.jit
def _copy(chunks, chunk: tl.constexpr):
    entry = chunks + tl.program_id(0) * 3
    source = tl.load(entry).to(tl.pointer_type(tl.float32))
    target = tl.load(entry + 1).to(tl.pointer_type(tl.bfloat16))
    offsets = tl.arange(0, chunk)
    inside = offsets < tl.load(entry + 2)
    tl.store(target + offsets, tl.load(source + offsets, inside), inside)


class Rounding:
    """Copies of float32 tensors in bfloat16. Both stay at the same addresses."""

    def __init__(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        """Store the addresses of all chunks of the contiguous tensors."""
        self._tensors = list(sources), list(targets)  # they must not be freed
        rows = [
            (source.data_ptr() + 4 * first, target.data_ptr() + 2 * first, min(CHUNK, source.numel() - first))
            for source, target in zip(sources, targets, strict=True)
            for first in range(0, source.numel(), CHUNK)
        ]
        self._chunks = torch.tensor(rows, device=sources[0].device)

    def __call__(self) -> None:
        """Copy the current values."""
        _copy[(len(self._chunks),)](self._chunks, CHUNK)
