"""Sets drawn anew: by sums of counts the scores are those that the sentences themselves would have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specs import ZooError
from zoo.evaluation.bleu import bleu
from zoo.evaluation.paper_bleu import paper_bleu
from zoo.evaluation.resampled import bleu_by, draws, log_perplexity_by, paper_bleu_by

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


def test_every_set_has_as_many_sentences_and_is_always_the_same() -> None:
    drawn = draws(7)
    assert (drawn.sum(axis=1) == 7).all()
    assert np.array_equal(drawn, draws(7))
    assert abs(drawn.mean() - 1) < 1e-12
    assert len(np.unique(drawn, axis=0)) > 100


def test_the_score_of_a_set_is_that_of_its_sentences() -> None:
    drawn = np.vstack([np.ones(4), draws(4)[:5]])
    by, paper_by = bleu_by(drawn, OUTPUTS, REFERENCES), paper_bleu_by(drawn, OUTPUTS, REFERENCES, "de")
    for number, row in enumerate(drawn):
        times = [index for index, count in enumerate(row) for _ in range(int(count))]
        outputs, references = ([texts[index] for index in times] for texts in (OUTPUTS, REFERENCES))
        assert by[number] == pytest.approx(bleu(outputs, references).score)
        assert paper_by[number] == pytest.approx(paper_bleu(outputs, references, "de").score)


def test_perplexity_is_over_the_pieces_of_the_set() -> None:
    drawn = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    found = log_perplexity_by(drawn, [-3.0, -8.0], [2, 4])
    assert found == pytest.approx([11 / 6, 3 / 2, 2.0])
    assert math.exp(found[1]) == pytest.approx(math.exp(6 / 4))


def test_what_is_not_alike_in_number_is_refused() -> None:
    with pytest.raises(ZooError, match="3 hypotheses and 4 references"):
        bleu_by(draws(4), OUTPUTS[:3], REFERENCES)
