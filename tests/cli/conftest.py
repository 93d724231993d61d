"""Fixture that runs a command line in this process: `zoo("decode", "--spec", "tiny", stdin="...")`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from cli.app import run


@dataclass(frozen=True)
class Result:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run_command(*arguments: str, stdin: str | bytes = b"") -> Result:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        capsys.readouterr()
        status = run(arguments)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run_command
