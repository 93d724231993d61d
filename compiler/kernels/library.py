"""The kernels as a library: compiled for this very processor with the host's C++ compiler, kept by content."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compiler.artefact import Artefact, is_of_room
from compiler.host import cpp_compiler, cpuinfo
from compiler.kernels import abi
from specs import ZooError

KERNELS = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


@cache
def library(folder: Path | None) -> Any:
    """The kernels, compiled for this processor unless `folder` has them already."""
    sources = sorted([*KERNELS.glob("*.cpp"), *KERNELS.glob("*.hpp")])
    text = abi.header() + "".join(source.read_text(encoding="utf-8") for source in sources)
    key = {"kernels": text, "flags": " ".join(FLAGS), "compiler": _version(), "processor": processor()}
    artefact = Artefact(folder, "native", key)
    artefact.make(_compile)
    return abi.declared(ctypes.CDLL(str(artefact.folder / "native.so")))


def compile_to(file: Path, flags: Sequence[str] = FLAGS) -> subprocess.CompletedProcess[str]:
    """Has the host's C++ compiler make the library of the kernels, and of the header that says what Python says."""
    with TemporaryDirectory(prefix="zoo-") as folder:
        Path(folder, "abi.hpp").write_text(abi.header(), encoding="utf-8")
        command = [cpp_compiler() or "c++", *flags, "-I", folder, str(KERNELS / "native.cpp"), "-o", str(file)]
        spoken = {**os.environ, "LC_ALL": "C"}  # what it says of the system's errors is looked for
        return subprocess.run(command, capture_output=True, text=True, check=False, env=spoken)


def _compile(folder: Path) -> None:
    done = compile_to(folder / "native.so")
    if done.returncode:
        if is_of_room(reason := done.stderr.strip()):
            problem = f"there is no room to compile the native backend's kernels: {reason[-200:]}"
            hint = "make room there: ZOO_HOME names the folder of what is kept, TMPDIR that of the compiler"
            raise ZooError(problem, hint=f"{hint}; or take the backend `eager`", exit_code=1)
        problem = (
            f"the C++ compiler `{done.args[0]}` failed on the native backend's kernels: {done.stderr.strip()[-500:]}"
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
