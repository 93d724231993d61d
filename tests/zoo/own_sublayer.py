"""Script that registers kinds of sub-layers, uses them in the spec `mine.yaml`, and prints the errors of mistakes."""

from pathlib import Path
from typing import Literal

import torch
from pydantic import Field

import specs
import zoo
from compiler.operations.projection import Linear


class Own(specs.Sublayer):
    kind: Literal["own_linear"] = Field(description="A linear map.")
    scale: int = Field(default=1, ge=1, description="Not used.")


class Narrow(specs.Sublayer):
    kind: Literal["narrow"]


def lower(x, sublayer, context):
    width = x.width // 2 if sublayer.kind == "narrow" else x.width
    return context.builder.node("mapped", Linear(), (x,), context.builder.parameter("w", x.width, width))


def print_error(function, *arguments):
    try:
        function(*arguments)
    except zoo.ZooError as error:
        print(error.summary)


zoo.register_sublayer(Own, lower)
zoo.register_sublayer(Narrow, lower)
decoder = [{"kind": "cross_attention"}, {"kind": "own_linear"}]
spec = zoo.spec("mine.yaml", {"architecture": {"encoder": [{"kind": "own_linear", "scale": 3}], "decoder": decoder}})
model = zoo.model(spec)
model(zoo.PaddedBatch.pad([[5, 3]]), torch.tensor([[2, 7, 3]])).smoothed.backward()
assert spec.architecture.encoder[0].scale == 3
assert [name for name in model.weights() if "own_linear" in name]
assert specs.parse(spec.yaml(), "spec.yaml") == spec
assert "own_linear" in str(specs.schema())
Path("spec.yaml").write_text(spec.yaml(), encoding="utf-8")
print_error(zoo.spec, "mine.yaml", {"architecture": {"encoder": [{"kind": "own_linear", "scale": 0}]}})
print_error(zoo.register_sublayer, Own, lower)
print_error(zoo.model, zoo.spec("mine.yaml", {"architecture.encoder": [{"kind": "narrow"}]}))
