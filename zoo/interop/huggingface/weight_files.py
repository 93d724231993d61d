"""Weight files of transformers' models: one file of safetensors or pickles, or several that an index lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, is_present, open_file, read_json
from zoo.interop import torch_files
from zoo.interop.tensors import RESTORE, ForeignTensors
from zoo.models.weights import check_header

FILES = ("model.safetensors", "pytorch_model.bin")
INDEXES = tuple(f"{name}.index.json" for name in FILES)
_SHARD = re.compile(r"(model|pytorch_model)-\d{5}-of-\d{5}\.(safetensors|bin)")


def open_weights(folder: Path) -> ForeignTensors:
    """Read the weights in a folder. Raise ZooError if there are none or if they are damaged."""
    file = next(
        (folder / name for pair in zip(FILES, INDEXES, strict=True) for name in pair if is_present(folder / name)), None
    )
    if file is None:
        files = ", ".join(sorted(path.name for path in folder.iterdir())) or "no files"
        problem = f"`{folder}` has neither `{FILES[0]}` nor `{FILES[1]}`; it contains {files}"
        raise ZooError(problem, hint="add the weights of the model")
    if file.name in INDEXES:
        return _open_shards(file)
    return ForeignTensors(_read_file(file), file)


def _open_shards(index: Path) -> ForeignTensors:
    """Read the files that an index lists. Each tensor must be in the file that the index names for it."""
    listed = read_json(index, MAX_VOCABULARY_BYTES).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ZooError(f"`{index}` is damaged: it has no `weight_map`", hint=RESTORE, exit_code=1)
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(listed.values())):
        if not _SHARD.fullmatch(name):
            problem = f"`{index}` lists `{name}`, which is not a valid name of a weight file"
            raise ZooError(problem[:200], hint=RESTORE, exit_code=1)
        shard = _read_file(index.with_name(name))
        if shard.keys() != {key for key, file in listed.items() if file == name}:
            problem = f"`{index.with_name(name)}` has other tensors than `{index}` lists for it"
            raise ZooError(problem, hint=RESTORE, exit_code=1)
        tensors |= shard
    return ForeignTensors(tensors, index)


def _read_file(file: Path) -> dict[str, Tensor]:
    """Read one file. Raise ZooError if it is damaged or does not contain named tensors."""
    try:
        if file.suffix == ".safetensors":
            with open_file(file) as stream:
                check_header(stream, file)
                tensors: Any = safetensors.torch.load_file(file)
        else:
            tensors = torch_files.load(file, "transformers")
        if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
            raise ValueError("it does not contain named tensors")
    except (SafetensorError, *torch_files.UNREADABLE) as error:
        raise torch_files.unreadable(file, error) from None
    return dict(tensors)
