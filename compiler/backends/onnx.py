"""Encoder and step as ONNX models, for whatever runs those; here they run in onnxruntime."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, Order, digest
from compiler.backends.export import TRANSLATING, assembled, exports, written_by
from compiler.backends.export import refuses as none_does
from compiler.emit import emit
from compiler.emitted import EmittedProgram
from compiler.switches import quiet

PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def write(order: Order, folder: Path) -> None:
    """`encode.onnx` and `decode_step.onnx` with their weights, every symbolic size free; inputs as the graphs'."""
    for purpose, program in exports(order).items():
        graph = order.graphs[purpose]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own deprecations
            made: Any = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(graph.inputs),
                output_names=[f"new.{name}" if name in graph.inputs else name for name in graph.results],
                verbose=False,
            )
        made.save(str(folder / f"{purpose}.onnx"), external_data=True)


class _Model:
    """A model in onnxruntime; it takes tensors in the order of the graph's inputs."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_inputs()]

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        given = {name: each.contiguous().numpy() for name, each in zip(self.names, inputs, strict=True)}
        return [torch.from_numpy(each) for each in self.session.run(None, given)]


def _build(order: Order) -> EmittedProgram:
    import onnxruntime
    import onnxscript

    key = {
        "code": str(emit(order.graphs.values())),
        "inputs": str([(p, g.inputs, g.parameters) for p, g in order.graphs.items()]),
        "weights": digest(order.weights),
        "torch": torch.__version__,
        "onnxscript": onnxscript.__version__,
        "written by": written_by(__file__),
        "onnxruntime": onnxruntime.__version__,
    }
    return opened(order, Artefact(order.folder, "onnx", key).make(lambda empty: write_quietly(order, empty)))


def opened(order: Order, folder: Path) -> EmittedProgram:
    """The models of an order that were written into a folder, run by onnxruntime."""
    return assembled(order, {purpose: _Model(folder / f"{purpose}.onnx") for purpose in TRANSLATING}, "onnx")


def write_quietly(order: Order, folder: Path) -> None:
    """As `write`, without what torch says on the way."""
    with quiet():
        write(order, folder)


def _absent() -> str | None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"{', '.join(missing)} not installed: `pip install -e '.[onnx]'` in zoo's own folder"


def _refuses(order: Order) -> str | None:
    if order.device != "cpu":
        return f"it runs in onnxruntime on a CPU here, not on `{order.device}`"
    if order.precision == "bfloat16":
        return "onnxruntime has no bfloat16 products on a CPU; take float32"
    return none_does(order)


onnx = Backend(
    name="onnx",
    summary="ONNX models, run by onnxruntime",
    absent=_absent,
    refuses=_refuses,
    build=_build,
)
