"""Encoder and step compiled ahead by AOTInductor: no compiler, and nothing of torch's, is loaded to run them.

The packages hold no weights: those are read from where the order has them, so that a package serves every training of
a spec. They are bound to this kind of processor.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, Order
from compiler.backends.export import TRANSLATING, assembled, exports, refuses, written_by
from compiler.emit import emit
from compiler.emitted import EmittedProgram
from compiler.host import cpp_compiler
from compiler.kernels.library import processor

OUTSIDE = {"aot_inductor.package_constants_in_so": False}
"""Weights are no part of a package."""


def _build(order: Order) -> EmittedProgram:
    key = {
        "code": str(emit(order.graphs.values())),
        "inputs": str([(p, g.inputs, g.parameters) for p, g in order.graphs.items()]),
        "torch": torch.__version__,
        "device": order.device,
        "processor": processor() + torch.backends.cpu.get_cpu_capability(),
        "gpu": str(torch.cuda.get_device_properties(order.device)) if order.device.startswith("cuda") else "",
        "written by": written_by(__file__),
    }
    artefact = Artefact(order.folder, "aot", key)
    folder = artefact.make(lambda empty: _compile(order, empty))
    packages = {purpose: _Package(folder / f"{purpose}.pt2", order.device) for purpose in TRANSLATING}
    made = assembled(order, packages, "aot")
    for package in packages.values():
        package.take(made)
    return made


def _compile(order: Order, folder: Path) -> None:
    from torch._inductor import aoti_compile_and_package

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own deprecations
        for purpose, program in exports(order).items():
            aoti_compile_and_package(program, package_path=str(folder / f"{purpose}.pt2"), inductor_configs=OUTSIDE)


class _Package:
    """A package that is loaded, with the weights of a program."""

    def __init__(self, file: Path, device: str) -> None:
        index = torch.device(device).index
        self.loader = torch._C._aoti.AOTIModelPackageLoader(
            str(file), "model", False, 1, -1 if index is None else index
        )

    def take(self, made: EmittedProgram) -> None:
        """The program's own parameters, where they lie."""
        weights = {name: parameter.detach() for name, parameter in made.named_parameters()}
        wanted: dict[str, Any] = {n: weights[n.removeprefix("program.")] for n in self.loader.get_constant_fqns()}
        self.kept = wanted
        self.loader.load_constants(wanted, False, True, True)

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = self.loader.run([each.contiguous() for each in inputs])
        return found


def _absent() -> str | None:
    return None if cpp_compiler() else "AOTInductor needs a C++ compiler: install g++ or clang++"


aot = Backend(
    name="aot",
    summary="compiled ahead by AOTInductor, its weights outside",
    absent=_absent,
    refuses=refuses,
    build=_build,
)
