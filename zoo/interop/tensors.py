"""Tensors and tokens of other toolkits' models, and their conversion to zoo's token IDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from compiler.runtime.layers import sinusoids
from specs import ZooError
from specs.notation import quote
from zoo.files.reading import damaged

NEVER = -1e9
"""Logit bias of a token that the imported model cannot generate. It makes the token's probability 0. Label smoothing
ignores such tokens (`compiler.operations.probability.SUPPRESSED_LOGIT`), so the probability stays 0 in training."""
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Names of PAD, UNK, BOS and EOS."""
STACKS = ("encoder", "decoder")
_COMPARED_POSITIONS = 1_000
_POSITION_TOLERANCE = 1e-3  # allowed error of sinusoids, because toolkits compute them in float32 or float16


@dataclass(frozen=True)
class Token:
    """A token in a converted vocabulary."""

    name: str
    row: int | None = None
    """Row of the token in the embedding and output matrices of the original model. None if it has no row."""
    input_only: bool = False
    """Whether the token is only read and never generated. Such a token shares the row of another token."""


@dataclass(frozen=True)
class TokenList:
    """Source or target tokens of a model to import, in the order of their IDs in that model (the original IDs)."""

    names: Sequence[str]
    unknown: int
    """Original ID of the unknown token."""
    end: int
    """Original ID of the end-of-sentence token."""
    start: int | None = None
    """Original ID of the token that decoding starts with. BOS gets the embedding row of this token, which may also be
    another special token. If None (for a source, or if decoding starts with a zero vector), BOS gets a row of zeros."""
    pad: int | None = None
    """Original ID of the padding token. PAD gets a row of zeros if `pad` is None or equals `start`."""

    def numbering(self, read_as_unknown: Sequence[str] = ()) -> Numbering:
        """Assign zoo's token IDs to the tokens.

        Args:
            read_as_unknown: Tokens that the tokenizer produces but that the original model treats as unknown.
        """
        pad = None if self.start == self.pad else self.pad
        special = {self.unknown, self.end, self.start, pad}
        taken = set(SPECIAL)
        others = []
        for row, name in enumerate(self.names):
            if row not in special:
                unique = name if name and name not in taken else f"{name}<{row}>"
                taken.add(unique)
                others.append(Token(unique, row))
        bos = Token(SPECIAL[2], self.start, input_only=self.start in (self.unknown, self.end))
        heads = (Token(SPECIAL[0], pad), Token(SPECIAL[1], self.unknown), bos, Token(SPECIAL[3], self.end))
        unlisted = dict.fromkeys(name for name in read_as_unknown if name not in taken)
        return Numbering((*heads, *others, *(Token(name, self.unknown, input_only=True) for name in unlisted)))


@dataclass(frozen=True)
class Numbering:
    """Tokens in a converted vocabulary, in the order of their IDs in zoo."""

    tokens: tuple[Token, ...]

    @property
    def names(self) -> list[str]:
        """Names of the tokens, in the order of their IDs."""
        return [token.name for token in self.tokens]

    @cached_property
    def ids(self) -> dict[int, int]:
        """Token IDs in zoo, keyed by row in the original model's matrices. A shared row maps to its first token."""
        ids: dict[int, int] = {}
        for id, token in enumerate(self.tokens):
            if token.row is not None and not token.input_only:
                ids.setdefault(token.row, id)
        return ids

    def rows(self, table: Tensor) -> Float32[Tensor, "tokens d_model"]:
        """Return the rows of an embedding or output projection in the order of zoo's token IDs.

        Args:
            table: The matrix of the original model, with one row per token.

        Returns:
            The matrix with one row per token in zoo's vocabulary. Tokens without a row in `table` get zeros.

        Raises:
            ValueError: The matrix has fewer rows than the vocabulary has tokens.
        """
        return select_rows(table.float(), [token.row for token in self.tokens], 0.0)

    def bias(self, bias: Tensor | None) -> Float32[Tensor, " tokens"]:
        """Return the original model's output bias in the order of zoo's token IDs.

        Args:
            bias: The output bias, with one number per token of the original model, in any shape. None means zeros.

        Returns:
            One number per token in zoo's vocabulary. Tokens that the original model cannot generate get `NEVER` (-1e9).

        Raises:
            ValueError: The bias has fewer numbers than the vocabulary has tokens.
        """
        size = 1 + max(token.row for token in self.tokens if token.row is not None)
        values = torch.zeros(size) if bias is None else bias.flatten().float()
        return select_rows(values, [None if token.input_only else token.row for token in self.tokens], NEVER)


def select_rows(values: Tensor, rows: Sequence[int | None], missing: float) -> Tensor:
    """Select rows of a matrix or elements of a vector. For each None in `rows`, return a row filled with `missing`.

    Raises:
        ValueError: The matrix has too few rows.
    """
    if (last := max((row for row in rows if row is not None), default=0)) >= len(values):
        raise ValueError(f"the vocabulary has {last + 1:,} tokens, but a matrix has only {len(values):,} rows")
    selected = values[torch.tensor([0 if row is None else row for row in rows])]
    selected[torch.tensor([row is None for row in rows])] = missing
    return selected


class ForeignTensors(dict[str, Tensor]):
    """Tensors of another toolkit's model that the import has not used yet, keyed by the toolkit's names.

    Each tensor is removed when it is used. After an import, `require_all_taken` rejects tensors that were not used.
    """

    def __init__(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        """Copy the mapping, but not the tensors, which come from `file`."""
        super().__init__(tensors)
        self.file = file

    def take(self, name: str, *shape: int) -> Float32[Tensor, ...]:
        """Pop a tensor, and return it in float32.

        Args:
            name: The name of the tensor in the original toolkit.
            shape: The required shape. By default, all shapes with at least one dimension are allowed.

        Raises:
            ZooError: The tensor is missing, has the wrong shape, or is not a floating-point tensor.
        """
        if name not in self:
            raise damaged(self.file, f"it has no tensor `{name}`, which the model's settings require")
        tensor = self.pop(name)
        if not isinstance(tensor, Tensor) or tensor.is_meta:  # a tensor on the device `meta` has no values
            raise damaged(self.file, f"`{name}` is not a tensor with values")
        if not tensor.is_floating_point() or not tensor.dim() or (shape and tensor.shape != shape):
            expected = f", but the model's settings require {list(shape)}" if shape else ""
            raise damaged(self.file, f"`{name}` has the shape {list(tensor.shape)} and type {tensor.dtype}{expected}")
        return tensor.float()

    def require_all_taken(self) -> None:
        """Raise ZooError if a tensor of the model was not used in the import."""
        if self:
            others = f" and {len(self) - 1} more" if len(self) > 1 else ""
            raise ZooError(f"`{self.file}` contains the tensor {quote(min(self))}{others}, which zoo does not support")


TIES = {"all": (True, True), "embeddings": (True, False), "target": (False, True), "none": (False, False)}
"""For each value of `tied_embeddings`: whether the source and target embeddings are equal, and whether the target
embedding and the output projection are equal."""


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

    def require_rows(self, source: TokenList, target: TokenList) -> None:
        """Raise ValueError if an embedding's number of rows differs from the number of tokens."""
        for side, tokens, table in (("source", source, self.source), ("target", target, self.target)):
            if len(tokens.names) != len(table):
                counts = f"{len(tokens.names):,} tokens, but its embedding has {len(table):,} rows"
                raise ValueError(f"the {side} vocabulary lists {counts}")

    def converted(self, source: Numbering, target: Numbering) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors in the order of zoo's token IDs, and `architecture` fields such as `tied_embeddings`.

        zoo multiplies embeddings by sqrt(d_model) or by 1. If the original model uses a different factor, the embedding
        is rescaled and can no longer share its matrix with the output projection.
        """
        is_scaled = {self.source_scale, self.target_scale} != {1.0}
        usual = self.target.shape[1] ** 0.5 if is_scaled else 1.0
        sides = (source, self.source, self.source_scale), (target, self.target, self.target_scale)
        source_table, target_table = (
            numbering.rows(table) * (1.0 if abs(scale / usual - 1) < 1e-6 else scale / usual)
            for numbering, table, scale in sides
        )
        output = target.rows(self.output)
        is_shared = source is target and torch.equal(source_table, target_table)
        is_tied = torch.equal(target_table, output)
        tied = next(name for name, ties in TIES.items() if ties == (is_shared, is_tied))
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


def convert_positions(
    tables: Mapping[str, Float[Tensor, "rows d_model"]],
) -> tuple[dict[str, Any], dict[str, Float32[Tensor, "rows d_model"]]]:
    """Convert the position embeddings of the encoder and the decoder.

    Args:
        tables: The position embeddings, keyed by the names in `STACKS`.

    Returns:
        The fields of `architecture.positions`, and zoo's tensors. If both tables contain the same sinusoids, there are
        no tensors. Otherwise, the positions are learned, and the longer table is truncated to the length of the
        shorter table.
    """
    encoder, decoder = (next(matching_sinusoids(tables[side]), None) for side in STACKS)
    if encoder is not None and encoder == decoder:
        return encoder, {}
    rows = min(map(len, tables.values()))
    learned = {f"{side}.positions": copied(table[:rows]) for side, table in tables.items()}
    return {"kind": "learned", "rows": rows}, learned


def matching_sinusoids(table: Float[Tensor, "rows d_model"]) -> Iterator[dict[str, Any]]:
    """Yield the fields of `architecture.positions` for each sinusoid formula that matches a position table."""
    rows = min(_COMPARED_POSITIONS, len(table))
    for kind in ("sinusoidal", "sinusoidal_halves"):
        expected = sinusoids(torch.empty(1, rows + 2, table.shape[1]), halves=kind == "sinusoidal_halves")
        for first in range(3):
            if torch.allclose(expected[first : first + rows], table[:rows].float(), atol=_POSITION_TOLERANCE, rtol=0):
                yield {"kind": kind, "first": first}


def copied(tensor: Tensor) -> Tensor:
    """Return a contiguous copy in float32, because tensors in other toolkits' files may share memory."""
    return tensor.detach().float().clone(memory_format=torch.contiguous_format)
