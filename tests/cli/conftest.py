"""A translator with random weights, which tests compare with the commands."""

from __future__ import annotations

import pytest

import zoo
from tests.conftest import Trained
from zoo.generation.translator import Translator


@pytest.fixture
def translator(trained: Trained) -> Translator:
    """The model of the run `runs/tiny`."""
    return zoo.load(str(trained("runs/tiny").folder), device="cpu")
