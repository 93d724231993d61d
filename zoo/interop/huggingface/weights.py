"""Weights of transformers' models: safetensors or pickle files, token embeddings, and Marian's position embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specs import Architecture, ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, damaged, is_present, read_json
from zoo.interop.loading import load_tensors
from zoo.interop.tables import TOOLKITS, NamedTensors
from zoo.interop.tensors import STACKS, EmbeddingTables, ForeignTensors, convert_positions, matching_sinusoids

FILES = ("model.safetensors", "pytorch_model.bin")
_SHARD = re.compile(r"(model|pytorch_model)-\d{5}-of-\d{5}\.(safetensors|bin)")
BIAS = "final_logits_bias"
"""Name of the bias on the logits in Marian and mBART models."""
BART_TABLES: Mapping[str, str] = TOOLKITS["transformers.marian"]["tables"]
"""Names of the embeddings and of the output projection in Marian, M2M-100 and mBART models."""
_INPUTS_D_MODEL = ("query", "key", "value", "w1")
_OUTPUTS_D_MODEL = (
    *("output", "output_bias", "w2", "b2", "norm_gain", "norm_bias"),
    *("embedding", "source_embedding", "target_embedding", "output_projection"),
)


def open_weights(folder: Path) -> ForeignTensors:
    """Read the weights in a folder. Raise ZooError if the weights are missing or damaged."""
    names = [name for file in FILES for name in (file, f"{file}.index.json")]
    file = next((folder / name for name in names if is_present(folder / name)), None)
    if file is None:
        files = ", ".join(sorted(path.name for path in folder.iterdir())) or "no files"
        problem = f"`{folder}` has neither `{FILES[0]}` nor `{FILES[1]}`; it contains {files}"
        raise ZooError(problem, hint="add the model's weights to this folder")
    return ForeignTensors(_read_shards(file) if file.suffix == ".json" else load_tensors(file, "transformers"), file)


def _read_shards(index: Path) -> dict[str, Tensor]:
    """Read the weight files that are listed in an index. Raise ValueError if their tensors do not match the index."""
    listed = read_json(index, MAX_VOCABULARY_BYTES)["weight_map"]
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(listed.values())):
        if not _SHARD.fullmatch(name):
            raise ValueError(f"`{index}` lists `{name}`, which is not a valid name of a weight file")
        shard = load_tensors(index.with_name(name), "transformers")
        if shard.keys() != {key for key, file in listed.items() if file == name}:
            raise ValueError(f"`{index.with_name(name)}` does not have the tensors that `{index}` lists for it")
        tensors |= shard
    return tensors


def take_tables(
    source: ForeignTensors,
    names: Mapping[str, str],
    equal: Collection[str],
    *shape: int,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> EmbeddingTables:
    """Pop the embeddings and the output projection from `source`.

    These matrices are called tables below. The tables in `equal` may be stored once, under any of their names, or
    several times. If a source or target embedding outside `equal` is missing, the table `shared` is used instead.

    Args:
        source: The tensors of the model in transformers.
        names: The name of each table in transformers, keyed by `shared`, `source`, `target` and `output`. If all tables
            in `equal` are missing, the error names the first of them.
        equal: The keys of the tables that must be equal, because the model ties them.
        shape: The required shape of each table. By default, all shapes are allowed.
        bias: The bias of the output projection. None means zeros.
        scale: The factor by which the model multiplies embeddings.

    Raises:
        ZooError: A table is missing or has the wrong shape, or tables that must be equal are different.
    """
    found = {key: source.take(name, *shape) for key, name in names.items() if name in source}
    group = [key for key in names if key in equal]
    first = next((found[key] for key in group if key in found), None)
    if any(not torch.equal(found[key], first) for key in group if key in found and first is not None):
        listed = ", ".join(names[key] for key in group if key in found)
        raise ZooError(f"`{source.file}` contains different embeddings ({listed}), but its config ties them")
    tables = {}
    for key in ("source", "target", "output"):
        table = first if key in group else found.get("shared") if key != "output" else None
        table = found.get(key, table)
        tables[key] = source.take(names[group[0] if key in group else key]) if table is None else table
    bias = torch.zeros(len(tables["output"])) if bias is None else bias
    return EmbeddingTables(tables["source"], tables["target"], tables["output"], bias, scale, scale)


def written_bart_tables(
    a: Architecture, tensors: Mapping[str, Tensor], select: Callable[[Tensor], Tensor], *, common: bool, biased: bool
) -> NamedTensors:
    """Yield the embeddings, the output projection and its bias with their names in transformers' BART-like models.

    Args:
        a: The architecture of the model.
        tensors: The tensors of the model, keyed by zoo's names.
        select: Function that reorders the rows of a table from zoo's token IDs to transformers' token IDs.
        common: Whether encoder and decoder share an embedding in transformers, even if zoo has two.
        biased: Whether the model in transformers has an output bias.
    """
    target = tensors["embedding" if "embedding" in tensors else "target_embedding"]
    tables = {"shared": target} if common else {}
    if a.tied_embeddings != "all":  # transformers ties all tables or none
        tables |= {"source": tensors.get("source_embedding", target), "target": target}
        if common or a.tied_embeddings == "none":
            tables["output"] = tensors.get("output_projection", target)
    for name, table in tables.items():
        yield BART_TABLES[name], select(table)
    if biased:
        yield BIAS, select(tensors.get("output_bias", torch.zeros(len(target)))).reshape(1, -1)


def take_positions(source: ForeignTensors, d_model: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Pop the position embeddings from `source`, and convert them to fields and tensors of zoo.

    Marian's and transformers' own sinusoids are ignored, because they show only which toolkit wrote the file, not how
    the model was trained.

    Returns:
        The fields of `architecture` that describe the position embeddings, and the tensors of learned positions. The
        fields and the tensors are empty if the file has no position embeddings, or only ignored sinusoids.

    Raises:
        ZooError: Only the encoder or only the decoder has position embeddings, or their dimension is not `d_model`.
    """
    names = {side: f"model.{side}.embed_positions.weight" for side in STACKS}
    tables = {side: source.take(name) for side, name in names.items() if name in source}
    if any(table.shape != (len(table), d_model) or not len(table) for table in tables.values()):
        raise damaged(source.file, f"it has position embeddings whose dimension is not {d_model}")
    if all(map(_is_of_marian_or_transformers, tables.values())):
        return {}, {}
    if len(tables) < len(STACKS):
        raise damaged(source.file, "either the encoder or the decoder has no position embeddings")
    fields, tensors = convert_positions(tables)
    return {"positions": fields}, tensors


def _is_of_marian_or_transformers(table: Tensor) -> bool:
    """Return whether a position table contains the sinusoids of Marian or transformers."""
    interleaved = table[:, _interleaving(table.shape[1])]
    of_marian, of_paper = ({"kind": kind, "first": 0} for kind in ("sinusoidal_halves", "sinusoidal"))
    return of_marian in matching_sinusoids(table) or of_paper in matching_sinusoids(interleaved)


def to_interleaved(name: str, tensor: Tensor, d_model: int) -> Tensor:
    """Reorder the features of a tensor for the paper's sinusoids, in which sines and cosines alternate.

    In transformers, all sines precede all cosines. Tensors without a d_model dimension stay unchanged.

    Args:
        name: The name of the tensor in zoo. It determines the dimension that is reordered.
        tensor: The tensor in transformers' feature order.
        d_model: The number of features.
    """
    order, last = _interleaving(d_model), name.rpartition(".")[2]
    if last in _INPUTS_D_MODEL:
        return tensor[order]
    return tensor[..., order] if last in _OUTPUTS_D_MODEL and name != "output_bias" else tensor


def _interleaving(d_model: int) -> Tensor:
    """Return feature indices that alternate between the first half and the second half of the features."""
    return torch.arange(d_model).view(2, d_model // 2).T.flatten()
