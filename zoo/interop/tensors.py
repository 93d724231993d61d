"""Conversion of the tensors of another toolkit's Transformer to zoo's names and layout (`x @ W`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from compiler.runtime import sinusoids
from specs import ZooError
from specs.notation import quote
from zoo.interop.numbering import Numbering

RESTORE = "restore the files from the model's original source"
SIDES = ("encoder", "decoder")
_COMPARED_POSITIONS = 1_000
_POSITION_TOLERANCE = 1e-3  # allowed error of sinusoids, because toolkits compute them in float32 or float16


def require_none_left(file: Path, names: set[str]) -> None:
    """Raise ZooError if the set `names` of unused tensors in a file is not empty."""
    if names:
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise ZooError(f"`{file}` has the tensor {quote(min(names))}{others}, which zoo does not support")


class ForeignTensors:
    """Tensors of another toolkit's PyTorch model, with that toolkit's names as keys.

    Each tensor is removed when it is used. Tensors that are left at the end are an error.
    """

    def __init__(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        """Wrap the tensors of a file."""
        self.left, self.file = dict(tensors), file

    def take(self, name: str, *shape: int) -> Float32[Tensor, ...]:
        """Remove a tensor and return it in float32.

        Args:
            name: The name of the tensor in the original toolkit.
            shape: The required shape. By default, any shape with at least one dimension.

        Raises:
            ZooError: The tensor is missing, has another shape, or is not a floating-point tensor.
        """
        if name not in self.left:
            raise ZooError(
                f"`{self.file}` has no tensor `{name}`, which the model's settings require", hint=RESTORE, exit_code=1
            )
        tensor = self.left.pop(name)
        if not isinstance(tensor, Tensor) or tensor.is_meta:  # a tensor on the device `meta` has no values
            raise ZooError(f"`{name}` in `{self.file}` is not a tensor with values", hint=RESTORE, exit_code=1)
        if not tensor.is_floating_point() or not tensor.dim() or (shape and tensor.shape != shape):
            expected = f", but the model's settings require {list(shape)}" if shape else ""
            problem = f"`{name}` in `{self.file}` has the shape {list(tensor.shape)} and type {tensor.dtype}{expected}"
            raise ZooError(problem, hint=RESTORE, exit_code=1)
        return tensor.float()

    def require_all_taken(self) -> None:
        """Raise ZooError if a tensor was not removed."""
        require_none_left(self.file, {*self.left})


@dataclass(frozen=True)
class EmbeddingTables:
    """Embeddings and output projection of another toolkit's model, in the order of its token IDs."""

    source: Float[Tensor, "V d_model"]
    target: Float[Tensor, "V d_model"]
    output: Float[Tensor, "V d_model"]
    output_bias: Float[Tensor, " V"] | None
    source_scale: float = 1.0
    """Factor by which the original model multiplies source embeddings."""
    target_scale: float = 1.0
    """Factor by which the original model multiplies target embeddings."""

    def converted(self, source: Numbering, target: Numbering) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors in the order of zoo's token IDs, and the fields of `architecture` that describe them.

        zoo multiplies embeddings by sqrt(d_model) or by 1. If the original model uses another factor, the embedding
        is rescaled, so that it can no longer share its matrix with the output projection.
        """
        is_scaled = {self.source_scale, self.target_scale} != {1.0}
        usual = self.target.shape[1] ** 0.5 if is_scaled else 1.0
        source_table, target_table = (
            numbering.rows(table) * (1.0 if abs(scale / usual - 1) < 1e-6 else scale / usual)
            for numbering, table, scale in (
                (source, self.source, self.source_scale),
                (target, self.target, self.target_scale),
            )
        )
        output = target.rows(self.output)
        is_shared = source is target and torch.equal(source_table, target_table)
        is_tied = torch.equal(target_table, output)
        tied = {(True, True): "all", (True, False): "embeddings", (False, True): "target"}.get(
            (is_shared, is_tied), "none"
        )
        if is_shared:
            tensors = {"embedding": target_table}
        else:
            tensors = {"source_embedding": source_table, "target_embedding": target_table}
        if not is_tied:
            tensors["output_projection"] = output
        never_written = any(token.row is None or token.input_only for token in target.tokens)
        if biased := self.output_bias is not None or never_written:
            tensors["output_bias"] = target.bias(self.output_bias)
        return tensors, {"tied_embeddings": tied, "output_bias": biased, "scale_embeddings": is_scaled}


def position_fields(encoder: Float[Tensor, "rows d_model"], decoder: Float[Tensor, "rows d_model"]) -> dict[str, Any]:
    """Return the fields of `architecture.positions` for the tables of positions of the encoder and the decoder.

    Returns:
        If both tables contain the same sinusoids: their kind and first position. Otherwise: the fields for learned
        positions, with as many rows as the shorter table.
    """
    kinds = [next(matching_sinusoids(table), None) for table in (encoder, decoder)]
    if kinds[0] is not None and kinds[0] == kinds[1]:
        return kinds[0]
    return {"kind": "learned", "rows": min(len(encoder), len(decoder))}


def matching_sinusoids(table: Float[Tensor, "rows d_model"]) -> Iterator[dict[str, Any]]:
    """Yield the fields of `architecture.positions` for sinusoids that are equal to the rows of a table."""
    rows = min(_COMPARED_POSITIONS, len(table))
    for kind in ("sinusoidal", "sinusoidal_halves"):
        expected = sinusoids(torch.empty(1, rows + 2, table.shape[1]), halves=kind == "sinusoidal_halves")
        for first in range(3):
            if torch.allclose(expected[first : first + rows], table[:rows].float(), atol=_POSITION_TOLERANCE, rtol=0):
                yield {"kind": kind, "first": first}


def copied(tensor: Tensor) -> Tensor:
    """Return a contiguous copy in float32. Files of other toolkits may contain one tensor under two names."""
    return tensor.detach().float().clone(memory_format=torch.contiguous_format)
