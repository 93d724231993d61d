"""Spoken digits: sounds of strings by voices of one split each, which are made once and prepared as a corpus."""

from __future__ import annotations

import sys
from itertools import pairwise
from statistics import fmean

import pytest

import specs
from tests.refusals import refused
from zoo.data.corpus import CorpusReader
from zoo.data.prepare import prepare
from zoo.features import spoken_digits
from zoo.features.audio import read_samples
from zoo.report import Report


def test_no_voice_is_in_two_splits() -> None:
    train, dev, test = map(set, spoken_digits.VOICES.values())
    assert len(train | dev | test) == len(train) + len(dev) + len(test)


def test_only_training_has_more_repeated_digits_than_chance() -> None:
    def share(split: str) -> float:
        strings = (spoken_digits._digits(split, spoken_digits.seeded_random(split, number)) for number in range(1_000))
        return fmean(one == other for digits in strings for one, other in pairwise(digits))

    assert share("train") > 0.17
    assert all(0.05 < share(split) < 0.15 for split in ("dev", "test"))


@pytest.mark.integration
def test_strings_are_spoken_once_and_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("espeakng_loader", reason="needs the `speech` extra")
    pytest.importorskip("soundfile", reason="needs the `speech` extra")
    parts = {f"corpus.{split}": [{"digits": count}] for split, count in (("train", 60), ("dev", 3), ("test", 2))}
    spec = specs.load("speech/digits", parts)
    prepared = prepare(spec, Report())
    assert len(prepared.store("train")) == 60
    streams = prepared.texts("dev")
    monkeypatch.setattr(sys, "executable", "/none")  # nothing is spoken again
    (first, *_) = CorpusReader(spec, Report()).readers_of("dev")[0].examples()
    assert first == {"source": streams["source"][0], "target": streams["target"][0]}
    for file, text in zip(streams["source"], streams["target"], strict=True):
        digits = text.split()
        assert 1 <= len(digits) <= 8
        assert set(digits) <= set("0123456789")
        assert 0.1 * len(digits) < len(read_samples(file)) / 16_000 < 2 + 1.5 * len(digits)


@pytest.mark.integration
def test_a_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/none")
    monkeypatch.setattr(spoken_digits, "__name__", "zoo.features.nothing")
    error = refused(r"could not be synthesised: .*No module named", list, spoken_digits.strings("dev", 1, Report()))
    assert "espeakng-loader" in error.hint
