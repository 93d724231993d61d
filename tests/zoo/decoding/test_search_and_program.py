"""The search over a program as the compiler builds it."""

import random

import pytest
import torch

import compiler
import specs
from specs import BOS, EOS, PAD
from zoo.decoding.beam_search import search

SMALL = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4},
    "vocabulary": {"size": 60},
}


def rows(*pieces):
    width = max(map(len, pieces))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in pieces])


@pytest.fixture(scope="module", params=["post", "pre"])
def program(request):
    spec = specs.load("tiny", {**SMALL, "architecture": {**SMALL["architecture"], "norm": request.param}})
    return compiler.build(spec)


@pytest.fixture(scope="module")
def sources():
    draw = random.Random(2)
    return [[*draw.choices(range(4, 60), k=draw.randrange(1, 9)), EOS] for _ in range(10)]


def test_the_log_probability_of_a_hypothesis_is_the_score_of_the_full_forward_pass(program, sources):
    found = search(program, rows(*sources), [len(source) + 4 for source in sources], beam=4, alpha=0.6, n_best=4)
    pairs = [(source, hypothesis) for source, several in zip(sources, found, strict=True) for hypothesis in several]
    targets = [[BOS, *hypothesis.pieces, EOS] for _, hypothesis in pairs]
    scores = program.score(rows(*[source for source, _ in pairs]), rows(*targets)).sum(1).tolist()
    for (_, hypothesis), target, total in zip(pairs, targets, scores, strict=True):
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5 * len(target))


def test_alone_in_a_batch_and_shuffled_are_the_same(program, sources):
    def best(chosen):
        found = search(program, rows(*chosen), [len(source) + 4 for source in chosen], beam=4, alpha=0.6)
        return [hypotheses[0] for hypotheses in found]

    together = best(sources)
    order = random.Random(5).sample(range(len(sources)), len(sources))
    shuffled = dict(zip(order, best([sources[index] for index in order]), strict=True))
    for index, hypothesis in enumerate(together):
        for other in (best([sources[index]])[0], shuffled[index]):
            assert other.pieces == hypothesis.pieces
            assert other.score == pytest.approx(hypothesis.score, abs=1e-5)
