"""Files that tests of specs write, and errors about them."""

from pathlib import Path

from specs import ZooError
from specs.loader import Overrides, load
from tests.refusals import refused


def write(file: str, text: str) -> str:
    """Write a file below the current folder, which is the test's own, and return its path."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")
    return file


def refusal(reference: str, overrides: Overrides = ()) -> ZooError:
    """Load a spec that must be refused, and return the error."""
    return refused(None, load, reference, overrides)
