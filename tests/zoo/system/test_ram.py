"""How much memory was used: by this process alone, and in bytes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TAKING = """
import json, pathlib, re, torch
from zoo.system import ram
cpu, status = torch.device("cpu"), pathlib.Path("/proc/self/status")
before = ram.most_used(cpu)
taken = torch.ones(100_000_000)
after = ram.most_used(cpu)
del taken
linux = re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text()) if status.exists() else None
print(json.dumps([before, after, ram.most_used(cpu), 1024 * int(linux[1]) if linux else after]))
"""


LARGE_PARENT = """
import subprocess, sys
held = b"1" * 800_000_000
code = "import torch; from zoo.system import ram; print(ram.most_used(torch.device('cpu')))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
"""


def test_what_a_parent_has_used_is_not_ours(request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-c", LARGE_PARENT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=request.config.rootpath, check=True)
    assert int(done.stdout) < 700e6


def test_the_most_that_was_used_grows_by_what_is_taken_and_stays(request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-c", TAKING]
    done = subprocess.run(command, capture_output=True, text=True, cwd=request.config.rootpath, check=True)
    before, after, later, linux = json.loads(done.stdout)
    assert after - before == pytest.approx(400e6, rel=0.2)
    assert (later, after) == pytest.approx((linux, linux), rel=0.02)
