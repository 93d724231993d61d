"""Models that Marian itself trained, and what it made of sentences: the same comes out here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from compiler import TRANSLATE
from zoo.generation.compilation import build_with_message
from zoo.generation.translator import Translator
from zoo.interop.formats import format_of
from zoo.interop.imported import Wanted
from zoo.report import Report

FOLDER = Path(os.environ.get("ZOO_MARIAN", "")).absolute()
SEARCHES = {"greedy": (1, 0.0), "beam4_sum": (4, 0.0), "beam6_norm0.6": (6, 0.6)}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "ZOO_MARIAN" not in os.environ, reason="ZOO_MARIAN names a folder of Marian's models and outputs, not ours"
    ),
]


@pytest.fixture(scope="module")
def outputs() -> list[dict[str, Any]]:
    """`marian_outputs.json` of the folder: of each source and model, each search's n best as text, sum and score."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "marian_outputs.json").read_text())
    return found


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("name", "key"), [("base.npz", "base"), ("student.npz", "student"), ("hf", "base")])
def test_the_best_is_marians(outputs: list[dict[str, Any]], name: str, key: str, backend: str) -> None:
    place = FOLDER / name
    imported = format_of(place).read(place, Wanted("mine"))
    program = build_with_message(imported.spec, TRANSLATE, imported.tensors, Report(), device="cpu", backend=backend)
    translator = Translator(program, imported.vocabulary, imported.spec)
    for search, (beam, alpha) in SEARCHES.items():
        found = translator.hypotheses([each["source"] for each in outputs], beam=beam, alpha=alpha, n_best=beam)
        for each, (best, *_) in zip(outputs, found, strict=True):
            (text, total, score), *_ = each[key][search]
            assert best.text == text
            assert best.log_probability == pytest.approx(total, abs=1e-3)
            assert best.score == pytest.approx(score, abs=1e-3)
