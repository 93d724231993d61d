"""Functions that compile the C++ kernels into a shared library for this processor, load it, and declare its functions.

So that C++ and Python agree, the `abi.hpp` header is generated from the Python definitions, and the types of functions
are read from the C++ code.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from compiler.artefact import PROCESS_ENDS, Artefact, is_disk_full
from compiler.host import cpp_compiler, cpuinfo
from compiler.instruction import MAX_INT8_ROWS, ActivationKind, Instruction, MatrixType, Opcode, SentenceState, Status
from compiler.program import BeamOptions
from specs import BOS, EOS, PAD, UNK, ZooError

KERNELS = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC")
_POLL_SECONDS = 0.2

CType = type[ctypes.c_int32] | type[ctypes.c_float] | type[ctypes.c_void_p]
_C_NAMES: Mapping[CType, str] = {ctypes.c_int32: "int32_t", ctypes.c_float: "float", ctypes.c_void_p: "const void*"}
_C_TYPES: Mapping[str, CType] = {
    **dict.fromkeys(("Operand", "Opcode", "ActivationKind", "int", "bool"), ctypes.c_int32),
    **dict.fromkeys(("str | None", "tuple[str, ...]", "tuple[float, ...]"), ctypes.c_void_p),
    "float": ctypes.c_float,
}
"""The C type for each type annotation of a field in `Instruction`."""


def struct_fields() -> Iterator[tuple[str, CType]]:
    """Yield the name and the type of each field of the C++ struct Instruction."""
    for field in fields(Instruction):
        yield field.name, _C_TYPES[str(field.type)]
        if field.type == "Operand":
            yield f"{field.name}_column", ctypes.c_int32


POINTERS = tuple(name for name, type_ in struct_fields() if type_ is ctypes.c_void_p)
"""Fields of the struct that are pointers."""


class InstructionStruct(ctypes.Structure):
    """Instruction in the memory layout that the kernels read."""

    _fields_ = tuple(struct_fields())


def header() -> str:
    """Return the text of the generated C++ header `abi.hpp`, which the kernels include."""
    enums = "\n".join(map(_c_enum, (Opcode, ActivationKind, MatrixType, Status, SentenceState)))
    struct = "".join(f"    {_C_NAMES[type_]} {name};\n" for name, type_ in struct_fields())
    return f"""// Written by compiler/kernels/library.py.
#pragma once

#include <cstdint>

{enums}
constexpr int32_t OPCODES = {len(Opcode)};
constexpr int64_t PAD = {PAD}, UNK = {UNK}, BOS = {BOS}, EOS = {EOS}, MAX_INT8_ROWS = {MAX_INT8_ROWS};

extern "C" {{
struct Instruction {{
{struct}}};
struct BeamOptions {{
    int64_t {", ".join((*BeamOptions._fields, "length", "token"))};
}};
}}
"""


def _c_enum(members: type[IntEnum]) -> str:
    values = ", ".join(f"{member.name} = {member.value}" for member in members)
    return f"enum {members.__name__} : int32_t {{ {values} }};"


@cache
def load_kernels(folder: Path | None) -> Any:
    """Load the kernel library, and return it. If `folder` contains no library for this processor, compile one first."""
    return declare_functions(ctypes.CDLL(str(kernels_artefact(folder).make(_compile) / "native.so")))


@cache
def kernels_artefact(folder: Path | None) -> Artefact:
    """Return the cache entry for the kernels compiled for this processor. `folder` contains all cache entries."""
    key = {
        "kernels": header() + _sources(),
        "flags": " ".join(FLAGS),
        "compiler": _compiler_version(),
        "processor": processor(),
    }
    return Artefact(folder, "native", key)


@cache
def _sources() -> str:
    """Return the C++ code of the kernels, without the generated header."""
    return "".join(file.read_text(encoding="utf-8") for file in sorted(KERNELS.glob("*.[ch]pp")))


def declare_functions(library: Any) -> Any:
    """Set the ctypes argument and result types of all kernel functions to match the C++ code. Return the library.

    Each parameter is a pointer or an int64_t. A returned int is a Status.
    """
    for result, name, parameters in re.findall(r"^(int|void) (zoo_\w+)\(([^)]*)\) \{", _sources(), re.MULTILINE):
        function = getattr(library, name)
        function.restype = ctypes.c_int if result == "int" else None
        function.argtypes = [ctypes.c_void_p if "*" in each else ctypes.c_int64 for each in parameters.split(",")]
    return library


def compile_kernels(file: Path, flags: Sequence[str] = FLAGS) -> subprocess.CompletedProcess[str]:
    """Compile the kernels into a shared library. Return the C++ compiler's exit status and output.

    The generated header is written to the folder of the library.
    """
    (file.parent / "abi.hpp").write_text(header(), encoding="utf-8")
    sources = ["-I", str(file.parent), str(KERNELS / "native.cpp")]
    environment = {**os.environ, "LC_ALL": "C"}  # so that `is_disk_full` recognises the compiler's messages
    return _run([cpp_compiler() or "c++", *flags, *sources, "-o", str(file)], environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command. If this process is interrupted or about to end, terminate the command and its child processes."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, process_group=0) as process:
        try:
            while not PROCESS_ENDS.is_set():
                with suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=_POLL_SECONDS)
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
            raise RuntimeError("the compilation was stopped")  # a ZooError would lead to another backend
        except BaseException:  # Ctrl-C reaches only this process
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            raise


def _compile(folder: Path) -> None:
    done = compile_kernels(folder / "native.so")
    if done.returncode:
        message = done.stderr.strip()
        problem = f"the C++ compiler `{done.args[0]}` could not compile the native backend's kernels"
        hint = "install another compiler (c++, g++ or clang++)"
        if is_disk_full(message):
            problem = "the disk is full, so the native backend's kernels cannot be compiled"
            hint = "free some space, or set ZOO_HOME (data folder) or TMPDIR (folder for the compiler's "
            hint += "temporary files) to a folder on another disk"
        problem, hint = f"{problem}; the compiler printed: {message[-500:]}", f"{hint}, or run with `--backend eager`"
        raise ZooError(problem, hint=hint, exit_code=1)


@cache
def _compiler_version() -> str:
    return subprocess.run([cpp_compiler() or "c++", "--version"], capture_output=True, text=True, check=False).stdout


def processor() -> str:
    """Return a string that identifies this processor and the instruction sets that `-march=native` selects."""
    names = ("flags", "Features", "model name", "CPU part")
    features = {key: value for key, value in cpuinfo().items() if key in names}
    text = str(features or platform.processor())
    return platform.machine() + hashlib.sha256(text.encode()).hexdigest()[:16]
