"""Comparison of two systems on the same sentences."""

from __future__ import annotations

import random
from unittest.mock import Mock

import pytest

from tests.refusals import refused
from zoo.evaluation import comparison
from zoo.evaluation.comparison import compare, compare_files, compare_models
from zoo.evaluation.metrics import get_metric
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.evaluation.text_metrics import TEXT_METRICS, text_metric

WORDS = ["der", "die", "das", "Hund", "Haus", "Katze", "sieht", "kennt", "alte", "kleine", "nicht", "heute"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(comparison, "SAMPLES", 200)


def spoiled(references, share, seed):
    """Each word another one, by this probability."""
    chance = random.Random(seed)
    lines = (text.split() for text in references)
    return [" ".join(chance.choice(WORDS) if chance.random() < share else word for word in line) for line in lines]


@pytest.fixture(scope="module")
def references():
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(6, 15))) for _ in range(200)]


def test_scores_equal_those_of_each_system_alone(references):
    systems = spoiled(references, 0.3, 1), spoiled(references, 0.2, 2)
    compared = {each.metric: each for each in compare(*systems, references, "de", TEXT_METRICS)}
    assert tuple(compared) == TEXT_METRICS
    for name, each in compared.items():
        metric = text_metric(name, "de")
        assert each.scores == pytest.approx([metric.score(outputs, references) for outputs in systems])
        assert "bs:200|seed:12345" in each.signature
    assert "moses-de" in compared["paper_bleu"].signature
    assert [each.metric for each in compare(*systems, references, None)] == ["bleu", "chrf", "ter"]


def test_a_much_better_system_is_found_by_every_metric(references):
    worse, better = spoiled(references, 0.4, 1), spoiled(references, 0.1, 2)
    assert [each.better for each in compare(worse, better, references, "de", TEXT_METRICS)] == ["B"] * 6
    assert [each.better for each in compare(better, worse, references, "de", TEXT_METRICS)] == ["A"] * 6
    assert all(each.p < 0.02 for each in compare(worse, better, references, None))


def test_chance_is_not_significant(references):
    alike = compare(spoiled(references, 0.3, 1), spoiled(references, 0.3, 2), references, "de")
    assert [each.better for each in alike] == [None] * 4
    assert all(each.confidence[0] > abs(each.difference) / 2 for each in alike)
    same = compare(references, references, references, None)
    assert {(each.difference, each.better) for each in same} == {(0.0, None)}


def test_different_numbers_of_lines_are_refused(references, tmp_path):
    names = [tmp_path / name for name in ("a", "b", "test.de")]
    for name, lines in zip(names, (references, references[1:], references), strict=True):
        name.write_text("\n".join(lines), "utf-8")
    refused("lines in `.*b` and in `.*test.de` differ: 199 and 200", compare_files, *names)
    transcripts = compare_files(names[0], names[0], names[2], transcripts=True)
    assert [each.metric for each in transcripts] == ["wer", "cer"]


@pytest.mark.parametrize("second", [("de", "en"), ("en", "en")])
def test_each_direction_is_resampled_and_scored_as_in_an_evaluation(parrot, monkeypatch, second):
    models = parrot("translation"), parrot("translation")
    models[0].vocabulary = models[1].vocabulary = None
    models[1].known = dict.fromkeys(models[1].known, "der Hund sieht ein Haus")
    texts = EvaluationSet(models[0].streams, [("en", "de"), second])
    monkeypatch.setattr(comparison, "open_model", Mock(side_effect=models))
    monkeypatch.setattr(comparison, "read_split", lambda *_: texts)
    for each in compare_models("a", "b", "test", report=None).comparisons:
        expected = [get_metric(each.metric).score(ModelOutputs(model, texts)) for model in models]
        assert each.scores == pytest.approx(expected)
        assert each.confidence == pytest.approx((0, 0)), "each sample has the same sentence of each direction"
