"""`model.bin` of CTranslate2: its variables by name, as numbers that are exactly what the engine reads there."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import torch
from jaxtyping import Float32
from torch import Tensor

from specs import ZooError
from zoo.files.reading import open_file
from zoo.system import ram

VERSIONS = range(2, 7)
"""Of the file that are read: names of models and of their revisions came with 2, aliases with 3, types with 4."""
_TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
_BY_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}  # before there were types
_SCALE_OF_INT16 = 1000.0  # where none was written
_MOST = 1_000_000  # variables
_NAME = 1_000  # bytes
_DIMENSIONS = 8


@dataclass(frozen=True)
class Binary:
    """What the file holds; an alias is a name more of the same tensor."""

    version: int
    name: str
    """Of the engine's own description of the model: TransformerSpec."""
    revision: int
    variables: Mapping[str, Tensor]
    """As they are stored; quantised ones have a scale beside them, called NAME_scale."""

    @property
    def numbers(self) -> str:
        """Of what type most of its matrices are."""
        types = Counter(str(each.dtype).removeprefix("torch.") for each in self.variables.values() if each.dim() == 2)
        return next(iter(dict(types.most_common(1))), "float32")

    def floats(self, name: str) -> Float32[Tensor, ...]:
        """The numbers of a variable; 8 and 16 bits are undone as the engine undoes them."""
        stored = self.variables[name]
        if stored.dtype not in (torch.int8, torch.int16):
            return stored.float()
        scale = self.variables.get(f"{name}_scale")
        if scale is None and stored.dtype is torch.int16:
            scale = torch.tensor(_SCALE_OF_INT16)
        if scale is None or scale.numel() not in (1, stored.shape[0]) or not bool((scale.float() != 0).all()):
            raise ValueError(f"`{name}` has 8-bit numbers without what they are worth")
        worth = 1 / scale.float().reshape(-1, *[1] * (stored.dim() - 1))
        return stored.float() * worth


def read(file: Path) -> Binary:
    """What a `model.bin` holds. Raises ZooError where it is damaged, or of a version that is not read."""
    try:
        with open_file(file) as stream:
            return _Reader(stream, file).binary()
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        problem = f"`{file}` is damaged: {error}"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1) from None


class _Reader:
    """Little-endian numbers, texts with their lengths, arrays with their shapes."""

    def __init__(self, stream: BinaryIO, file: Path) -> None:
        self.stream, self.file, self.left = stream, file, os.fstat(stream.fileno()).st_size
        cpu = torch.device("cpu")
        ram.require(self.left, cpu, f"`{file}`", "if it is a model of this size, import it on a larger machine")

    def binary(self) -> Binary:
        version = self.number("I")
        if version not in VERSIONS:
            raise ZooError(
                f"`{self.file}` is of CTranslate2's binary version {version}, and {VERSIONS[0]} to {VERSIONS[-1]} "
                "are read",
                hint="convert the model anew with a converter of CTranslate2 1.0 or newer",
            )
        name, revision = self.text(), self.number("I")
        variables = dict(self.variable(version) for _ in range(self.count("I")))
        if version >= 3:
            for _ in range(self.count("I")):
                alias, of = self.text(), self.text()
                if of not in variables:
                    raise ValueError(f"`{alias}` stands for `{of}`, which is not in it")
                variables[alias] = variables[of]
                if f"{of}_scale" in variables:
                    variables[f"{alias}_scale"] = variables[f"{of}_scale"]
        if self.left:
            raise ValueError(f"{self.left:,} bytes follow its end")
        return Binary(version, name, revision, variables)

    def variable(self, version: int) -> tuple[str, Tensor]:
        name, rank = self.text(), self.number("B")
        if rank > _DIMENSIONS:
            raise ValueError(f"`{name}` has {rank} dimensions")
        shape = [self.number("I") for _ in range(rank)]
        code, length = self.number("B"), self.number("I")
        kind = (dict(enumerate(_TYPES)) if version >= 4 else _BY_SIZE).get(code)
        if kind is None:
            raise ValueError(f"`{name}` is of a type {code} that there is not")
        bytes_ = prod(shape) * kind.itemsize
        if bytes_ != (length if version >= 4 else length * kind.itemsize):
            raise ValueError(f"`{name}` is of another shape than it has numbers")
        if not bytes_:
            return name, torch.empty(0, dtype=kind)
        return name, torch.frombuffer(self.bytes(bytes_), dtype=kind).reshape(shape)

    def number(self, kind: str) -> int:
        (number,) = struct.unpack(f"<{kind}", self.bytes(struct.calcsize(f"<{kind}")))
        return int(number)

    def bytes(self, count: int) -> bytearray:
        """The next ones. No memory is taken for what is not there."""
        if self.left < count:
            raise ValueError("it is cut short")
        self.left -= count
        found = bytearray(count)
        self.stream.readinto(found)  # type: ignore[attr-defined]
        return found

    def count(self, kind: str) -> int:
        if (number := self.number(kind)) > _MOST:
            raise ValueError(f"{number:,} variables are more than any model has")
        return number

    def text(self) -> str:
        """Its length counts the zero byte at its end."""
        if (length := self.number("H")) > _NAME:
            raise ValueError(f"a name in it has {length:,} bytes")
        return self.bytes(length).rstrip(b"\0").decode("utf-8")
