"""Reader for CTranslate2's file `model.bin`. The file contains named variables (tensors), which may be quantised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from specs import ZooError
from zoo.files.reading import open_file
from zoo.interop.tensors import BinaryReader

VERSIONS = range(2, 7)
"""File versions that zoo reads. Version 2 added the model's name and revision, 3 added aliases, and 4 data types."""
_TYPES = dict(enumerate((torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)))
_TYPES_BY_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}  # before version 4
_DEFAULT_INT16_SCALE = 1000.0


@dataclass(frozen=True)
class Binary:
    """Contents of a CTranslate2 model file (`model.bin`)."""

    version: int
    name: str
    """Class of the model in CTranslate2, such as TransformerSpec."""
    revision: int
    """Revision of this class, which CTranslate2 increases when the variables change."""
    variables: Mapping[str, Tensor]
    """Tensors by name. One tensor may have several names. Quantised matrices are dequantised to float32."""
    number_type: str
    """The data type of most matrices in the file, such as `int8`."""


def read(file: Path) -> Binary:
    """Read a `model.bin`. Raise ZooError if its version is unknown, or a different exception if the file is damaged."""
    with open_file(file) as stream:
        reader = BinaryReader(stream, file)
        version = reader.integer("I")
        if version not in VERSIONS:
            supported = f"zoo supports versions {VERSIONS[0]} to {VERSIONS[-1]}"
            hint = "convert the model again with a converter from CTranslate2 1.0 or newer"
            raise ZooError(f"`{file}` uses version {version} of the binary format, but {supported}", hint=hint)
        name, revision = _text(reader), reader.integer("I")
        stored = dict(_variable(reader, version) for _ in range(reader.integer("I")))
        variables = _dequantized(stored)
        if version >= 3:
            for _ in range(reader.integer("I")):
                alias, original = _text(reader), _text(reader)
                if original not in variables:
                    raise ValueError(f"`{alias}` is an alias of `{original}`, which does not exist")
                variables[alias] = variables[original]
        if reader.left:
            raise ValueError(f"there are {reader.left:,} unexpected bytes after the last variable")
    types = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in stored.values() if tensor.dim() == 2)
    return Binary(version, name, revision, variables, next(iter(dict(types.most_common(1))), "float32"))


def _text(reader: BinaryReader) -> str:
    return reader.text(reader.integer("H"))


def _variable(reader: BinaryReader, version: int) -> tuple[str, Tensor]:
    name = _text(reader)
    shape = [reader.integer("I") for _ in range(reader.integer("B"))]
    code, length = reader.integer("B"), reader.integer("I")
    dtype = (_TYPES if version >= 4 else _TYPES_BY_SIZE).get(code)
    if dtype is None:
        raise ValueError(f"`{name}` has the unknown type {code}")
    size = prod(shape) * dtype.itemsize
    if size != (length if version >= 4 else length * dtype.itemsize):
        raise ValueError(f"the shape of `{name}` does not match the number of bytes")
    if not size:
        return name, torch.empty(0, dtype=dtype)
    return name, torch.frombuffer(reader.bytes(size), dtype=dtype).reshape(shape)


def _dequantized(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Dequantise the quantised matrices as in CTranslate2, and remove their scales.

    Raises:
        ValueError: The scale of a matrix is missing or invalid.
    """
    variables = {}
    for name, tensor in stored.items():
        if tensor.dim() == 2 and tensor.dtype in (torch.int8, torch.int16):
            scale = stored.get(f"{name}_scale")
            if scale is None and tensor.dtype is torch.int16:
                scale = torch.tensor(_DEFAULT_INT16_SCALE)
            if scale is None or scale.numel() not in (1, len(tensor)) or not bool((scale.float() != 0).all()):
                raise ValueError(f"the scale of the quantised variable `{name}` is missing or invalid")
            variables[name] = tensor.float() * (1 / scale.float().reshape(-1, 1))
        elif not name.endswith("weight_scale"):
            variables[name] = tensor
    return variables
