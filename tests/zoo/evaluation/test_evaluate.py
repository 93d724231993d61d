"""Scores of a translator that knows two sentences by heart."""

import json
import math

import pytest

from specs import ZooError
from zoo.evaluation.bleu import bleu
from zoo.evaluation.evaluate import evaluate
from zoo.evaluation.perplexity import perplexity
from zoo.report import Report
from zoo.translation.translation import ForcedScore, Translation

SOURCES = ["the old dog sees a house", "a cat sleeps"]
REFERENCES = ["der alte Hund sieht ein Haus", "eine Katze schläft"]


class Parrot:
    def __init__(self, known):
        self.known, self.asked = known, []

    def hypotheses(self, texts, *, report, **choice):
        self.asked.append(choice)
        return [[Translation(self.known[text], -0.5, -1.0, (4,))] for text in texts]

    def forced(self, sources, targets, *, tokens, report):
        return [ForcedScore((math.log(0.5),) * (len(target.split()) + 1)) for target in targets]


def test_scores_are_those_of_the_translations_and_the_references():
    known = dict(zip(SOURCES, ["der alte Hund sieht ein kleines Haus", "eine Katze schläft"], strict=True))
    translator = Parrot(known)
    scores = evaluate(translator, SOURCES, REFERENCES, Report(), beam=2, tokens=100)
    expected = bleu(list(known.values()), REFERENCES)
    assert (scores.bleu, scores.signature) == (expected.score, expected.signature)
    assert scores.perplexity == pytest.approx(2.0)
    assert scores.sentences == 2
    assert scores.sentences_per_second == pytest.approx(2 / scores.seconds)
    assert translator.asked == [{"beam": 2, "tokens": 100}]
    assert json.loads(json.dumps(scores.as_dict()))["bleu"] == scores.bleu


def test_sources_and_references_belong_together():
    with pytest.raises(ZooError, match="2 sources and 1 references"):
        evaluate(Parrot({}), SOURCES, REFERENCES[:1], Report())
    with pytest.raises(ZooError, match="nothing to evaluate"):
        evaluate(Parrot({}), [], [], Report())


def test_perplexity_is_per_piece_over_all_sentences_together():
    scores = [ForcedScore((-1.0, -2.0, -3.0)), ForcedScore((-4.0,))]
    assert perplexity(scores) == pytest.approx(math.exp(10 / 4))  # not the mean of the sentences' own
    assert perplexity([ForcedScore((0.0,))]) == 1.0


def test_perplexity_of_the_impossible_and_of_nothing():
    assert perplexity([ForcedScore((-math.inf,))]) == math.inf
    assert perplexity([ForcedScore((-5000.0,))]) == math.inf
    with pytest.raises(ZooError, match="nothing to score"):
        perplexity([])
