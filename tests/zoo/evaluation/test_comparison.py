"""Comparison of systems and bootstrap resampling, against sacreBLEU's own."""

from __future__ import annotations

import math
import random
from dataclasses import asdict
from importlib import import_module

import numpy as np
import pytest

from specs import ZooError
from zoo.evaluation import bootstrap
from zoo.evaluation.bootstrap import (
    SAMPLES,
    bleu_by_sample,
    difference_half_width,
    interval_half_width,
    log_perplexity_by_sample,
    p_value,
    paper_bleu_by_sample,
    sample_counts,
    scores_from_statistics,
    sentence_statistics,
)
from zoo.evaluation.comparison import compare, compare_files
from zoo.evaluation.text_metrics import bleu, paper_bleu, sacrebleu_metric

WORDS = ["der", "die", "das", "Hund", "Haus", "Katze", "sieht", "kennt", "alte", "kleine", "nicht", "heute"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(bootstrap, "SAMPLES", 200)


def spoiled(references, share, seed):
    """Each word another one, by this probability."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in text.split())
        for text in references
    ]


@pytest.fixture(scope="module")
def references():
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(6, 15))) for _ in range(200)]


def test_scores_equal_those_of_each_system_alone(references):
    first, second = spoiled(references, 0.3, 1), spoiled(references, 0.2, 2)
    found = {each.metric: each for each in compare(first, second, references, "de")}
    assert list(found) == ["bleu", "paper_bleu", "chrf", "ter"]
    assert found["bleu"].scores == pytest.approx([bleu(each, references).score for each in (first, second)])
    assert found["paper_bleu"].scores == pytest.approx(
        [paper_bleu(each, references, "de").score for each in (first, second)]
    )
    assert "moses-de" in found["paper_bleu"].signature
    assert all("bs:200|seed:12345" in each.signature for each in found.values())
    assert [each.metric for each in compare(first, second, references, None)] == ["bleu", "chrf", "ter"]


def test_a_much_better_system_is_found_by_every_metric(references):
    worse, better = spoiled(references, 0.4, 1), spoiled(references, 0.1, 2)
    assert [each.better for each in compare(worse, better, references, "de")] == ["B"] * 4
    assert [each.better for each in compare(better, worse, references, "de")] == ["A"] * 4
    assert all(each.p < 0.02 for each in compare(worse, better, references, None))


def test_chance_is_not_significant(references):
    alike = compare(spoiled(references, 0.3, 1), spoiled(references, 0.3, 2), references, "de")
    assert [each.better for each in alike] == [None] * 4
    assert all(each.confidence[0] > abs(each.difference) / 2 for each in alike)
    same = compare(references, references, references, None)
    assert {(each.difference, each.better) for each in same} == {(0.0, None)}


def test_results_are_reproducible(references):
    pair = spoiled(references, 0.3, 1), spoiled(references, 0.2, 2)
    assert list(map(asdict, compare(*pair, references, "de"))) == list(map(asdict, compare(*pair, references, "de")))


def test_different_numbers_of_lines_are_refused(references, tmp_path):
    with pytest.raises(ZooError, match="199 hypotheses and 200 references"):
        compare(references, references[1:], references, None)
    names = [tmp_path / name for name in ("a", "b", "test.de")]
    for name, lines in zip(names, (references, references[1:], references), strict=True):
        name.write_text("\n".join(lines), "utf-8")
    with pytest.raises(ZooError, match=r"b` has 199 lines and .*test.de` has 200"):
        compare_files(*names)
    assert len(compare_files(names[0], names[0], names[2])) == 4


REFERENCES = [
    "der alte Hund sieht ein kleines Haus.",
    "heute lesen wir zwei Bücher",
    "„sie kennt den E-Mail-Dienst nicht“",
    "siehst du die Katze?",
]
OUTPUTS = [
    "der alte Hund sieht ein Haus.",
    "wir lesen heute zwei Bücher",
    "sie kennt den E-Mail-Dienst nicht",
    "siehst du die Katze?",
]


def test_samples_are_reproducible_and_of_the_right_size() -> None:
    drawn = sample_counts(7)
    assert (drawn.sum(axis=1) == 7).all()
    assert np.array_equal(drawn, sample_counts(7))
    assert abs(drawn.mean() - 1) < 1e-12
    assert len(np.unique(drawn, axis=0)) > 100


def test_sample_scores_equal_those_of_the_sentences() -> None:
    drawn = np.vstack([np.ones(4), sample_counts(4)[:5]])
    by, paper_by = bleu_by_sample(drawn, OUTPUTS, REFERENCES), paper_bleu_by_sample(drawn, OUTPUTS, REFERENCES, "de")
    for number, row in enumerate(drawn):
        times = [index for index, count in enumerate(row) for _ in range(int(count))]
        outputs, references = ([texts[index] for index in times] for texts in (OUTPUTS, REFERENCES))
        assert by[number] == pytest.approx(bleu(outputs, references).score)
        assert paper_by[number] == pytest.approx(paper_bleu(outputs, references, "de").score)


def test_perplexity_is_per_token_of_the_sample() -> None:
    drawn = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    found = log_perplexity_by_sample(drawn, [-3.0, -8.0], [2, 4])
    assert found == pytest.approx([11 / 6, 3 / 2, 2.0])
    assert math.exp(found[1]) == pytest.approx(math.exp(6 / 4))


def test_different_numbers_of_texts_are_refused_by_the_bootstrap() -> None:
    with pytest.raises(ZooError, match="3 hypotheses and 4 references"):
        bleu_by_sample(sample_counts(4), OUTPUTS[:3], REFERENCES)


@pytest.mark.parametrize("kind", ["BLEU", "CHRF", "TER"])
def test_samples_and_intervals_equal_sacrebleus(kind: str) -> None:
    of = sacrebleu_metric(kind)
    others = [text.replace("sieht", "kennt").replace("heute", "oft") for text in OUTPUTS]
    named = [("A", OUTPUTS * 5), ("B", others * 5)]
    test = import_module("sacrebleu.significance").PairedTest(named, {kind: of}, [REFERENCES * 5], "bs", SAMPLES)
    _, results = test()[1].values()
    for (_, outputs), theirs in zip(named, results, strict=True):
        sums = sentence_statistics(of, outputs, REFERENCES * 5)
        assert scores_from_statistics(of, sums.sum(0, keepdims=True)) == pytest.approx([theirs.score])
        drawn = scores_from_statistics(of, sample_counts(len(outputs)) @ sums)
        assert drawn.mean() == pytest.approx(theirs.mean, rel=1e-4)
        assert interval_half_width(drawn) == pytest.approx(theirs.ci, rel=0.05)


def test_p_values_are_calibrated() -> None:
    """Of two that are alike, differences scatter about 0 as those of the sets scatter about them."""
    chance = np.random.default_rng(0)
    differences = chance.normal(size=4_000)
    found = [p_value(each, each + chance.normal(size=400)) for each in differences]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.012)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.03)
    assert p_value(0.0, np.zeros(100)) == 1.0
    assert p_value(9.0, chance.normal(9.0, size=999)) == pytest.approx(0.001)


def test_the_interval_of_a_difference_follows_its_deviation() -> None:
    chance = np.random.default_rng(0)
    first = chance.normal(30.0, 5.0, SAMPLES)
    second = first + chance.normal(1.0, 0.5, SAMPLES)
    assert difference_half_width("bleu", 31.0, first, second) == pytest.approx(1.96 * 0.5, rel=0.1)
    assert difference_half_width("bleu", 31.0, first, second) == difference_half_width("bleu", 30.0, second, first), (
        "it is paired"
    )
    logs = first / 100, second / 100
    assert difference_half_width("perplexity", 7.0, *logs) == pytest.approx(7.0 * 1.96 * 0.005, rel=0.1), (
        "in perplexity, not log"
    )
    assert difference_half_width("chrf", 31.0, None, second) is None
