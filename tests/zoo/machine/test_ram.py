"""How much memory was used: by this process alone, and in bytes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TAKING = """
import json, pathlib, re, torch
from zoo.machine import ram
cpu, status = torch.device("cpu"), pathlib.Path("/proc/self/status")
before = ram.most_used(cpu)
taken = torch.ones(100_000_000)
after = ram.most_used(cpu)
del taken
linux = re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text()) if status.exists() else None
print(json.dumps([before, after, ram.most_used(cpu), 1024 * int(linux[1]) if linux else after]))
"""


def test_the_most_that_was_used_grows_by_what_is_taken_and_stays(request: pytest.FixtureRequest) -> None:
    """In a process that a shell has begun: one that we begin ourselves would, on Linux, inherit our own peak."""
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, TAKING],
        capture_output=True,
        text=True,
        cwd=request.config.rootpath,
        check=True,
    )
    before, after, later, linux = json.loads(done.stdout)
    assert after - before == pytest.approx(400e6, rel=0.2)
    assert later == after == pytest.approx(linux, rel=0.02)
