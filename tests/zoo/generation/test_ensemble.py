"""Several programs as one: against brute force over the mean of their probabilities."""

import itertools
import math

import pytest
import torch

import specs
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, ZooError
from tests.examples import examples
from tests.refusals import refused
from zoo.generation.constraints import BracketConstraint
from zoo.generation.ensemble import Ensemble
from zoo.generation.hypotheses import length_penalty
from zoo.generation.translator import Translator
from zoo.text.vocabulary import Vocabulary

SOURCES, LIMITS = [(4,), (5, 6, 4), (6, 6)], [3, 3, 2]


def mean(programs, source, prefix, token):
    return math.log(sum(math.exp(program.row(source, prefix)[token]) for program in programs) / len(programs))


def test_an_ensemble_obeys_constraints(toy, search, translator_of):
    trees = BracketConstraint((4, 5), (6, 7), (8,), 9)
    options = {"beam": 4, "alpha": 0.6, "n_best": 3, "max_batch_tokens": 40}
    options |= {"word_counts": [1, 3, 2], "constraint": trees}
    alone = search(toy(9, 1, 500), SOURCES, [6, 7, 4], **options)
    assert search(Ensemble([toy(9, 1, 500)]), SOURCES, [6, 7, 4], **options) == alone
    assert alone[0][0].tokens.count(8) == 1
    assert Translator.ensemble([translator_of(), translator_of(longest_source=9)]).longest_source == 9


def test_an_ensemble_of_two_equals_brute_force(toy, search):
    programs = [toy(5, 1, 200), toy(5, 2, 200)]
    found = search(Ensemble(programs), SOURCES, LIMITS, beam=8, alpha=0.6, n_best=4, max_batch_tokens=40)
    for source, limit, hypotheses in zip(SOURCES, LIMITS, found, strict=True):
        everything = []
        for length in range(limit + 1):
            for tokens in itertools.product((1, 4), repeat=length):
                whole = (*tokens, EOS)
                total = sum(mean(programs, (*source, EOS), whole[:i], token) for i, token in enumerate(whole))
                everything.append((total / length_penalty(length + 1, 0.6), tokens))
        best = sorted(everything, reverse=True)[:4]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in best]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in best], abs=1e-5)


def test_scores_are_of_the_mean_probability(toy):
    programs = [toy(6, 1), toy(6, 2)]
    target = torch.tensor([[BOS, 4, 5, EOS], [BOS, 4, EOS, 0]])
    found = Ensemble(programs).score(PaddedBatch.pad([[4, EOS], [5, EOS]]), target)
    wanted = [mean(programs, (4, EOS), (4, 5)[:i], token) for i, token in enumerate((4, 5, EOS))]
    assert found[0].tolist() == pytest.approx(wanted, abs=1e-6)
    assert found[1, 2] == 0


def test_an_ensemble_needs_one_vocabulary_and_one_device(tokens, home, toy):
    spec = specs.load("tiny")
    tokens.save(home.parent)
    mine, loaded = Translator(toy(), tokens, spec), Vocabulary.load(home.parent)
    assert Translator.ensemble([mine, Translator(toy(), loaded, spec)]).vocabulary is tokens
    section = specs.load("tiny", ["vocabulary.size=12"]).vocabulary
    other = Vocabulary.learn(lambda: examples([("abc abc", "abd dab")] * 5), section)
    refused("have different vocabularies", Translator.ensemble, [mine, Translator(toy(), other, spec)])
    with pytest.raises(ZooError, match="on different devices, cpu and cuda"):
        Translator.ensemble([mine, Translator(toy(), loaded, spec, device="cuda")])
    refused("at least one model", Translator.ensemble, [])
    assert Translator.ensemble([mine]) is mine


def test_the_smallest_number_of_positions_limits_the_ensemble(translator_of):
    fields = [f"architecture.positions={{kind: learned, rows: {rows}}}" for rows in (9, 6)]
    several = [translator_of(["corpus.max_length=5", field]) for field in fields]
    both = Translator.ensemble([*several, translator_of()])
    refused("needs 7 positions, but the model has 6", both.translate, "abcdef")
