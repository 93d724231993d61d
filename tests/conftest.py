"""Tiny worlds that the tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import specs
from specs import Spec

SMALL = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1},
    "vocabulary": {"size": 101},
    "compilation": {"vocabulary_multiple": 8, "backend": "eager"},
}
"""Sizes that differ from one another, so that no two can be mixed up unseen."""


@pytest.fixture
def small() -> Callable[..., Spec]:
    """`tiny` made much smaller; keyword arguments are fields of its architecture."""

    def make(**architecture: object) -> Spec:
        overrides = {**SMALL, "architecture": {**SMALL["architecture"], **architecture}}
        return specs.load("tiny", overrides)

    return make


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a home and a current folder of its own, no network, and two threads."""
    folder = tmp_path / "home"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("ZOO_HOME", str(folder))
    monkeypatch.chdir(work)
    monkeypatch.delenv("ZOO_MIRROR", raising=False)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    torch.set_num_threads(2)
    torch.manual_seed(0)
    return folder
