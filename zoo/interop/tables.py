"""Embeddings, the projection to the logits and positions of a foreign model, as our tensors and what a spec says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from compiler.runtime import sinusoids
from specs import ZooError
from zoo.interop.numbering import Numbering

_ROWS, _NEAR = 1_000, 1e-3
"""Of a table of positions that are looked at, and what engines' own float32 or float16 sinusoids are off by."""


@dataclass(frozen=True)
class Tables:
    """In foreign numbers; `source_scale` and `target_scale` are what embeddings are multiplied by."""

    source: Float[Tensor, "V d_model"]
    target: Float[Tensor, "V d_model"]
    output: Float[Tensor, "V d_model"]
    output_bias: Float[Tensor, " V"] | None
    source_scale: float
    target_scale: float

    def tensors(self, source: Numbering, target: Numbering) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Ours, and the fields of `architecture` that follow: which are one, and whether the logits have a bias.

        Embeddings are multiplied by sqrt(d_model) here: where they are multiplied otherwise there, a table of
        embeddings takes the difference, and is its own.
        """
        usual = self.target.shape[1] ** 0.5
        of_source, of_target = (
            numbering.rows(table) * (1.0 if abs(scale / usual - 1) < 1e-6 else scale / usual)
            for numbering, table, scale in (
                (source, self.source, self.source_scale),
                (target, self.target, self.target_scale),
            )
        )
        output = target.rows(self.output)
        found, tied = _named(of_source, of_target, output, shared=source.names == target.names)
        biased = self.output_bias is not None or any(token.row is None or token.silent for token in target.tokens)
        if biased:
            found["output_bias"] = target.bias(self.output_bias)
        return found, {"tied_embeddings": tied, "output_bias": biased}


def _named(source: Tensor, target: Tensor, output: Tensor, *, shared: bool) -> tuple[dict[str, Tensor], str]:
    if not torch.equal(target, output):
        return {"source_embedding": source, "target_embedding": target, "output_projection": output}, "none"
    if shared and torch.equal(source, target):
        return {"embedding": target}, "all"
    return {"source_embedding": source, "target_embedding": target}, "target"


def positions(encoder: Float[Tensor, "rows d_model"], decoder: Float[Tensor, "rows d_model"]) -> dict[str, Any]:
    """What `architecture` says of tables that are added to embeddings: which sinusoids they are, or that none.

    Learned ones are to be tensors of the model, both of as many rows as the shorter.
    """
    kinds = [next(_sinusoids_like(table), None) for table in (encoder, decoder)]
    if kinds[0] is not None and kinds[0] == kinds[1]:
        return kinds[0]
    return {"positional_encoding": "learned", "max_positions": min(len(encoder), len(decoder))}


def _sinusoids_like(table: Float[Tensor, "rows d_model"]) -> Iterator[dict[str, Any]]:
    rows = min(_ROWS, len(table))
    for kind in ("sinusoidal", "sinusoidal_halves"):
        ours = sinusoids(torch.empty(1, rows + 2, table.shape[1]), halves=kind == "sinusoidal_halves")
        for first in range(3):
            if torch.allclose(ours[first : first + rows], table[:rows].float(), atol=_NEAR, rtol=0):
                yield {"positional_encoding": kind, "first_position": first}


def require_width(name: str, found: int, wanted: int) -> None:
    """Raises ZooError where a table has other features than the rest of the model."""
    if found != wanted:
        raise ZooError(f"`{name}` has {found:,} features, and the model has {wanted:,}: a spec has one `d_model`")
