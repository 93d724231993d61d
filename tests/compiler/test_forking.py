"""A child of a process that has computed computes, too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compiler.backends import BACKENDS

SCRIPT = """
import os, sys, torch
import specs
from compiler import build

torch.set_num_threads(3)
small = {"architecture": {"N": 1}, "vocabulary": {"size": 2000}}
program = build(specs.load("tiny", small), backend=sys.argv[1])
source, target = torch.randint(4, 99, (64, 30)), torch.randint(4, 99, (64, 31))
before = program.score(source, target)
child = os.fork()
if not child:
    after = program.score(source, target)
    os._exit(0 if torch.allclose(before, after, atol=1e-4) else 3)
print(os.waitpid(child, 0)[1], torch.get_num_threads())
"""


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_fork_after_a_score_scores_the_same(backend: str) -> None:
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, backend], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.split() == ["0", "3"], done.stderr
