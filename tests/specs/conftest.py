"""Fixtures of the tests of `specs`."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write() -> Callable[[str, str], str]:
    """Return a function that writes a file below the current folder, which is the test's own, and returns its path."""

    def write(file: str, text: str) -> str:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
        return file

    return write
