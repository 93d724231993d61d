"""From a foreign model's numbers of tokens to ours, which begin with PAD, UNK, BOS and EOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32
from torch import Tensor

from specs import EOS, ZooError

NEVER = -1e9
"""Bias on the logit of a token that the foreign model does not have: its probability is 0, and training, which smooths
labels over what can come (`compiler.operations.probability.SUPPRESSED_LOGIT`), leaves it so."""
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""What PAD, UNK, BOS and EOS are called."""


@dataclass(frozen=True)
class Token:
    """A token of ours: its name, and the row that it has in the foreign model's matrices, if it has one."""

    name: str
    row: int | None = None
    silent: bool = False
    """Whether it is only read: it has the row of another token, and no translation may have it."""


@dataclass(frozen=True)
class Numbering:
    """Our tokens in the order of their numbers."""

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
        first: Sequence[str] = (),
        read_as_unknown: Sequence[str] = (),
    ) -> Numbering:
        """Ours for foreign tokens of these names, in their order.

        `unknown`, `end`, `start` and `pad` are the foreign numbers of UNK, EOS, of what decoding starts with and of
        PAD; without the last two, BOS and PAD are rows of zeros. Where decoding starts with one of the others, BOS is
        read as that, and PAD is another row of zeros if it was that. `first` are the names that come first after these
        (those of bytes), `read_as_unknown` those that sentences are cut into, too, though the foreign model takes them
        for UNK.
        """
        if start == pad:
            pad = None
        special = {unknown, end, start, pad}
        taken = set(SPECIAL)
        early, others = set(first), []
        for row, name in enumerate(names):
            if row not in special:
                unique = name if name and name not in taken else f"{name}<{row}>"
                taken.add(unique)
                others.append(Token(unique, row))
        others.sort(key=lambda token: token.name not in early)
        heads = zip(SPECIAL, (pad, unknown, start, end), (False, False, start in (unknown, end), False), strict=True)
        silent = (Token(name, unknown, silent=True) for name in dict.fromkeys(read_as_unknown) if name not in taken)
        return cls((*(Token(*head) for head in heads), *others, *silent))

    @property
    def names(self) -> list[str]:
        return [token.name for token in self.tokens]

    def id(self, row: int) -> int:
        """Our number of the token that has this row by itself."""
        return next(id for id, token in enumerate(self.tokens) if token.row == row and not token.silent)

    def rows(self, table: Tensor) -> Float32[Tensor, "tokens d_model"]:
        """Of a foreign embedding, or of what projects to the logits: our rows; zeros where it has none."""
        return self._taken(table.float(), 0.0, silent=True)

    def bias(self, bias: Tensor | None) -> Float32[Tensor, " tokens"]:
        """Of a foreign bias on the logits, or of none: ours. What the foreign model cannot write gets NEVER."""
        foreign = 1 + max(token.row for token in self.tokens if token.row is not None)
        whole = torch.zeros(foreign) if bias is None else bias.flatten().float()
        return self._taken(whole, NEVER, silent=False)

    def _taken(self, whole: Tensor, otherwise: float, *, silent: bool) -> Tensor:
        rows = [None if token.silent and not silent else token.row for token in self.tokens]
        if (last := max((row for row in rows if row is not None), default=0)) >= len(whole):
            problem = f"its vocabulary has {last + 1:,} tokens, and one of its matrices a row for {len(whole):,}"
            raise ZooError(problem, hint="restore the files from where the model came from", exit_code=1)
        found = whole[torch.tensor([0 if row is None else row for row in rows])]
        found[torch.tensor([row is None for row in rows])] = otherwise
        return found


assert len(SPECIAL) == EOS + 1
