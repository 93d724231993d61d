"""Weights files in safetensors format: tensors named after the paper's matrices, metadata, and a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from safetensors import SafetensorError, safe_open

from compiler.lazy import LazyModule, torch
from specs import ZooError
from zoo.files.atomic import atomic_file
from zoo.files.manifest import Manifest, file_identity
from zoo.files.reading import MAX_VOCABULARY_BYTES, damaged, open_file, read_bytes
from zoo.report import size

if TYPE_CHECKING:
    import safetensors.torch as safetensors_torch
    from torch import Tensor
else:
    safetensors_torch = LazyModule("safetensors.torch")

MAX_HEADER_BYTES = 10_000_000
"""Maximum size of the header of a safetensors file. Headers that zoo writes have about a hundred bytes per tensor."""
RESTORE_HINT = (
    "restore the file from its source: for a pulled model, use `zoo pull NAME`; for an imported model, use `zoo import "
    "--replace`; for a run, use `zoo average RUN`"
)
_DIGEST, _VOCABULARY, _BRACKETS = "sha256", "vocabulary", "brackets"
_METADATA = "zoo"
_TYPES = ("torch.float32", "torch.bfloat16", "torch.float16", "torch.float64")
_STORED_TYPE, _SCALES = "stored_type", ".scales"


@dataclass(frozen=True)
class Weights:
    """Named tensors and their metadata. Each weight matrix in the paper is one tensor. Tied matrices share a tensor.

    Examples of metadata are `steps` (the training steps of the averaged checkpoints, separated by commas),
    `longest_source` (the number of tokens in the longest source sentence in the training text), and `alignment_head`
    (the attention head that aligns best, see `zoo.generation.alignment.AlignmentHead`).
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    int8_dimensions: Mapping[str, int] = field(default_factory=dict)
    """Matrices that the file contains in int8, by name, and the dimension of their scales (see `quantise`)."""

    @property
    def longest_source(self) -> int | None:
        """Number of tokens in the longest source sentence in the training data, without EOS.

        None if the file does not record it.
        """
        return _parse_number(self.metadata.get("longest_source", ""))

    @property
    def averaged_steps(self) -> tuple[int, ...]:
        """Training steps of the averaged checkpoints. Empty if the file does not record them."""
        steps = [_parse_number(step) for step in self.metadata.get("steps", "").split(",")]
        known = [step for step in steps if step is not None]
        return tuple(known) if len(known) == len(steps) else ()

    @property
    def digest(self) -> str | None:
        """SHA-256 of the tensors when the file was written. None if the file does not record it."""
        return self.metadata.get(_DIGEST)

    def write(self, file: Path) -> None:
        """Write the weights atomically. If the folder has a vocabulary, its SHA-256 is added to the metadata.

        Raises:
            ZooError: The file cannot be written.
        """
        metadata = {key: value for key, value in self.metadata.items() if key not in (_BRACKETS, _STORED_TYPE)}
        stored = quantise(self.tensors, self.int8_dimensions)
        stored_type = {_STORED_TYPE: "int8"} if self.int8_dimensions else {}
        metadata |= {**stored_type, _DIGEST: _tensor_digest(stored), **_vocabulary_metadata(file.parent)}
        contiguous = {name: tensor.contiguous() for name, tensor in stored.items()}
        with atomic_file(file) as partial:
            # Write one metadata entry, because safetensors writes several entries in random order.
            safetensors_torch.save_file(contiguous, partial, metadata={_METADATA: json.dumps(metadata, sort_keys=True)})


def quantise(tensors: Mapping[str, Tensor], dimensions: Mapping[str, int]) -> dict[str, Tensor]:
    """Convert matrices to int8, and add the scales of each matrix as a tensor `NAME.scales` in bfloat16.

    A matrix is the product of its int8 values and its scales. With the dimensions from `compiler.int8_dimensions`, the
    native backend computes with exactly these int8 values. Scales in bfloat16 have 8 significant bits. Therefore,
    float32 represents the product of a scale and an int8 value exactly. If a dequantised matrix is quantised again, the
    result is the same.

    Args:
        tensors: The tensors by name.
        dimensions: The matrices to convert, by name. A matrix has one scale per row [rows, 1] if its dimension is 0,
            and one scale per column [1, columns] if its dimension is 1.
    """
    result = dict(tensors)
    for name, dimension in dimensions.items():
        matrix = tensors[name].float()
        scales = (matrix.abs().amax(dim=1 - dimension, keepdim=True) / 127).bfloat16()
        result[name] = (matrix / scales).nan_to_num_(0.0).round_().clamp_(-127, 127).char()
        result[f"{name}{_SCALES}"] = scales
    return result


def dequantise(stored: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Convert int8 matrices to float32, by multiplying them by their scales.

    Returns:
        All tensors except the scales, and the `dimensions` of the converted matrices (see `quantise`).
    """
    tensors, dimensions = dict(stored), dict[str, int]()
    for name in [name for name, tensor in stored.items() if tensor.dtype == torch.int8]:
        if (scales := tensors.pop(f"{name}{_SCALES}", None)) is None:
            raise ValueError(f"`{name}` is in int8, but has no scales `{name}{_SCALES}`")
        tensors[name] = stored[name].float() * scales.float()
        dimensions[name] = int(scales.shape != (*stored[name].shape[:1], 1))
    return tensors, dimensions


def read(file: Path, manifest: Manifest | None = None) -> Weights:
    """Read a weights file. Matrices in int8 are converted to float32 (see `quantise`).

    Other tensors are memory-mapped, so the file must not be changed in place.

    Args:
        file: The weights file.
        manifest: The manifest of a published model, against which the file is checked. If None, the file is checked
            against the digest in its own header.

    Raises:
        ZooError: The file is missing, unreadable or damaged, a tensor is not floating-point, or the folder does not
            contain the vocabulary that the weights were trained with.
    """
    with _safe_reading(file):
        before = file_identity(file)
        if manifest is not None:
            manifest.check_file(file.name)  # before the content is parsed
        with safe_open(file, framework="pt") as opened:
            metadata = _parse_metadata(opened.metadata())
            stored = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        digest = metadata.get(_DIGEST) if manifest is None else None
        if digest is not None and _tensor_digest(stored) != digest:
            raise damaged(file, "its tensors do not have the recorded SHA-256", RESTORE_HINT)
        if file_identity(file) != before:
            raise ZooError(f"`{file}` was replaced while it was being read", hint="run the command again", exit_code=1)
        tensors, int8_dimensions = dequantise(stored)
        for name, tensor in tensors.items():
            if str(tensor.dtype) not in _TYPES:
                problem = f"`{file}`: `{name}` has the type {tensor.dtype}, but weights must be floating-point numbers"
                raise ZooError(problem, hint=RESTORE_HINT, exit_code=1)
    if _VOCABULARY in metadata and not same_vocabulary(metadata, _vocabulary_metadata(file.parent)):
        problem = f"the vocabulary in `{file.parent}` is damaged, or is not the one that `{file.name}` was trained with"
        raise ZooError(problem, hint="restore the vocabulary and the weights from the model's source", exit_code=1)
    return Weights(tensors, metadata, int8_dimensions)


def same_vocabulary(metadata: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether two weights files use the same vocabulary, according to their metadata.

    A parser's bracket vocabulary is compared only if both files contain its SHA-256.
    """
    brackets = {each[_BRACKETS] for each in (metadata, other) if _BRACKETS in each}
    return metadata.get(_VOCABULARY) == other.get(_VOCABULARY) and len(brackets) < 2


def known_digest(file: Path) -> str | None:
    """Return the digest in the header of a weights file, or None if the file is unreadable or has no digest."""
    with suppress(ZooError):
        return Weights({}, read_metadata(file)).digest
    return None


def read_metadata(file: Path) -> dict[str, str]:
    """Return the metadata in the header of a weights file, without reading the tensors.

    Raises:
        ZooError: The file cannot be read.
    """
    with _safe_reading(file), safe_open(file, framework="np") as opened:
        return _parse_metadata(opened.metadata())


def check_header(stream: BinaryIO, file: Path) -> None:
    """Check the header length of a safetensors file before the safetensors library allocates memory for it.

    Raises:
        ZooError: The header is too long.
    """
    length = int.from_bytes(stream.read(8), "little")
    if length > MAX_HEADER_BYTES:
        raise damaged(file, f"its header is {size(length)}, but the limit is {size(MAX_HEADER_BYTES)}", RESTORE_HINT)


@contextmanager
def _safe_reading(file: Path) -> Iterator[None]:
    """Check the header of a safetensors file. Convert errors in the `with` block to ZooErrors with a hint."""
    try:
        with open_file(file) as stream:
            check_header(stream, file)
            yield
    except ZooError as error:
        raise ZooError(error.problem, hint=error.hint or RESTORE_HINT, exit_code=1) from None
    except (SafetensorError, OSError, MemoryError, ValueError, AttributeError, RecursionError) as error:
        raise ZooError(f"`{file}` cannot be read: {error}", hint=RESTORE_HINT, exit_code=1) from None


def _parse_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Parse the metadata in a file's header: one JSON entry or, in files from other programs, one entry per value."""
    entries = metadata or {}
    metadata = json.loads(entries[_METADATA]) if _METADATA in entries else entries
    return {str(key): str(value) for key, value in metadata.items()}


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of all tensors, in the order of their names. It covers names, types, shapes and values."""
    state = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()


def _vocabulary_metadata(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a folder's vocabulary files and, for a parser, of its bracket files, as metadata."""

    def digests(pattern: str) -> str:
        contents = (read_bytes(file, MAX_VOCABULARY_BYTES) for file in sorted(folder.glob(pattern)))
        return " ".join(hashlib.sha256(content).hexdigest() for content in contents)

    brackets = digests("vocabulary*.json")
    return {_VOCABULARY: digests("vocabulary*.model"), **({_BRACKETS: brackets} if brackets else {})}
