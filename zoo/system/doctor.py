"""Diagnose which backends, packages and devices zoo can use on this machine, and why others are unavailable."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

import specs
from compiler import TRANSLATE, Purpose, graphs
from compiler.backends import BACKENDS, BuildRequest, choose_backend
from compiler.host import cores, cpp_compiler, cpuinfo, matrix_library
from zoo.files import storage
from zoo.files.storage import folder_bytes
from zoo.system.processors import bfloat16_speed, processor_name
from zoo.version import __version__

REQUIRED = ("torch", "numpy", "pydantic", "safetensors", "sentencepiece", "sacrebleu", "typer", "rich")
OPTIONAL = ("ctranslate2", "onnx", "onnxscript", "onnxruntime", "torch-tensorrt", "tensorrt", "tensorboardX")
_INSTRUCTIONS = (
    *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_bf16", "amx_int8", "sha_ni"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2", "sha2"),
)
"""Instruction sets that matter for speed, by the names that Linux gives them."""


@dataclass(frozen=True)
class ProcessorInfo:
    """Properties of the processor that determine how fast zoo runs on it."""

    model: str
    cores: int
    usable: int
    """Number of cores that this process may run on."""
    instructions: tuple[str, ...]
    torch: str
    """Instruction set that torch's own kernels use."""
    matrix_library: str
    """Default library for float32 matrix products."""
    bfloat16: float
    """Speed of a large matrix product in bfloat16, divided by its speed in float32. Below 1, bfloat16 is emulated."""
    compiler: str | None
    """C++ compiler that backends use, and its version. None if no compiler was found."""


@dataclass(frozen=True)
class Gpu:
    """Properties of a GPU. `bytes` is the size of its memory."""

    device: str
    name: str
    bytes: int
    capability: str


@dataclass(frozen=True)
class BackendStatus:
    """Compiler backend, and whether this machine can use it."""

    name: str
    summary: str
    problem: str | None
    """Reason why the backend is not available, and what to do. None if it is available."""


@dataclass(frozen=True)
class StorageFolder:
    """Folder in which zoo stores files. `contents` describes the files, such as "published models"."""

    contents: str
    folder: str
    bytes: int
    """Size of all files. 0 if the folder does not exist yet."""


@dataclass(frozen=True)
class Diagnosis:
    """Results of `zoo doctor`, in the order in which they are printed."""

    versions: Mapping[str, str | None]
    """Version of each package. None if the package is not installed."""
    processor: ProcessorInfo
    gpus: tuple[Gpu, ...]
    backends: tuple[BackendStatus, ...]
    automatic: Mapping[str, str]
    """Backend that `auto` chooses, keyed by purpose and device, such as "training on cpu"."""
    places: tuple[StorageFolder, ...]
    free_bytes: int
    """Free space on the disk that contains the folders."""
    package: str
    """Folder of the `zoo` package."""


def diagnosis() -> Diagnosis:
    """Examine this machine for `zoo doctor`, without changing anything."""
    caches = {cache.contents: cache.folder() for cache in storage.CACHES.values()}
    folders = {"published models": storage.models(), **caches}
    return Diagnosis(
        versions={"zoo": __version__, "Python": platform.python_version(), **dict(_package_versions())},
        processor=_processor(),
        gpus=tuple(map(_gpu, range(torch.cuda.device_count()))),
        backends=tuple(BackendStatus(b.name, b.summary, b.unavailable_reason()) for b in BACKENDS.values()),
        automatic=dict(_automatic_backends()),
        places=tuple(StorageFolder(contents, str(path), folder_bytes(path)) for contents, path in folders.items()),
        free_bytes=storage.free_bytes(storage.home()),
        package=str(Path(__file__).parents[1]),
    )


def _package_versions() -> Iterator[tuple[str, str | None]]:
    for name in (*REQUIRED, *OPTIONAL):
        try:
            yield name, torch.__version__ if name == "torch" else metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, None


def _processor() -> ProcessorInfo:
    info = cpuinfo()
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return ProcessorInfo(
        model=processor_name(),
        cores=os.cpu_count() or 1,
        usable=cores(),
        instructions=tuple(name for name in _INSTRUCTIONS if name in flags),
        torch=torch.backends.cpu.get_cpu_capability(),
        matrix_library=matrix_library(),
        bfloat16=bfloat16_speed(),
        compiler=_compiler(),
    )


def _compiler() -> str | None:
    compiler = cpp_compiler()
    if compiler is None:
        return None
    output = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{compiler}: {(output.splitlines() or ['unknown version'])[0]}"


def _gpu(number: int) -> Gpu:
    properties = torch.cuda.get_device_properties(number)
    return Gpu(f"cuda:{number}", properties.name, properties.total_memory, f"{properties.major}.{properties.minor}")


def _automatic_backends() -> Iterator[tuple[str, str]]:
    spec = specs.load("tiny")
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        for task, purposes in (("translating", TRANSLATE), ("training", (Purpose.TRAIN,))):
            request = BuildRequest(spec, graphs(spec, purposes, device), {}, device)
            yield f"{task} on {device}", choose_backend("auto", request).name
