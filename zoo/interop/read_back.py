"""What was written, read as a foreign model is read: the same tensors have to come out."""

from __future__ import annotations

from pathlib import Path

import torch

from specs import ZooError
from zoo.interop.exported import Bundle
from zoo.interop.imported import Format, Wanted
from zoo.interop.numbering import NEVER


def require_same(bundle: Bundle, of: Format, folder: Path) -> None:
    """Raises ZooError where a tensor that was written comes back as another.

    Biases that the bundle has not are there and do nothing.
    """
    found = of.read(folder, Wanted(bundle.spec.name))
    for name, tensor in bundle.tensors.items():
        if name not in found.tensors or not torch.equal(found.tensors[name], tensor.float()):
            raise _another(folder, name)
    for name in found.tensors.keys() - bundle.tensors.keys():
        tensor = found.tensors[name]
        if not name.endswith("_bias") or bool(((tensor != 0) & (tensor != NEVER)).any()):
            raise _another(folder, name)
    ours, theirs = bundle.vocabulary, found.vocabulary
    for side, size in zip((ours.source, ours.target), ours.sizes, strict=True):
        other = theirs.source if side is ours.source else theirs.target
        if side.token_strings(range(size)) != other.token_strings(range(size)):
            raise _another(folder, "vocabulary")


def _another(folder: Path, name: str) -> ZooError:
    return ZooError(
        f"`{name}` of what was written into `{folder}` does not come back as it was",
        hint="please report it with the command: it is a fault of zoo",
        exit_code=1,
    )
