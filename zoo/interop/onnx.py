"""Export to ONNX: one file for the encoder, and one for a decoding step."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

from compiler.assemble import prepare_build
from compiler.backends.conformance import disagreement
from compiler.backends.onnx import open_models, write_models
from specs import ZooError
from zoo.interop.formats import Bundle, ExportCheck, ImportFormat
from zoo.models.folder import SPEC
from zoo.version import __version__

_UNSUPPORTED = {"restricted_attention", "ssru", "lstm"}
"""Sub-layers that cannot be exported in an encoder. Their operations are not `is_exportable`."""
_NOTE = "`zoo plan --code` shows the inputs and outputs of `decode_step.onnx`; the caller implements the search"


class OnnxExport:
    """The export format `onnx`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "onnx"
    description = "encode.onnx and decode_step.onnx, with the spec and the vocabulary"
    may_differ = ()

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return None, because zoo does not import ONNX models."""
        return None

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write the encoder, the decoding step, the spec and the vocabulary.

        Returns:
            Notes for the user: how to use the files.

        Raises:
            ZooError: The model has an encoder that torch cannot export for sources of any length.
        """
        if kinds := {each.kind for each in bundle.spec.architecture.encoder} & _UNSUPPORTED:
            problem = f"cannot export this model to ONNX: its encoder has layers of {min(kinds)}"
            hint = "no format supports such encoders: translate with `zoo decode`, or serve the model with `zoo serve`"
            raise ZooError(problem, hint=hint)
        _, order = prepare_build(bundle.spec, weights=bundle.tensors, precision="float32", backend=self.name)
        write_models(order, folder)
        (folder / SPEC).write_text(bundle.spec.yaml(__version__), encoding="utf-8")
        bundle.vocabulary.save(folder)
        return [_NOTE]

    def check(self, bundle: Bundle, folder: Path) -> ExportCheck | None:
        """Run both models on random tokens with onnxruntime, and compare them with the compiler's interpreter."""
        if find_spec("onnxruntime") is None:
            return None
        onnxruntime = import_module("onnxruntime")
        _, order = prepare_build(bundle.spec, weights=bundle.tensors, precision="float32", backend=self.name)
        differences = disagreement(open_models(order, folder), weights=bundle.tensors)
        largest = float(torch.tensor([*differences.values()]).max())  # unlike the built-in max, this propagates NaN
        return ExportCheck(f"onnxruntime {onnxruntime.__version__}", largest, "the compiler's interpreter")
