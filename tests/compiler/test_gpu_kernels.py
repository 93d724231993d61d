"""Inductor's kernels for a GPU compile for two kinds of GPU, and compute the right numbers in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compiler.host import cpp_compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler is installed"),
]
ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, interpret: bool) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Compile the programs of an architecture. Return the differences from other backends, and the kernels."""
    caches = {name: str(folder / name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    environment = {**os.environ, **caches, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": str(int(interpret))}
    command = [sys.executable, "-m", "tests.compiler.gpu_kernels", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    return result["differences"], result["kernels"]


@pytest.mark.parametrize(
    ("architecture", "purpose", "capability", "precision"),
    [
        ("pre", "translate", "80", "float32"),
        ("pre", "translate", "90", "bfloat16"),
        ("pre", "train", "90", "float32"),
        ("modern", "translate", "80", "bfloat16"),
        ("student", "translate", "90", "bfloat16"),
        ("mixture", "train", "80", "float32"),
    ],
)
def test_kernels_are_compiled_to_machine_code(
    tmp_path: Path, architecture: str, purpose: str, capability: str, precision: str
) -> None:
    _, kernels = run(tmp_path, architecture, purpose, capability, precision, interpret=False)
    assert kernels
    for kernel in kernels:
        assert re.search(rf"^\.target sm_{capability}a?$", kernel["ptx"], re.MULTILINE)
        assert f".visible .entry {kernel['name']}(" in kernel["ptx"]
        assert kernel["code_bytes"]


@pytest.mark.parametrize(
    ("architecture", "purpose"),
    [("pre", "translate"), ("pre", "train"), ("modern", "translate"), ("modern", "train"), ("mixture", "translate")],
)
def test_interpreted_kernels_compute_what_other_backends_compute(
    tmp_path: Path, architecture: str, purpose: str
) -> None:
    """Each kernel runs at least once."""
    differences, kernels = run(tmp_path, architecture, purpose, "80", "float32", interpret=True)
    assert set(differences) == ({"gradients"} if purpose == "train" else {"score", "steps"})
    assert max(differences.values()) < 1e-4
    assert min(kernel["runs"] for kernel in kernels) > 0
