"""A translator over a toy program and a vocabulary of letters."""

import pytest


@pytest.fixture
def translator(translator_of):
    return translator_of()
