"""Files that tests of specs write."""

from pathlib import Path


def write(file: str, text: str) -> str:
    """Write a file below the current folder, which is the test's own, and return its path."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")
    return file
