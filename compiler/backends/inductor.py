"""Compiles the emitted layers with torch.compile: each kind of layer once, whole, for any sizes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from compiler.backends.eager import execute
from compiler.emit import Code
from compiler.graph import Purpose
from compiler.program import Function


def inductor(code: Code) -> Mapping[Purpose, Function]:
    """The functions of eager, in which the layers are compiled. All layers of a kind share what is compiled."""
    namespace = execute(code)
    for name in code.layers:
        namespace[name] = torch.compile(namespace[name], fullgraph=True, dynamic=True)
    return {Purpose(purpose): namespace[purpose] for purpose in code.main}
