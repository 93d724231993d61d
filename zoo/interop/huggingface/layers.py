"""Embeddings and output projection of transformers' models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from specs import Architecture, ZooError
from zoo.interop.numbering import Numbering
from zoo.interop.tensors import RESTORE, ForeignTensors

_TABLES = {
    "shared": "model.shared.weight",
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.weight",
}


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


def take_tables(source: ForeignTensors, *shape: int, tied: bool, common: bool = True) -> dict[str, Tensor]:
    """Remove the embeddings and the output projection from `source`, and return them.

    A file contains a shared table once, or under several names. If tables need not be equal, transformers uses each
    side's own embedding, and the common one only for a side without its own.

    Args:
        source: The tensors of the model in transformers.
        shape: The required shape of each table. By default, any shape.
        tied: Whether the output projection is tied to the embeddings.
        common: Whether both sides have a common embedding.

    Returns:
        The tables with the keys `source`, `target` and `output`.

    Raises:
        ZooError: A table is missing or has another shape, or tables that must be equal are not.
    """
    names = {key: name for key, name in _TABLES.items() if common or key != "shared"}
    found = {key: source.take(name, *shape) for key, name in names.items() if name in source.left}
    group = [key for key in names if common or key != "source"] if tied else []
    first = next((found[key] for key in group if key in found), None)
    if any(not torch.equal(found[key], first) for key in group if key in found and first is not None):
        problem = f"`{source.file}` has several embeddings, but `tie_word_embeddings` demands one"
        raise ZooError(problem, hint=RESTORE, exit_code=1)
    tables = {}
    for key in ("source", "target", "output"):
        tied_table = first if key in group else found.get("shared") if key != "output" else None
        table = found.get(key, tied_table)
        tables[key] = source.take(names[group[0] if key in group else key]) if table is None else table
    return tables


def tying(tables: Mapping[str, Tensor], *, common: bool = True) -> str:
    """Return the value of `tied_embeddings` that describes which tables are equal.

    Args:
        tables: The tables with the keys `source`, `target` and `output`.
        common: Whether source and target have the same token IDs.
    """
    same_target = torch.equal(tables["target"], tables["output"])
    if common and torch.equal(tables["source"], tables["target"]):
        return "all" if same_target else "embeddings"
    return "target" if same_target else "none"


def embedding_tensors(
    tables: Mapping[str, Tensor], tied: str, source: Numbering, target: Numbering
) -> dict[str, Tensor]:
    """Return the tables with zoo's names as keys, and with rows in the order of zoo's token IDs."""
    if tied in ("all", "embeddings"):
        tensors = {"embedding": source.rows(tables["source"])}
    else:
        sides = (("source", source), ("target", target))
        tensors = {f"{side}_embedding": numbering.rows(tables[side]) for side, numbering in sides}
    if tied in ("embeddings", "none"):
        tensors["output_projection"] = target.rows(tables["output"])
    return tensors


def written_tables(
    a: Architecture, tensors: Mapping[str, Tensor], select: Callable[[Tensor], Tensor], *, common: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tables that `take_tables` reads, with their names in transformers.

    Args:
        a: The architecture of the model.
        tensors: Maps zoo's name of each tensor to the tensor.
        select: Returns a table with its rows in the order of transformers' token IDs.
        common: Whether the model in transformers has a common embedding, even if zoo has two.
    """
    target = tensors["embedding" if "embedding" in tensors else "target_embedding"]
    tables = {"shared": target} if common else {}
    if a.tied_embeddings != "all":  # transformers ties all tables or none
        tables |= {"source": tensors.get("source_embedding", target), "target": target}
        if common or a.tied_embeddings == "none":
            tables["output"] = tensors.get("output_projection", target)
    for name, table in tables.items():
        yield _TABLES[name], select(table)
