"""The Triton kernels equal their functions in PyTorch, in Triton's interpreter, and compile for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.paths import ROOT

PARTS = "norms products loss attention recurrence selection steps compile"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")]


@pytest.mark.parametrize("part", PARTS.split())
def test_kernels_compute_what_their_functions_in_pytorch_compute(part: str) -> None:
    """Each part runs in a process of its own, because Triton reads TRITON_INTERPRET when it defines a kernel."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": str(int(part != "compile"))}
    command = [sys.executable, "-W", "ignore", "-m", "tests.compiler.triton_kernels", part]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[-5:]) == (0, "done\n"), done.stdout[-1500:] + done.stderr[-3000:]
