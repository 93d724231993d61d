"""The `onnx` backend: exports the encoder and the decoder step as ONNX models, and runs them with onnxruntime."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, BuildRequest, weights_digest
from compiler.backends.export import TRANSLATING, artefact_key, assemble_program, export_programs, refuse
from compiler.emitted import EmittedProgram
from specs import install_hint

PACKAGES = ("onnx", "onnxscript", "onnxruntime")


_EXPORT_LOCK = Lock()
"""Lets only one thread export at a time, because an export changes process-wide settings for warnings and logging."""


def write_models(request: BuildRequest, folder: Path) -> None:
    """Write the ONNX models `encode.onnx` and `decode_step.onnx`, with weights, into a folder.

    All symbolic sizes, such as batch and source, are dynamic. The inputs of a model have the names of the graph's
    inputs. Warnings from the exporter are suppressed.
    """
    with _EXPORT_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation warnings from torch's own code
        disabled = logging.root.manager.disable
        logging.disable(max(logging.WARNING, disabled))
        try:
            for purpose, program in export_programs(request).items():
                graph = request.graphs[purpose]
                model: Any = torch.onnx.export(
                    program,
                    dynamo=True,
                    input_names=list(graph.inputs),
                    output_names=[f"new.{name}" if name in graph.inputs else name for name in graph.results],
                    verbose=False,
                )
                model.save(str(folder / f"{purpose}.onnx"), external_data=True)
        finally:
            logging.disable(disabled)


def open_models(request: BuildRequest, folder: Path) -> EmittedProgram:
    """Return a compiled model that runs the ONNX models in a folder with onnxruntime."""
    models = {purpose: _Model(folder / f"{purpose}.onnx") for purpose in TRANSLATING}
    return assemble_program(request, models, "onnx")


class _Model:
    """ONNX model that onnxruntime runs. A call takes tensors in the order of the graph's inputs."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_inputs()]

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        arrays = {name: tensor.contiguous().numpy() for name, tensor in zip(self.names, inputs, strict=True)}
        return [torch.from_numpy(array) for array in self.session.run(None, arrays)]


def _build(request: BuildRequest) -> EmittedProgram:
    import onnxruntime
    import onnxscript

    key = {
        **artefact_key(request),
        "weights": weights_digest(request.weights),
        "onnxscript": onnxscript.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
    return open_models(request, Artefact(request.folder, "onnx", key).make(lambda empty: write_models(request, empty)))


def _unavailable_reason() -> str | None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"missing packages: {', '.join(missing)}; {install_hint('onnx')}" if missing else None


onnx = Backend(
    name="onnx",
    summary="ONNX models, run by onnxruntime",
    unavailable_reason=_unavailable_reason,
    build=_build,
    device="cpu",
    precisions=("float32",),
    refuse=refuse,
)
