"""The tensors of a folder of transformers, safetensors or .bin, under our names and in our layout."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Float32
from safetensors import SafetensorError
from torch import Tensor

from compiler.operations.embedding import encoding
from specs import Architecture, ZooError
from zoo.files.reading import file_exists, open_file
from zoo.interop.numbering import NEVER, Numbering
from zoo.interop.pickles import called, refused
from zoo.interop.tables import positions as positions_of
from zoo.models.weights import check_header

FILES = ("model.safetensors", "pytorch_model.bin")
Named = Iterator[tuple[str, Tensor]]
_BROKEN = (
    *(SafetensorError, pickle.UnpicklingError, OSError, ValueError, RuntimeError, EOFError, LookupError, TypeError),
    *(AttributeError, MemoryError, zipfile.BadZipFile, zlib.error),
)
"""What safetensors and torch raise for files that are not as they wrote them."""
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_SHARED, _OUTPUT, _BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
_TABLE = "model.{}.embed_tokens.weight"
_POSITIONS = "model.{}.embed_positions.weight"
_SHOWN = 200  # characters
_COMPARED = 32  # positions of a table
_WIDEST = 65_536  # features that a spec has at most


class Tensors:
    """Those of a folder. Who reads one takes it out; what is left at the end was not known."""

    def __init__(self, folder: Path) -> None:
        """Raises ZooError where there are none, or where they are damaged."""
        self.file = next((folder / name for name in FILES if file_exists(folder / name)), folder / FILES[0])
        if not file_exists(self.file):
            found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
            hint = "a model in several files has to be saved in one"
            raise ZooError(f"there is neither `{FILES[0]}` nor `{FILES[1]}` in `{folder}`, but {found}", hint=hint)
        self.left: dict[str, Tensor] = dict(_read(self.file))

    def take(self, name: str, *shape: int) -> Float32[Tensor, ...]:
        """A tensor, of this shape, if one is told. Raises ZooError where it is missing or otherwise."""
        if name not in self.left:
            raise ZooError(f"`{self.file}` has no tensor `{name}`, which its config asks for", exit_code=1)
        tensor = self.left.pop(name)
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or (shape and tensor.shape != shape):
            told = f"{list(tensor.shape)} of {tensor.dtype}" if isinstance(tensor, Tensor) else "no tensor"
            wanted = f", and its config says {list(shape)}" if shape else ""
            raise ZooError(f"`{self.file}`: `{name}` is {told}{wanted}", exit_code=1)
        return tensor.float()

    def embedding(self, side: str) -> Float32[Tensor, "tokens d_model"]:
        """Of `encoder` or `decoder`; the one of both, where that is all there is, which stays."""
        own = _TABLE.format(side)
        if _SHARED not in self.left:
            return self.take(own)
        self.left.pop(own, None)
        shared = self.take(_SHARED)
        self.left[_SHARED] = shared
        return shared

    def finish(self) -> None:
        """Raises ZooError where a tensor is left."""
        self.left.pop(_SHARED, None)
        if self.left:
            several = f" and {len(self.left) - 1} more" if len(self.left) > 1 else ""
            name = min(self.left)
            raise ZooError(f"`{self.file}` has the tensor `{name}`{several}, which is no part of what a spec can say")


def layers(of: Tensors, spec: Architecture) -> Named:
    """All but those that have a row or a number for each token."""
    for side, depth in (("encoder", spec.depths.encoder), ("decoder", spec.depths.decoder)):
        for number in range(depth):
            theirs, ours = f"model.{side}.layers.{number}", f"{side}.{number}"
            yield from _attention(of, f"{theirs}.self_attn", f"{ours}.self_attention", spec)
            if side == "decoder":
                yield from _attention(of, f"{theirs}.encoder_attn", f"{ours}.cross_attention", spec)
            for ordinal, shape in enumerate(((spec.d_ff, spec.d_model), (spec.d_model, spec.d_ff)), start=1):
                yield f"{ours}.feed_forward.w{ordinal}", _turned(of.take(f"{theirs}.fc{ordinal}.weight", *shape))
                yield f"{ours}.feed_forward.b{ordinal}", of.take(f"{theirs}.fc{ordinal}.bias", shape[0])
            yield from _norm(of, f"{theirs}.final_layer_norm", f"{ours}.feed_forward", spec)


def embeddings(
    of: Tensors, spec: Architecture, numberings: tuple[Numbering, Numbering], removed: Collection[int]
) -> Named:
    """Those that have, in our order; what is `removed` is never written, nor has a share of the probability."""
    source, target = numberings
    if spec.tied_embeddings == "all":
        of.left.pop(_OUTPUT, None)
        of.left.pop(_TABLE.format("decoder"), None)
        yield "embedding", source.rows(of.embedding("encoder"))
    else:
        yield "source_embedding", source.rows(of.embedding("encoder"))
        yield "target_embedding", target.rows(of.embedding("decoder"))
        if spec.tied_embeddings == "none":
            yield "output_projection", target.rows(of.take(_OUTPUT))
        else:
            of.left.pop(_OUTPUT, None)
    bias = target.bias(of.take(_BIAS) if _BIAS in of.left else None)
    bias[[target.id(number) for number in removed]] = NEVER
    yield _LOGITS, bias


def positions(of: Tensors, width: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `architecture` says of tables of positions that somebody gave the model, and those that were learned.

    Nothing where there are none, or Marian's sinusoids or those of transformers, which may be of whoever wrote the
    file. Raises ZooError where one side alone has them.
    """
    encoder, decoder = (of.left.pop(_POSITIONS.format(side), None) for side in ("encoder", "decoder"))
    if encoder is None and decoder is None:
        return {}, {}
    if width > _WIDEST or not all(
        table is None or (isinstance(table, Tensor) and table.shape[1:] == (width,) and len(table))
        for table in (encoder, decoder)
    ):
        raise ZooError(f"`{of.file}` has positions of another width than {width}"[:_SHOWN], exit_code=1)
    known = list(_sinusoids(width))
    if all(table is None or any(_is(table.float(), sinusoids) for sinusoids in known) for table in (encoder, decoder)):
        return {}, {}
    if encoder is None or decoder is None:
        problem = f"`{of.file}` has positions that are neither Marian's sinusoids nor those of transformers"
        raise ZooError(f"{problem}, of one side alone", exit_code=1)
    said = positions_of(encoder, decoder)
    if said["positional_encoding"] != "learned":
        return said, {}
    rows = said["max_positions"]
    sides = (("encoder", encoder), ("decoder", decoder))
    return said, {f"{side}.positions": table[:rows].float().clone() for side, table in sides}


def in_our_order(name: str, tensor: Tensor, width: int) -> Tensor:
    """One of the same network with its features in another order: a sine, its cosine, the next sine, as in the paper.

    Transformers has the same waves, all sines before all cosines.
    """
    order = torch.arange(width).view(2, width // 2).T.flatten()
    last = name.rpartition(".")[2]
    if last in _INTO:
        return tensor[order]
    return tensor[..., order] if last in _OUT_OF and name != _LOGITS else tensor


def as_it_is(name: str, tensor: Tensor, width: int) -> Tensor:
    """The tensor."""
    return tensor


_INTO = ("query", "key", "value", "w1")
_OUT_OF = (
    *("output", "output_bias", "w2", "b2", "norm_gain", "norm_bias"),
    *("embedding", "source_embedding", "target_embedding", "output_projection"),
)
_LOGITS = "output_bias"  # the one of no layer


def _attention(of: Tensors, theirs: str, ours: str, spec: Architecture) -> Named:
    for name, part in _PROJECTIONS.items():
        yield f"{ours}.{name}", _turned(of.take(f"{theirs}.{part}.weight", spec.d_model, spec.d_model))
        yield f"{ours}.{name}_bias", of.take(f"{theirs}.{part}.bias", spec.d_model)
    yield from _norm(of, f"{theirs}_layer_norm", ours, spec)


def _norm(of: Tensors, theirs: str, ours: str, spec: Architecture) -> Named:
    yield f"{ours}.norm_gain", of.take(f"{theirs}.weight", spec.d_model)
    yield f"{ours}.norm_bias", of.take(f"{theirs}.bias", spec.d_model)


def _turned(matrix: Tensor) -> Tensor:
    """x W where transformers has x W^T."""
    return matrix.T.contiguous()


def _read(file: Path) -> Mapping[str, Tensor]:
    try:
        with open_file(file) as stream:
            if file.suffix == ".safetensors":
                check_header(stream, file)
                return safetensors.torch.load_file(file)
            for name in called(file):
                raise refused(file, name, "transformers")
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
        if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
            raise ValueError("it holds no tensors by name")
        return found
    except _BROKEN as error:
        first = str(error).strip().partition("\n")[0]
        problem = f"`{file}` cannot be read: {first}"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1) from None


def _sinusoids(width: int) -> Iterator[Tensor]:
    yield torch.tensor([encoding(position, width, halves=True) for position in range(_COMPARED)])
    paper = torch.tensor([encoding(position, width) for position in range(_COMPARED)])
    yield torch.cat((paper[:, 0::2], paper[:, 1::2]), 1)


def _is(table: Tensor, wanted: Tensor) -> bool:
    rows = min(len(table), len(wanted))
    return table.shape[1:] == wanted.shape[1:] and torch.allclose(table[:rows], wanted[:rows], atol=1e-4)
