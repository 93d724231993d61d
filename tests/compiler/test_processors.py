"""The kernels' products on processors with other instruction sets than this one. ARM's run in an emulator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from compiler.host import cpp_compiler, cpuinfo
from compiler.kernels.library import FLAGS, KERNELS, header

pytestmark = pytest.mark.integration
ARM = {
    "NEON": "-march=armv8-a",
    "NEON with dot products of int8": "-march=armv8.2-a+dotprod",
    "NEON with products of int8 matrices and of bfloat16": "-march=armv8.6-a",
}
BFLOAT16 = "-march=x86-64-v4 -mavx512vnni -mavx512bf16"
X86 = {
    "AVX2 with dot products of int8": ("-march=x86-64-v3 -mavxvnni", {"avx_vnni"}),
    "AVX-512": ("-march=x86-64-v4", {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"}),
    "AVX-512 with dot products of int8": ("-march=x86-64-v4 -mavx512vnni", {"avx512_vnni", "avx512dq"}),
    "AMX": (f"{BFLOAT16} -mamx-tile -mamx-int8 -mamx-bf16", {"avx512_bf16", "amx_int8", "amx_bf16"}),
    "AVX-512 with bfloat16": (BFLOAT16, {"avx512_vnni", "avx512_bf16"}),
}
"""Flags of the compiler, and the names of the instruction sets in /proc/cpuinfo."""


@pytest.mark.parametrize("name", ARM)
def test_products_on_arm(tmp_path: Path, name: str) -> None:
    compiler, emulator = "aarch64-linux-gnu-g++", "qemu-aarch64"
    if missing := [program for program in (compiler, emulator) if shutil.which(program) is None]:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian's g++-aarch64-linux-gnu and qemu-user)")
    check_products(tmp_path, compiler, f"{ARM[name]} -static", [emulator, "-cpu", "max"])


@pytest.mark.parametrize("name", X86)
def test_products_on_x86(tmp_path: Path, name: str) -> None:
    (flags, needed), compiler = X86[name], cpp_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    if missing := needed - set(cpuinfo().get("flags", "").split()):
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")
    check_products(tmp_path, compiler, flags, [])


def check_products(folder: Path, compiler: str, flags: str, emulator: Sequence[str]) -> None:
    """Compile `products.cpp`, and run it."""
    (folder / "abi.hpp").write_text(header(), encoding="utf-8")
    source, program = Path(__file__).parent / "products.cpp", folder / "products"
    general = [flag for flag in FLAGS if not flag.startswith(("-march", "-shared", "-O"))]
    includes = ["-I", str(folder), "-I", str(KERNELS), str(source), "-o", str(program)]
    command = [compiler, *general, *flags.split(), "-O1", "-Wall", "-Werror", *includes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "checked\n"), done.stdout + done.stderr
