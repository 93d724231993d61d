"""A translator over a toy program and a vocabulary of letters, and tests of backends that may be missing."""

import pytest

from compiler.backends import BACKENDS


def require_backend(name):
    """Skip the test if the backend is not available."""
    if problem := BACKENDS[name].unavailable_reason():
        pytest.skip(problem)


@pytest.fixture
def translator(translator_of):
    return translator_of()
