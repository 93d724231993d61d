"""Bootstrap resampling, against the scores of the resampled sentences and against sacreBLEU."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from zoo.evaluation.comparison import SAMPLES, interval_half_width, log_perplexity_by_sample, p_value, sample_counts
from zoo.evaluation.text_metrics import TEXT_METRICS, text_metric

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


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_sample_scores_equal_those_of_the_sentences(name: str) -> None:
    drawn = np.vstack([np.ones(4), sample_counts(4)[:5]])
    metric = text_metric(name, "de")
    scores = metric.scores(drawn @ metric.statistics(OUTPUTS, REFERENCES))
    for score, row in zip(scores, drawn, strict=True):
        times = [index for index, count in enumerate(row) for _ in range(int(count))]
        outputs, references = ([texts[index] for index in times] for texts in (OUTPUTS, REFERENCES))
        assert score == pytest.approx(metric.score(outputs, references))


def test_perplexity_is_per_token_of_the_sample() -> None:
    drawn = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    found = log_perplexity_by_sample(drawn, [-3.0, -8.0], [2, 4])
    assert found == pytest.approx([11 / 6, 3 / 2, 2.0])


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "wer", "cer"])
def test_samples_and_intervals_equal_sacrebleus(name: str) -> None:
    metric, references = text_metric(name), REFERENCES * 5
    others = [text.replace("sieht", "kennt").replace("heute", "oft") for text in OUTPUTS]
    systems = [("A", OUTPUTS * 5), ("B", others * 5)]
    significance = import_module("sacrebleu.significance")
    test = significance.PairedTest(systems, {name: metric.metric}, [references], "bs", SAMPLES)
    _, results = test()[1].values()
    for (_, outputs), expected in zip(systems, results, strict=True):
        assert metric.score(outputs, references) == pytest.approx(expected.score)
        drawn = metric.scores(sample_counts(len(outputs)) @ metric.statistics(outputs, references))
        assert drawn.mean() == pytest.approx(expected.mean, rel=1e-4)
        assert interval_half_width(drawn) == pytest.approx(expected.ci, rel=0.05)


def test_p_values_are_calibrated() -> None:
    """If two systems are equal, 5% of the p-values are below 0.05."""
    chance = np.random.default_rng(0)
    differences = chance.normal(size=4_000)
    found = [p_value(each, each + chance.normal(size=400)) for each in differences]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.012)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.03)
    assert p_value(0.0, np.zeros(100)) == 1.0
    assert p_value(9.0, chance.normal(9.0, size=999)) == pytest.approx(0.001)
