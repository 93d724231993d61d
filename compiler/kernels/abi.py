"""The border between Python and the kernels: one description, from which both sides are made."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Any

from compiler.instruction import MAX_INT8_ROWS, Code, Curve, Instruction, Status
from specs import BOS, EOS, PAD

_C: Mapping[str, tuple[str, type[ctypes._SimpleCData[Any]]]] = {
    "int": ("int32_t", ctypes.c_int32),
    "float": ("float", ctypes.c_float),
    "pointer": ("const void*", ctypes.c_void_p),
}
_KINDS = {"Code": "int", "Curve": "int", "int": "int", "bool": "int", "float": "float"}
_KINDS |= {"str | None": "pointer", "tuple[str, ...]": "pointer"}


def layout() -> Iterator[tuple[str, str]]:
    """Each field of the kernels' record, and its kind: int, float or pointer."""
    for field in fields(Instruction):
        if field.type == "Place":
            yield from ((field.name, "int"), (f"{field.name}_at", "int"))
        else:
            yield field.name, _KINDS[str(field.type)]


class Record(ctypes.Structure):
    """An instruction as the kernels read it."""

    _fields_ = tuple((name, _C[kind][1]) for name, kind in layout())


SIGNATURES: Mapping[str, tuple[str, str]] = {
    "zoo_matrix": (
        "int",
        "const float* values, int64_t in, int64_t out, int64_t in_stride, int64_t out_stride, const float* bias, "
        "void** result",
    ),
    "zoo_matrix_int8": (
        "int",
        "const int8_t* values, const float* scales, int64_t in, int64_t out, int64_t in_stride, int64_t out_stride, "
        "const float* bias, void** result",
    ),
    "zoo_matrix_free": ("void", "void* matrix"),
    "zoo_open": (
        "int",
        "const Instruction* encode, int64_t n, const Instruction* step, int64_t m, const int32_t* buffer_widths, "
        "int64_t buffers, const int32_t* memory_widths, int64_t memories, const int32_t* cache_widths, int64_t caches, "
        "void** result",
    ),
    "zoo_close": ("void", "void* program"),
    "zoo_encode": (
        "int",
        "void* program, const int64_t* tokens, const int32_t* lengths, int64_t sentences, void** result",
    ),
    "zoo_step": (
        "int",
        "void* program, void* state, const int64_t* tokens, int64_t count, float* values, int64_t* pieces, "
        "float* ends, float* log_probabilities, const uint8_t* allowed, int64_t allowed_stride",
    ),
    "zoo_select": ("int", "void* state, const int64_t* sentences, int64_t kept, const int64_t* parents, int64_t beams"),
    "zoo_join": ("int", "void* first, void* second"),
    "zoo_free_state": ("void", "void* state"),
}
"""What the kernels' functions give back (an int is a Status) and take, in the words of C."""


def header() -> str:
    """`abi.hpp`, with which the kernels are compiled."""
    record = "".join(f"    {_C[kind][0]} {name};\n" for name, kind in layout())
    functions = "".join(f"{result} {name}({given});\n" for name, (result, given) in SIGNATURES.items())
    return f"""// Written by compiler/kernels/abi.py.
#pragma once

#include <cstdint>

{_enum("Code", Code)}
{_enum("Curve", Curve)}
{_enum("Status", Status)}
constexpr int32_t CODES = {len(Code)};
constexpr int64_t PAD = {PAD}, BOS = {BOS}, EOS = {EOS}, MAX_INT8_ROWS = {MAX_INT8_ROWS};

extern "C" {{
struct Instruction {{
{record}}};
{functions}}}
"""


def _enum(name: str, members: type[IntEnum]) -> str:
    return f"enum {name} : int32_t {{ {', '.join(f'{each.name} = {each.value}' for each in members)} }};"


def declared(library: Any) -> Any:
    """The library of the kernels, its functions given their types."""
    for name, (result, given) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype = ctypes.c_int if result == "int" else None
        function.argtypes = [ctypes.c_void_p if "*" in each else ctypes.c_int64 for each in given.split(", ")]
    return library
