"""Constraint that makes a translation contain given spans, such as amounts and links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from specs import EOS, PAD
from zoo.generation.batching import Source, pad_sequences
from zoo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch
    from jaxtyping import Bool, Int
    from torch import Tensor
else:
    from compiler.lazy import torch

_SPACE = "▁"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_AT_START, _AFTER_MARK = 0, 1
"""Nodes at which a span may begin: as a new word, and after a mark such as an opening bracket."""


class SpanConstraint:
    """Constraint that makes every output contain the spans in `Source.required`, and no other digit.

    A span may be written in any of its spellings. When the tokens so far can only belong to a span, the span must be
    completed. EOS is allowed after all spans, and at the maximum length.
    """

    def __init__(self, vocabulary: Vocabulary, free: Sequence[int] = ()) -> None:
        """Build the tables of the constraint.

        Args:
            vocabulary: Vocabulary of the model.
            free: Tokens that are always allowed, such as those of languages.
        """
        strings = vocabulary.token_strings(range(vocabulary.sizes[1]))
        always = vocabulary.control_tokens("target") | set(free)
        texts = [_text_of(string) for string in strings]
        self._letters = [text.replace(_SPACE, "").isalpha() or text == _SPACE for text in texts]
        self._free = torch.tensor([id in always or not re.search(r"\d", text) for id, text in enumerate(texts)])
        self._marks = torch.tensor([text[-1:] not in ("", _SPACE) and not text[-1].isalnum() for text in texts])
        self._extends = torch.tensor([re.match(r"[A-Za-z0-9/_]", text) is not None for text in texts])
        self._vocabulary = vocabulary
        mark = vocabulary.encode("(", "target")
        self._opening = mark

    def spell(self, spelling: str) -> list[tuple[int, tuple[int, ...]]]:
        """Return the tokens of a span as a new word and after a mark, each with the node at which it may begin."""
        encode, mark = self._vocabulary.encode, self._opening
        found = [(_AT_START, tuple(encode(spelling, "target")))]
        if (after := encode(f"({spelling}", "target"))[: len(mark)] == mark:
            found.append((_AFTER_MARK, tuple(after[len(mark) :])))
        return found

    def start(self, sources: Sequence[Source], device: torch.device | str) -> _SpanState:
        """Return the state before the first token, one row per sentence."""
        tries = [_Trie(self._letters, source.required, self.spell) for source in sources]
        width = max(len(source.required) for source in sources) + 1
        edges = [[*trie.edges] for trie in tries]
        columns = [pad_sequences([[edge[column] for edge in each] or [0] for each in edges], device) for column in range(3)]
        below = torch.zeros(len(sources), columns[0].shape[1], width, dtype=torch.bool)
        left = torch.zeros(len(sources), width, dtype=torch.long)
        nodes = max(len(trie.ends) for trie in tries)
        ends = torch.full((len(sources), nodes), width - 1)
        forced, literal = torch.zeros(2, len(sources), nodes, dtype=torch.bool)
        for row, (source, trie) in enumerate(zip(sources, tries, strict=True)):
            left[row, : len(source.required)] = torch.tensor([count for count, _ in source.required], dtype=torch.long)
            for number, (*_, spans) in enumerate(trie.edges):
                below[row, number, list(spans)] = True
            for node, span in enumerate(trie.ends):
                if span is not None:
                    ends[row, node] = span
            forced[row, : len(trie.ends)] = torch.tensor(trie.forced)
            literal[row, : len(trie.ends)] = torch.tensor(trie.literal)
        tables = _Tables(*columns, below, ends, forced, literal)
