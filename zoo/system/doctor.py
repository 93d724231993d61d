"""What there is on this machine that `zoo` can use, what there is not, and why."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

import specs
from compiler import TRANSLATE, Purpose, graphs
from compiler.backends import BACKENDS, Order, choose
from compiler.host import cores, cpp_compiler, cpuinfo
from compiler.switches import matrix_library
from zoo.files import storage
from zoo.files.storage import folder_bytes
from zoo.system.calibration import Calibration, all_kept
from zoo.system.called import processor
from zoo.system.peak import matrix_peak
from zoo.version import __version__

NEEDED = ("torch", "numpy", "pydantic", "safetensors", "sentencepiece", "sacrebleu", "typer", "rich")
OPTIONAL = ("ctranslate2", "onnx", "onnxscript", "onnxruntime", "torch-tensorrt", "tensorrt", "tensorboardX")
_CPU = torch.device("cpu")
OURS = ("specs", "compiler", "zoo", "cli")
_INSTRUCTIONS = (
    *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_bf16", "amx_int8", "sha_ni"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2", "sha2"),
)
"""What speed depends on here, as Linux calls it."""


@dataclass(frozen=True)
class Processor:
    """`usable` are the cores that this process may run on; `torch` is what torch's own kernels make use of."""

    model: str
    cores: int
    usable: int
    instructions: tuple[str, ...]
    torch: str
    matrix_library: str
    """Of float32 products, where nobody measured."""
    bfloat16: float
    """How many times as fast as one in float32 a large product is, measured: below 1 it is emulated."""
    compiler: str | None
    """The C++ compiler that backends compile with, and its version."""


@dataclass(frozen=True)
class Gpu:
    device: str
    name: str
    bytes: int
    capability: str


@dataclass(frozen=True)
class Found:
    """A backend: `problem` says why it is absent and what to do, and is None where it is present."""

    name: str
    summary: str
    problem: str | None


@dataclass(frozen=True)
class Place:
    """A folder of ours. `bytes` are 0 where it does not exist yet."""

    what: str
    folder: str
    bytes: int


@dataclass(frozen=True)
class Diagnosis:
    """All of it, in the order in which it is shown. A version is None where the package is not there."""

    versions: Mapping[str, str | None]
    processor: Processor
    calibrations: tuple[Calibration, ...]
    """What was measured of specs on this processor with these versions."""
    gpus: tuple[Gpu, ...]
    backends: tuple[Found, ...]
    automatic: Mapping[str, str]
    """What the backend `auto` takes, for each device and purpose."""
    places: tuple[Place, ...]
    free_bytes: int
    """Of the disk that they lie on."""
    packages: Mapping[str, str]
    """Where Python found the four packages of ours."""


def diagnosis() -> Diagnosis:
    """Looks at everything, and changes nothing."""
    there = next(each for each in (storage.home(), *storage.home().parents) if each.exists())
    return Diagnosis(
        versions=dict(_versions()),
        processor=_processor(),
        calibrations=tuple(all_kept()),
        gpus=tuple(_gpus()),
        backends=tuple(Found(each.name, each.summary, each.absent()) for each in BACKENDS.values()),
        automatic=dict(_automatic()),
        places=tuple(_places()),
        free_bytes=shutil.disk_usage(there).free,
        packages={name: str(Path(str(found.origin)).parent) for name in OURS if (found := find_spec(name))},
    )


def _versions() -> Iterator[tuple[str, str | None]]:
    yield "zoo", __version__
    yield "Python", platform.python_version()
    for name in (*NEEDED, *OPTIONAL):
        try:
            yield name, torch.__version__ if name == "torch" else metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, None


def _processor() -> Processor:
    told = cpuinfo()
    flags = set((told.get("flags") or told.get("Features") or "").split())
    return Processor(
        model=processor(),
        cores=os.cpu_count() or 1,
        usable=cores(),
        instructions=tuple(name for name in _INSTRUCTIONS if name in flags),
        torch=torch.backends.cpu.get_cpu_capability(),
        matrix_library=matrix_library(),
        bfloat16=matrix_peak(_CPU, "bfloat16") / matrix_peak(_CPU, "float32"),
        compiler=_compiler(),
    )


def _compiler() -> str | None:
    found = cpp_compiler()
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{found}: {(said.splitlines() or ['it does not say its version'])[0]}"


def _gpus() -> Iterator[Gpu]:
    for number in range(torch.cuda.device_count()):
        told = torch.cuda.get_device_properties(number)
        yield Gpu(f"cuda:{number}", told.name, told.total_memory, f"{told.major}.{told.minor}")


def _automatic() -> Iterator[tuple[str, str]]:
    spec = specs.load("tiny")
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        for words, purposes in (("translating", TRANSLATE), ("training", (Purpose.TRAIN,))):
            order = Order(spec, graphs(spec, purposes, device), {}, device)
            yield f"{words} on {device}", choose("auto", order).name


def _places() -> Iterator[Place]:
    kept = {
        "published models": storage.models(),
        "fetched archives": storage.archives(),
        "prepared corpora": storage.prepared(),
        "compiled programs": storage.compiled(),
    }
    for what, folder in kept.items():
        yield Place(what, str(folder), folder_bytes(folder))
