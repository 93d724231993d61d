"""Strings of handwritten digits: their texts, and digits that no other split has."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from specs import parts
from specs.corpus import SPLITS
from tests.refusals import refused
from zoo.features.image import Image
from zoo.report import Report

pytest.importorskip("PIL")
pytest.importorskip("sklearn")

from zoo.features import written_digits


def test_no_digit_is_in_two_splits_and_all_classes_are_in_each() -> None:
    splits = {split: written_digits.digits_of(split).tolist() for split in SPLITS}
    assert sorted(index for chosen in splits.values() for index in chosen) == list(range(1797))
    _, classes = written_digits._data()
    assert all({*classes[chosen].tolist()} == {*range(10)} for chosen in splits.values())


def test_strings_do_not_depend_on_their_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    many, few = (list(written_digits.strings("test", count, Report())) for count in (12, 5))
    assert [text for _, text in few] == [text for _, text in many[:5]]
    assert {len(text) for _, text in many} <= {*range(1, 9)}
    modality = Image(parts.Image(kind="image"))
    for (path, text), (other, _) in zip(few, many, strict=False):
        frames = modality.encode(path)
        assert 18 * len(text) < len(frames) < 34 * len(text) + 14
        np.testing.assert_array_equal(frames, modality.encode(other))
    assert next(written_digits.strings("train", 1, Report()))[1] != few[0][1]


@pytest.mark.parametrize("module", ["PIL", "sklearn.datasets"])
def test_missing_packages_are_reported(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    written_digits._data.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    error = refused("need the packages pillow and scikit-learn", next, written_digits.strings("dev", 1, Report()))
    assert "pip install" in error.hint
