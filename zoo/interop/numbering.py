"""Conversion from the token IDs of another toolkit's model to zoo's, which begin with PAD, UNK, BOS and EOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32
from torch import Tensor

from specs import ZooError

NEVER = -1e9
"""Logit bias of a token that the imported model cannot generate. It makes the token's probability 0. Label smoothing
ignores such tokens (`compiler.operations.probability.SUPPRESSED_LOGIT`), so the probability stays 0 in training."""
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Names of PAD, UNK, BOS and EOS."""


@dataclass(frozen=True)
class Token:
    """A token of a converted vocabulary."""

    name: str
    row: int | None = None
    """Row of the token in the embedding and output matrices of the original model. None if it has no row."""
    input_only: bool = False
    """Whether the token is only read and never generated. It then shares the row of another token."""


@dataclass(frozen=True)
class Numbering:
    """Tokens of a converted vocabulary, in the order of their IDs in zoo."""

    tokens: tuple[Token, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        *,
        unknown: int,
        end: int,
        start: int | None = None,
        pad: int | None = None,
        read_as_unknown: Sequence[str] = (),
    ) -> Numbering:
        """Assign zoo's token IDs to the tokens of another toolkit's model.

        Args:
            names: The names of the tokens, in the order of their IDs in the original model.
            unknown: The original ID of the unknown token.
            end: The original ID of the end of a sentence.
            start: The original ID of the token that decoding starts with, whose row becomes that of BOS. It may equal
                `unknown`, `end` or `pad`. By default, BOS gets a row of zeros.
            pad: The original ID of the padding token. By default, or if it equals `start`, PAD gets a row of zeros.
            read_as_unknown: Tokens that the tokenizer produces but that the original model treats as unknown.
        """
        if start == pad:
            pad = None
        special = {unknown, end, start, pad}
        taken = set(SPECIAL)
        others = []
        for row, name in enumerate(names):
            if row not in special:
                unique = name if name and name not in taken else f"{name}<{row}>"
                taken.add(unique)
                others.append(Token(unique, row))
        bos = Token(SPECIAL[2], start, input_only=start in (unknown, end))
        heads = (Token(SPECIAL[0], pad), Token(SPECIAL[1], unknown), bos, Token(SPECIAL[3], end))
        unlisted = dict.fromkeys(name for name in read_as_unknown if name not in taken)
        return cls((*heads, *others, *(Token(name, unknown, input_only=True) for name in unlisted)))

    @property
    def names(self) -> list[str]:
        """Names of the tokens, in the order of their IDs."""
        return [token.name for token in self.tokens]

    def id(self, row: int) -> int:
        """Return zoo's ID of the token with this row in the original model's matrices."""
        return next(id for id, token in enumerate(self.tokens) if token.row == row and not token.input_only)

    def rows(self, table: Tensor) -> Float32[Tensor, "tokens d_model"]:
        """Return an embedding or output projection of the original model in the order of zoo's token IDs.

        Args:
            table: A matrix with one row per token of the original model.

        Returns:
            The matrix with one row per token of zoo. Tokens without a row in `table` get zeros.

        Raises:
            ZooError: The matrix has fewer rows than the vocabulary has tokens.
        """
        return self._select(table.float(), [token.row for token in self.tokens], 0.0)

    def bias(self, bias: Tensor | None) -> Float32[Tensor, " tokens"]:
        """Return a bias on the original model's logits in the order of zoo's token IDs.

        Args:
            bias: One number per token of the original model, in any shape. None means zeros.

        Returns:
            One number per token of zoo: `NEVER` for tokens that the original model cannot generate.

        Raises:
            ZooError: The bias has fewer numbers than the vocabulary has tokens.
        """
        size = 1 + max(token.row for token in self.tokens if token.row is not None)
        values = torch.zeros(size) if bias is None else bias.flatten().float()
        return self._select(values, [None if token.input_only else token.row for token in self.tokens], NEVER)

    def _select(self, values: Tensor, rows: list[int | None], missing: float) -> Tensor:
        if (last := max((row for row in rows if row is not None), default=0)) >= len(values):
            raise ZooError(
                f"the vocabulary has {last + 1:,} tokens, but a matrix of the model has only {len(values):,} rows",
                hint="restore the files from the model's original source",
                exit_code=1,
            )
        selected = values[torch.tensor([0 if row is None else row for row in rows])]
        selected[torch.tensor([row is None for row in rows])] = missing
        return selected
