"""The kernels as a library: compiled for this very processor with the host's C++ compiler, kept by content."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from compiler.artefact import Artefact
from compiler.host import cpp_compiler, cpuinfo
from specs import ZooError

KERNELS = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


class Record(ctypes.Structure):
    """An instruction as native.cpp reads it."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ["operation", "out", "out_at", "a", "a_at", "b", "b_at", "c", "c_at"]),
        *((name, ctypes.c_int32) for name in ["width", "heads", "key_width", "value_width", "relu"]),
        ("scale", ctypes.c_float),
        ("p", ctypes.c_void_p),
        ("q", ctypes.c_void_p),
    )


@cache
def library(folder: Path | None) -> Any:
    """The kernels, compiled for this processor unless `folder` has them already."""
    sources = sorted([*KERNELS.glob("*.cpp"), *KERNELS.glob("*.hpp")])
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    key = {"kernels": text, "flags": " ".join(FLAGS), "compiler": _version(), "processor": processor()}
    artefact = Artefact(folder, "native", key)
    artefact.make(_compile)
    return _declared(ctypes.CDLL(str(artefact.folder / "native.so")))


def _compile(folder: Path) -> None:
    command = [cpp_compiler() or "c++", *FLAGS, str(KERNELS / "native.cpp"), "-o", str(folder / "native.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        problem = (
            f"the C++ compiler `{command[0]}` failed on the native backend's kernels: {done.stderr.strip()[-500:]}"
        )
        raise ZooError(problem, hint="another compiler may do (c++, g++, clang++), or `--backend eager`", exit_code=1)


@cache
def _version() -> str:
    return subprocess.run([cpp_compiler() or "c++", "--version"], capture_output=True, text=True, check=False).stdout


def processor() -> str:
    """What `-march=native` depends on."""
    told = {key: value for key, value in cpuinfo().items() if key in ("flags", "Features", "model name", "CPU part")}
    text = str(told or platform.processor())
    return platform.machine() + hashlib.sha256(text.encode()).hexdigest()[:16]


_P, _N = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: Mapping[str, tuple[Any, list[Any]]] = {
    "zoo_matrix": (_P, [_P, _N, _N, _N, _N, _P]),
    "zoo_matrix_int8": (_P, [_P, _P, _N, _N, _N, _N, _P]),
    "zoo_matrix_free": (None, [_P]),
    "zoo_open": (_P, [_P, _N, _P, _N, _P, _N, _P, _N, _P, _N]),
    "zoo_close": (None, [_P]),
    "zoo_encode": (ctypes.c_int, [_P, _P, _P, _N, ctypes.POINTER(_P)]),
    "zoo_step": (ctypes.c_int, [_P, _P, _P, _N, _P, _P, _P, _P]),
    "zoo_select": (ctypes.c_int, [_P, _P, _N, _P, _N]),
    "zoo_join": (ctypes.c_int, [_P, _P]),
    "zoo_free_state": (None, [_P]),
}


def _declared(library: Any) -> Any:
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
