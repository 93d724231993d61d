"""Conversion of the weights of transformers' Marian models for zoo."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor

from compiler.lowering.positions import sinusoidal_encoding
from specs import ZooError
from zoo.interop.numbering import NEVER, Numbering
from zoo.interop.tensors import RESTORE, SIDES, ForeignTensors, copied, position_fields

_BIAS = "final_logits_bias"
_POSITIONS = "model.{}.embed_positions.weight"
_OUTPUT_BIAS = "output_bias"  # the bias of the logits
_INPUTS_D_MODEL = ("query", "key", "value", "w1")
_OUTPUTS_D_MODEL = (
    *("output", "output_bias", "w2", "b2", "norm_gain", "norm_bias"),
    *("embedding", "source_embedding", "target_embedding", "output_projection"),
)
_MAX_MESSAGE = 200  # characters
_COMPARED_POSITIONS = 32
_MAX_D_MODEL = 65_536  # the largest value that a spec allows


def read_output_bias(source: ForeignTensors, numbering: Numbering, excluded: Collection[int]) -> Tensor:
    """Remove the bias of the logits from `source`. Return it ordered by zoo's token IDs.

    Args:
        source: The tensors of the model in transformers.
        numbering: The tokens of the target.
        excluded: transformers' IDs of tokens to exclude from the softmax.

    Raises:
        ZooError: The bias has too few numbers.
    """
    bias = numbering.bias(source.take(_BIAS) if _BIAS in source.left else None)
    bias[[numbering.id(row) for row in excluded]] = NEVER
    return bias


def take_positions(source: ForeignTensors, d_model: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Remove the tables of positions from `source`, and convert them.

    Tables with the sinusoids of Marian or of transformers are ignored. They show only which program wrote the file, not
    how the model was trained.

    Returns:
        The fields of `architecture` that describe the tables, and the tensors of learned positions. Both are empty if
        the file has no tables, or only ignored ones.

    Raises:
        ZooError: Only one side has a table, or a table has another dimension than `d_model`.
    """
    tables = {
        side: source.left.pop(_POSITIONS.format(side)) for side in SIDES if _POSITIONS.format(side) in source.left
    }
    for table in tables.values():
        valid = isinstance(table, Tensor) and table.shape[1:] == (d_model,) and len(table)
        if d_model > _MAX_D_MODEL or not valid:
            problem = f"`{source.file}` has positions of another dimension than {d_model}"
            raise ZooError(problem[:_MAX_MESSAGE], hint=RESTORE, exit_code=1)
    known = list(_known_sinusoids(d_model)) if tables else []
    if all(any(_matches(table.float(), sinusoids) for sinusoids in known) for table in tables.values()):
        return {}, {}
    if len(tables) < len(SIDES):
        problem = (
            f"`{source.file}` has positions for one side only, and they are not sinusoids of Marian or transformers"
        )
        raise ZooError(problem, hint=RESTORE, exit_code=1)
    fields = position_fields(tables["encoder"], tables["decoder"])
    if fields["kind"] != "learned":
        return {"positions": fields}, {}
    rows = fields["rows"]
    return {"positions": fields}, {f"{side}.positions": copied(table[:rows]) for side, table in tables.items()}


def to_interleaved(name: str, tensor: Tensor, d_model: int) -> Tensor:
    """Return a tensor with its features reordered, so that sinusoids can alternate sines and cosines as in the paper.

    In transformers, all sines precede all cosines. Tensors without such features stay unchanged.

    Args:
        name: The name of the tensor in zoo, which determines which of its dimensions is reordered.
        tensor: The tensor.
        d_model: The number of features.
    """
    order = torch.arange(d_model).view(2, d_model // 2).T.flatten()
    last = name.rpartition(".")[2]
    if last in _INPUTS_D_MODEL:
        return tensor[order]
    return tensor[..., order] if last in _OUTPUTS_D_MODEL and name != _OUTPUT_BIAS else tensor


def _known_sinusoids(d_model: int) -> Iterator[Tensor]:
    """Yield the first rows of Marian's and of transformers' sinusoids."""
    yield torch.tensor([sinusoidal_encoding(position, d_model, halves=True) for position in range(_COMPARED_POSITIONS)])
    interleaved = torch.tensor([sinusoidal_encoding(position, d_model) for position in range(_COMPARED_POSITIONS)])
    yield torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), 1)


def _matches(table: Tensor, expected: Tensor) -> bool:
    rows = min(len(table), len(expected))
    return table.shape[1:] == expected.shape[1:] and torch.allclose(table[:rows], expected[:rows], atol=1e-4)
