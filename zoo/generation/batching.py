"""Inputs of a search, and functions that group and pad them to batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from specs import PAD, ZooError
from zoo.text.sentences import excerpt
from zoo.text.spans import Span

if TYPE_CHECKING:
    import torch
    from jaxtyping import Int
    from torch import Tensor
else:
    from compiler.lazy import torch

MIN_ROW_TOKENS = 16
"""Shorter sentences count as this many tokens, because their translations and logits need memory, too."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchInput:
    """Input of a search for one output: a sentence as token IDs, or another input as features.

    Attributes:
        index: Position of the text that the sentence belongs to, from 0.
        streams: The values of each stream that the encoder reads: token IDs, EOS last if the model reads it, or
            features, [frames, width]. Empty if the model has no encoder.
        max_length: Maximum number of tokens in the output, without EOS.
        prefix: Token IDs that the output must start with.
        text: The sentence as text, for error messages.
        words: For a parser, the target token that each word must have. UNK allows any word token.
        part: Position of the sentence in its text, from 0. 0 if the text was not split.
        required: Spans that the output must contain (see `SpanConstraint`).
    """

    index: int
    streams: Mapping[str, tuple[int, ...] | Tensor]
    max_length: int
    prefix: tuple[int, ...] = ()
    text: str = ""
    words: tuple[int, ...] = ()
    part: int = 0
    required: tuple[Span, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token IDs of the source, for a model that reads text. Empty if the model has no encoder."""
        return cast("tuple[int, ...]", self.streams.get("source", ()))

    def __len__(self) -> int:
        return sum(map(len, self.streams.values()))


def sentence_out_of_memory(source: SearchInput) -> ZooError:
    """Return the error for a sentence that does not fit into memory even in a batch of its own."""
    return ZooError(
        f"there is not enough memory to translate sentence {source.index + 1:,} alone: {excerpt(source.text)}, "
        f"length {len(source):,}",
        hint="split the sentence, use a smaller beam, or close other programs",
        exit_code=1,
    )


def max_rows(longest: int, max_batch_tokens: int) -> int:
    """Return how many sentences fit into a batch, counting padding, but at least 1.

    Args:
        longest: Number of tokens of the longest sentence.
        max_batch_tokens: Maximum number of tokens in a batch. A single sentence may be longer.
    """
    return max(1, max_batch_tokens // max(longest, MIN_ROW_TOKENS))


def group_by_length(lengths: Sequence[int], max_batch_tokens: int) -> list[list[int]]:
    """Group sentences of similar length into batches, to avoid padding.

    Args:
        lengths: Number of tokens of each sentence.
        max_batch_tokens: Maximum number of tokens in a batch, counting padding.

    Returns:
        Batches of sentence indices, the longest sentences first.
    """
    by_length = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batches: list[list[int]] = []
    free_rows = 0
    for index in by_length:
        if free_rows == 0:
            batches.append([])
            free_rows = max_rows(lengths[index], max_batch_tokens)
        batches[-1].append(index)
        free_rows -= 1
    return batches


def pad_sequences(rows: Sequence[Sequence[int]], device: torch.device | str) -> Int[Tensor, "rows longest"]:
    """Return sequences of token IDs as one tensor, padded at the end with PAD."""
    width = max(map(len, rows))
    padded = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)
