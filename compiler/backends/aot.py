"""The `aot` backend: AOTInductor compiles the encoder and the decoder step ahead of time.

Running a compiled package needs no compiler. Packages contain no weights, so one package serves all training runs of a
spec. A package runs only on the kind of processor that it was compiled for.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.export import TRANSLATING, artefact_key, assemble_program, export_programs, refuse
from compiler.emitted import EmittedProgram
from compiler.host import cpp_compiler
from compiler.kernels.library import processor

INDUCTOR_CONFIG = {"aot_inductor.package_constants_in_so": False}
"""Options that leave the weights out of a package."""


def _build(request: BuildRequest) -> EmittedProgram:
    key = {
        **artefact_key(request),
        "processor": processor() + torch.backends.cpu.get_cpu_capability(),
    }
    folder = Artefact(request.folder, "aot", key).make(lambda empty: _compile(request, empty))
    packages = {purpose: _Package(folder / f"{purpose}.pt2", request.parameters) for purpose in TRANSLATING}
    return assemble_program(request, packages, "aot")


def _compile(request: BuildRequest, folder: Path) -> None:
    from torch._inductor import aoti_compile_and_package

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation warnings from torch's own code
        for purpose, program in export_programs(request).items():
            file = str(folder / f"{purpose}.pt2")
            aoti_compile_and_package(program, package_path=file, inductor_configs=INDUCTOR_CONFIG)


class _Package:
    """Loaded AOTInductor package. It uses the parameters of a compiled model without copying them."""

    def __init__(self, file: Path, parameters: Mapping[str, Tensor]) -> None:
        self.loader = torch._C._aoti.AOTIModelPackageLoader(str(file), "model", False, 1, -1)
        names = self.loader.get_constant_fqns()
        self.constants = {name: parameters[name.removeprefix("program.")].detach() for name in names}
        self.loader.load_constants(self.constants, False, True, True)

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        outputs: list[Tensor] = self.loader.run([tensor.contiguous() for tensor in inputs])
        return outputs


aot = Backend(
    name="aot",
    summary="compiled ahead of time by AOTInductor, without the weights",
    unavailable_reason=lambda: None if cpp_compiler() else "AOTInductor needs a C++ compiler: install g++ or clang++",
    build=_build,
    device="cpu",  # on an H100 with torch 2.11, loading any package ends the process with a segmentation fault
    precisions=("float32", "bfloat16"),
    refuse=refuse,
)
