"""Padded batches, the input of an encoder: sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from compiler.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor


class PaddedBatch(NamedTuple):
    """Batch of input sequences for an encoder, padded to one length. A sequence consists of tokens or of features.

    Values after the end of a sequence are padding. They may be any valid token IDs or any finite numbers, because
    compiled models mask them.
    """

    values: Tensor
    """Token IDs [batch, length], or float32 features [batch, length, width]."""
    lengths: Int[Tensor, " batch"]
    """The number of positions in each sequence, without padding."""

    @classmethod
    def pad(cls, rows: Sequence[Sequence[int] | Tensor], device: torch.device | str = "cpu") -> PaddedBatch:
        """Return a batch that contains the given sequences, padded with zeros.

        Args:
            rows: The token IDs of each sequence, or its features [length, width].
            device: The device of the result.
        """
        tensors = [row if isinstance(row, torch.Tensor) else torch.tensor(row, dtype=torch.long) for row in rows]
        lengths = torch.tensor([len(row) for row in tensors])
        padded = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        return cls(padded.to(device), lengths.to(device))

    @classmethod
    def full(cls, values: Tensor) -> PaddedBatch:
        """Return a batch without padding: all sequences have the length of the tensor's second dimension."""
        return cls(values, torch.full(values.shape[:1], values.shape[1], device=values.device))

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The batch as named inputs of a graph: `source` and `source_length`."""
        return {"source": self.values, "source_length": self.lengths}

    def to(self, device: torch.device | str | None) -> PaddedBatch:
        """Move the batch to a device asynchronously, and return it. If `device` is None, keep the current device."""
        return PaddedBatch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def rows(self, start: int, end: int) -> PaddedBatch:
        """Return the sequences from `start` to `end` - 1, padded only to the length of the longest of these sequences.

        The lengths must be on the CPU.
        """
        lengths = self.lengths[start:end]
        return PaddedBatch(self.values[start:end, : int(lengths.max())], lengths)
