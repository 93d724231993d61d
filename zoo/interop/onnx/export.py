"""ONNX models of the encoder and of the decoder's step, written through the backend of that name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

from compiler.assemble import prepare_build
from compiler.backends.conformance import disagreement
from compiler.backends.onnx import open_models, write_models
from zoo.interop.exported import Bundle, Checked
from zoo.models.folder import SPEC
from zoo.version import __version__

_USE = "the inputs and outputs of `decode_step.onnx` are those that `zoo plan --code` shows; the search is the caller's"


class Onnx:
    """`zoo.interop.exported.Target`."""

    name = "onnx"
    description = "encode.onnx and decode_step.onnx, with the spec and the vocabulary"

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Both models, and what makes their numbers of a text."""
        _, order = prepare_build(bundle.spec, weights=bundle.tensors, precision="float32", backend=self.name)
        write_models(order, folder)
        (folder / SPEC).write_text(bundle.spec.yaml(__version__), encoding="utf-8")
        bundle.vocabulary.save(folder)
        return [_USE]

    def check(self, bundle: Bundle, folder: Path) -> Checked | None:
        """Both models on random tokens, by onnxruntime, held to the interpreter."""
        if find_spec("onnxruntime") is None:
            return None
        onnxruntime = import_module("onnxruntime")
        _, order = prepare_build(bundle.spec, weights=bundle.tensors, precision="float32", backend=self.name)
        found = disagreement(open_models(order, folder), weights=bundle.tensors)
        most = float(torch.tensor([*found.values()]).max())  # of a tensor, so that one that is no number stays
        return Checked(f"onnxruntime {onnxruntime.__version__}", most, "the interpreter")
