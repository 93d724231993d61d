"""Tensors of transformers' networks without biases. Each corresponds to one matrix or gain of zoo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.interop.tensors import ForeignTensors


class LayerTensor(NamedTuple):
    """A tensor that both toolkits have."""

    foreign: str
    """Name in transformers, without `.weight`."""
    ours: str
    """Name in zoo."""
    shape: tuple[int, ...]
    """Shape in transformers."""
    is_linear: bool = True
    """Whether it is a linear map, which zoo stores transposed."""
    offset: float = 0.0
    """Number that transformers adds to the tensor when it computes."""


def read_layer_tensors(source: ForeignTensors, tensors: Iterable[LayerTensor]) -> dict[str, Tensor]:
    """Remove tensors from `source`. Return them with zoo's names as keys.

    Raise ZooError if a tensor is missing or invalid.
    """
    read = {}
    for each in tensors:
        tensor = source.take(f"{each.foreign}.weight", *each.shape)
        if each.offset:
            tensor = tensor + each.offset
        read[each.ours] = tensor.T.contiguous() if each.is_linear else tensor.clone()
    return read


def written_layer_tensors(ours: Mapping[str, Tensor], tensors: Iterable[LayerTensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor with its name in transformers, converted to the layout of transformers."""
    for each in tensors:
        tensor = ours[each.ours].float()
        if each.offset:
            tensor = tensor - each.offset
        yield f"{each.foreign}.weight", tensor.T.contiguous() if each.is_linear else tensor.clone()


def tied_tables(source: ForeignTensors, rows: int, d_model: int) -> tuple[Tensor, Tensor | None]:
    """Remove the common embedding of both sides and the output projection from `source`, and return them.

    transformers stores the embedding under up to four names. It ties the output projection to the embedding unless both
    have different values, regardless of `tie_word_embeddings`.

    Returns:
        The embedding, and the output projection. The latter is None if it is equal to the embedding.

    Raises:
        ZooError: A table has another shape, or the sides have different embeddings.
    """
    names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    tables = {name: source.take(f"{name}.weight", rows, d_model) for name in names if f"{name}.weight" in source.left}
    output = tables.pop("lm_head", None)
    if not tables and output is None:
        source.take("shared.weight")  # raises the error that it is missing
    embedding = next(iter(tables.values())) if tables else output
    assert embedding is not None
    for name, table in tables.items():
        if not torch.equal(table, embedding):
            source.left[f"{name}.weight"] = table  # a tensor whose purpose zoo does not know
            source.require_all_taken()
    return embedding, None if output is None or torch.equal(output, embedding) else output
