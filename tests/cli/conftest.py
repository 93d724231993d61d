"""A command line run in this process: `zoo("decode", "--spec", "tiny", stdin="...")`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from cli.app import run


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    def do(*arguments: str, stdin: str | bytes = b"") -> Done:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        capsys.readouterr()
        status = run(arguments)
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return do
