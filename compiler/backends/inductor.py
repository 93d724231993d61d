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
    # Sizes of 0 and 1 (an empty cache, a sentence alone) are compiled apart, with and without gradients: more
    # than torch's limit of 8 variants, few for good.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    namespace = execute(code)
    for name in code.layers:
        namespace[name] = torch.compile(namespace[name], fullgraph=True, dynamic=True)
    return {Purpose(purpose): namespace[purpose] for purpose in code.main}
