"""What the process keeps: told to the C library and to oneDNN before they compute, in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

BUILD = """
import os, specs
from compiler import Purpose, build
from compiler.allocator import keep_memory
build(specs.load("tiny", ["architecture.N=1"]), [Purpose.{purpose}], device="cpu")
print(keep_memory.cache_info().currsize, os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY"))
"""
FREED = """
import resource, torch
from compiler.allocator import keep_memory
assert keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    torch.ones(2**26)
before = faults()
torch.ones(2**26)
print(faults() - before)
"""


def _said(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("ONEDNN")}, **environment},
    )
    return done.stdout.split()


def test_a_program_that_trains_keeps_memory_and_forgets_products() -> None:
    assert _said(BUILD.format(purpose="TRAIN")) == ["1", "64"]
    assert _said(BUILD.format(purpose="TRAIN"), ONEDNN_PRIMITIVE_CACHE_CAPACITY="7") == ["1", "7"]
    assert _said(BUILD.format(purpose="SCORE")) == ["0", "None"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other ways")
def test_memory_that_was_freed_is_there_again_without_a_page_fault() -> None:
    """256 MiB are 65,536 pages of 4 KiB."""
    assert int(_said(FREED)[0]) < 1000
