"""The confidence in translations: the fit, its properties, and where it appears."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, astuple, replace
from itertools import product

import pytest

from zoo.files.atomic import write_json
from zoo.generation.confidence import UNCERTAIN, Calibration, calibration_error
from zoo.generation.translation import Translation, join_parts
from zoo.models.folder import ModelFolder

CALIBRATION = Calibration(3.0, 20.0, -3.0, 0.1)


def examples(count: int, seed: int = 3) -> tuple[list[tuple[str, str, float]], list[bool]]:
    """Return translations and whether each is good, by the probabilities of `CALIBRATION`."""
    generator, translations, good = random.Random(seed), [], []
    for _ in range(count):
        length = generator.randint(5, 80)
        target = max(0, round(length * math.exp(generator.gauss(0.1, 0.4))))
        translations.append(("x" * length, "y" * target, -generator.expovariate(10) * (target + 1)))
        good.append(generator.random() < CALIBRATION.confidence(*translations[-1]))
    return translations, good


def test_the_fit_finds_the_probabilities_and_the_maximum_of_the_likelihood():
    translations, good = examples(4000)
    found = Calibration.fit(translations, good)
    assert astuple(found) == pytest.approx(astuple(CALIBRATION), rel=0.25, abs=0.05)

    def likelihood(calibration):  # slow twin: the formula of one sentence after the other
        total = 0.0
        for (source, target, log_probability), is_good in zip(translations, good, strict=True):
            ratio = math.log((len(target) + 1) / (len(source) + 1)) - calibration.usual_ratio
            per_character = log_probability / (len(target) + 1)
            logit = calibration.log_probability * per_character + calibration.length * ratio * ratio
            probability = 1 / (1 + math.exp(-logit - calibration.intercept))
            assert calibration.confidence(source, target, log_probability) == pytest.approx(probability, abs=1e-4)
            total += math.log(probability if is_good else 1 - probability)
        return total

    best = likelihood(found)
    for field, factor in product(("intercept", "log_probability", "length"), (0.9, 1.1)):
        assert likelihood(replace(found, **{field: factor * getattr(found, field)})) < best
    held_out, truth = examples(4000, seed=4)
    assert calibration_error([found.confidence(*each) for each in held_out], truth) < 0.05


@pytest.mark.parametrize("good", [[True] * 200, [False] * 200, [index < 100 for index in range(200)]])
def test_the_confidence_rises_with_the_probability_whatever_the_dev_set(good):
    """Also if all translations are good or bad, or good translations have lower log-probabilities."""
    translations = [("x" * 20, "y" * (20 + index % 2), -200.0 + index) for index in range(200)]
    for order in (good, good[::-1]):
        found = Calibration.fit(translations, order)
        for source, target, _ in translations[:2]:
            confidences = [found.confidence(source, target, float(log)) for log in range(-99, 1)]
            assert 0 <= confidences[0] <= confidences[-1] <= 1
            assert confidences == sorted(confidences)
        assert found.length <= 0
    assert Calibration.fit(translations[:99], good[:99]) is None, "too few sentences"


def test_the_calibration_error_is_that_of_the_bins():
    translations, good = examples(500)
    confidences = [*(CALIBRATION.confidence(*each) for each in translations), 0.0, 1.0]
    good, bins = [*good, True, False], {}
    for confidence, is_good in zip(confidences, good, strict=True):
        bins.setdefault(min(int(confidence * 10), 9), []).append(confidence - is_good)
    expected = sum(abs(sum(each)) for each in bins.values()) / len(good)
    assert calibration_error(confidences, good) == pytest.approx(expected)
    assert calibration_error([1.0, 0.0], [True, False]) == 0


def test_a_missing_or_damaged_calibration_is_none(tmp_path):
    folder, valid = ModelFolder(tmp_path), asdict(CALIBRATION)
    assert Calibration.read(folder) is None
    for scores in (
        {"dev": {"bleu": 3.0}},
        {"dev": []},
        {"dev": {"confidence": {"intercept": 1.0}}},
        {"dev": {"confidence": {**valid, "length": "1"}}},
        {"dev": {"confidence": {**valid, "length": 1e99}}},
        {"test": {"confidence": valid}},
    ):
        write_json(folder.scores, scores)
        assert Calibration.read(folder) is None, scores
    folder.scores.write_text("{", encoding="utf-8")
    assert Calibration.read(folder) is None
    write_json(folder.scores, {"dev": {"confidence": valid}})
    assert Calibration.read(folder) == CALIBRATION


def test_a_text_has_the_lowest_confidence_of_its_sentences():
    sentences = [("Good.", "Gut.", -0.1), ("Bad.", "Schlecht.", -9.0)]
    parts = [Translation(text, 0.0, log).with_confidence(source, CALIBRATION) for source, text, log in sentences]
    joined = join_parts(["Good.", "Bad.", "$5"], [*parts, Translation("$5")], [" ", " "])
    assert joined.confidences == (CALIBRATION.confidence(*sentences[0]), CALIBRATION.confidence(*sentences[1]), None)
    assert joined.confidence == joined.confidences[1] < UNCERTAIN
    assert joined.uncertain == ("Bad.",)
    without = Translation("Schlecht.", 0.0, -9.0, (5, 6)).with_confidence("Bad.", None)
    assert (without.confidence, without.uncertain) == (None, ("Bad.",))


def test_the_confidence_does_not_depend_on_other_sentences(translator_of):
    translator = translator_of()
    translator.calibration = CALIBRATION
    texts = ["we read", "the old dog sees a small house. she knows", "the dog sleeps", ""]
    together = translator.hypotheses(texts, n_best=2)
    for text, hypotheses in zip(texts, together, strict=True):
        (alone,) = translator.hypotheses([text], n_best=2)
        for one, other in zip(alone, hypotheses, strict=True):
            assert one.confidence == (other.confidence and pytest.approx(other.confidence, abs=2e-3))
            if one.text and not one.parts:
                assert one.confidence == CALIBRATION.confidence(text, one.text, one.log_probability)
    assert [len(best.confidences) for best, *_ in together] == [0, 2, 0, 0]
    assert json.dumps(together[3][0].confidence) == "null"
