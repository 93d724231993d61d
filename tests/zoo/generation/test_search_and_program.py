"""The search over programs as the compiler builds them."""

import random

import pytest
import torch

import compiler
import specs
from compiler.backends import BACKENDS
from specs import BOS, EOS, PAD
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.sampling import Sampling

SMALL = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4},
    "vocabulary": {"size": 60},
}


def rows(*tokens):
    width = max(map(len, tokens))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in tokens])


@pytest.fixture(scope="module", params=[("post", "eager"), ("pre", "eager"), ("post", "native")], ids="-".join)
def program(request, tmp_path_factory):
    norm, backend = request.param
    if problem := BACKENDS[backend].unavailable_reason():
        pytest.skip(problem)
    spec = specs.load("tiny", {**SMALL, "architecture": {**SMALL["architecture"], "norm": norm}})
    torch.manual_seed(0)
    return compiler.build(spec, compiler.TRANSLATE, backend=backend, folder=tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def sources():
    draw = random.Random(2)
    return [tuple(draw.choices(range(4, 60), k=draw.randrange(1, 9))) for _ in range(14)]


@pytest.mark.parametrize("chooser", [None, Sampling(3, 0.6, 1.3, 20, 0.95, 1)], ids=["beam", "sample"])
def test_the_log_probability_of_a_hypothesis_is_the_score_of_the_full_forward_pass(program, sources, search, chooser):
    """With prefixes, and with sentences that join others on their way."""
    draw = random.Random(3)
    prefixes = [draw.choices(range(4, 60), k=draw.choice([0, 0, 2])) for _ in sources]
    choice = {"beam": 4, "alpha": 0.6, "n_best": 4} if chooser is None else {"chooser": chooser}
    limits = [len(source) + 4 for source in sources]
    found = search(program, sources, limits, prefixes=prefixes, tokens=100, **choice)
    pairs = [(source, hypothesis) for source, several in zip(sources, found, strict=True) for hypothesis in several]
    targets = [[BOS, *hypothesis.tokens, EOS] for _, hypothesis in pairs]
    scores = program.score(rows(*[(*source, EOS) for source, _ in pairs]), rows(*targets)).sum(1).tolist()
    for (_, hypothesis), target, total in zip(pairs, targets, scores, strict=True):
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5 * len(target))


CHOOSERS = {
    "power": BeamSearch(4, 0.6, 4, None, "power"),
    "shrinking": BeamSearch(4, 0.6, 4, None, "power", "shrinking"),
    "full": BeamSearch(4, 0.6, 4, SuppressedTokens((), 60, least=6), "power", "full"),
    "suppressed_tokens": BeamSearch(4, 0.6, 4, SuppressedTokens((1, 5, *range(20, 30)), 60)),
    "all": BeamSearch(6, 0.6, 6, SuppressedTokens((1, 5, *range(20, 30)), 60), "power", "shrinking"),
    "greedy": BeamSearch(1, 0.0, 1, SuppressedTokens((1,), 60), "power", "shrinking"),
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_native_kernels_find_what_pytorch_finds(sources, search, tmp_path_factory, name):
    if problem := BACKENDS["native"].unavailable_reason():
        pytest.skip(problem)
    spec, folder = specs.load("tiny", SMALL), tmp_path_factory.getbasetemp()
    torch.manual_seed(0)
    eager = compiler.build(spec, compiler.TRANSLATE, backend="eager")
    native = compiler.build(spec, compiler.TRANSLATE, weights=eager.weights(), backend="native", folder=folder)
    limits = [3 * len(source) + 2 for source in sources]
    one, other = (search(program, sources, limits, CHOOSERS[name], tokens=100) for program in (eager, native))
    for several, same in zip(one, other, strict=True):
        assert [each.tokens for each in several] == [each.tokens for each in same]
        assert [each.score for each in several] == pytest.approx([each.score for each in same], abs=1e-4)


class Anything:
    """A constraint that bars nothing, by one mask for all rows."""

    def begun(self, sources, device):
        return self

    def allowed(self):
        return torch.ones(1, 60, dtype=torch.bool)

    def after(self, rows, tokens):
        return self

    def joined(self, other):
        return self


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_a_constraint_that_bars_nothing_changes_no_bit(program, sources, search, name):
    kinds = {
        "greedy": (BeamSearch, 1, 0.6),
        "beam": (BeamSearch, 4, 0.6, 4),
        "sample": (Sampling, 3, 0.6, 1.3, 20, 0.95, 1),
    }
    kind, *choice = kinds[name]
    limits = [len(source) + 4 for source in sources]
    bounded, free = (
        search(program, sources, limits, kind(*choice, **more), tokens=100) for more in ({"constraint": Anything()}, {})
    )
    assert bounded == free


def test_alone_in_a_batch_and_shuffled_are_the_same(program, sources, search):
    def best(chosen, **how):
        limits = [len(source) + 4 for source in chosen]
        return [hypotheses[0] for hypotheses in search(program, chosen, limits, beam=4, alpha=0.6, **how)]

    together = best(sources)
    order = random.Random(5).sample(range(len(sources)), len(sources))
    shuffled = dict(zip(order, best([sources[index] for index in order], tokens=70, windows=5), strict=True))
    batched = [shuffled]
    if program.concurrent:
        batched.append(best(sources, tokens=50, workers=2))
    for index, hypothesis in enumerate(together):
        for other in (best([sources[index]])[0], *(each[index] for each in batched)):
            assert other.tokens == hypothesis.tokens
            assert other.score == pytest.approx(hypothesis.score, abs=1e-5)
