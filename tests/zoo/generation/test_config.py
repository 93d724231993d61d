"""Generation options: defaults from the spec, options of a caller, and values that are refused."""

import numpy as np
import pytest

import specs
from tests.refusals import refused
from zoo.generation.beam_search import BeamSearch
from zoo.generation.config import DEFAULT_MAX_BATCH_TOKENS, GenerationConfig
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.sampling import Sampling


def strategy(spec, n_best=None, constraint=None, **options):
    return GenerationConfig.from_spec(spec, options, n_best).strategy(constraint)


def test_the_spec_completes_the_options():
    fields = ["decoding.beam=3", "decoding.alpha=0.8", "training.seed=9", "decoding.workers=2"]
    spec, sampled = specs.load("tiny", fields), specs.load("tiny", [*fields, "decoding.search=sample"])
    config = GenerationConfig.from_spec(spec, {"beam": None, "max_batch_tokens": None})
    assert (config.max_batch_tokens, config.workers, config.n_best) == (DEFAULT_MAX_BATCH_TOKENS, 2, 1)
    assert config.strategy() == BeamSearch(3, 0.8, 1)
    assert strategy(spec, np.int64(4), beam=np.int32(5), alpha=0, workers="auto") == BeamSearch(5, 0, 4)
    assert strategy(sampled, 50, top_p=0.5, top_k=7) == Sampling(50, 0.8, 1.0, 7, 0.5, 9), "more than the beam"
    assert strategy(spec, search="sample", seed=3, temperature=2) == Sampling(1, 0.8, 2, 0, 1.0, 3)
    assert strategy(sampled, search="beam") == BeamSearch(3, 0.8, 1)


INVALID = [
    *(({"beam": value}, f"`beam` is `{value}`") for value in (0, 2.0, 2**62)),
    ({"beam": True}, "`beam` is `true`"),
    ({"beam": 10**5000}, "`beam` is `0x"),
    ({"beam": 2, "n_best": 3}, "`n_best` is 3, but a beam of 2 finds at most 2 hypotheses"),
    *(({"n_best": value}, f"`n_best` is `{value}`") for value in (0, 10**10)),
    *(({"alpha": value}, f"`alpha` is `{value}`") for value in (-0.1, 1e6, "much")),
    ({"alpha": float("nan")}, "`alpha` is "),
    ({"alpha": 10**400}, "`alpha` is `1000"),
    ({"search": "dfs"}, "`search` is `dfs`; it should be 'beam' or 'sample'"),
    *(({"max_batch_tokens": value}, f"`max_batch_tokens` is `{value}`") for value in (0, 1.5)),
    ({"max_batch_tokens": 10**300}, "`max_batch_tokens` is `1000"),
    *(({"workers": value}, f"`workers` is `{value}`") for value in (0, 100_000, "all")),
    *(({"search": "sample", "temperature": value}, "`temperature` is ") for value in (0, float("inf"), 1e300)),
    *(({"search": "sample", "top_k": value}, f"`top_k` is `{value}`") for value in (-1, 2.5, 2**62)),
    *(({"search": "sample", "top_p": value}, f"`top_p` is `{value}`") for value in (0.0, 1.1)),
    *(({"search": "sample", "seed": value}, f"`seed` is `{value}`") for value in (-1, 2**64)),
    ({"search": "sample", "beam": 4}, "`beam` has no effect when `search` is `sample`"),
    *(({name: 1}, f"`{name}` has no effect when `search` is `beam`") for name in ("temperature", "top_k", "top_p")),
    ({"seed": 5}, "`seed` has no effect when `search` is `beam`"),
]


@pytest.mark.parametrize(("options", "message"), INVALID)
def test_invalid_values_are_named(options, message):
    spec, n_best = specs.load("tiny", ["decoding.beam=4"]), options.get("n_best")
    error = refused(None, strategy, spec, n_best, **{key: value for key, value in options.items() if key != "n_best"})
    assert str(error).startswith(message)
    assert len(str(error)) < 300


def test_model_properties_come_from_the_spec():
    traits = ["decoding.length_penalty=power", "decoding.stopping_rule=full", "decoding.suppressed_tokens=[1, 6]"]
    spec = specs.load("tiny", ["decoding.beam=3", "decoding.alpha=0.8", "decoding.min_length=2", *traits])
    trees = BracketConstraint([4], [5], [6], 7)
    for inner in (None, trees):
        suppressed = SuppressedTokens((1, 6), spec.vocabulary.size, inner, min_length=2)
        assert strategy(spec, 2, inner) == BeamSearch(3, 0.8, 2, suppressed, "power", "full")
        sampling = Sampling(1, 0.8, 1.0, 0, 1.0, 3, suppressed, "power")
        assert strategy(spec, None, inner, search="sample", seed=3) == sampling
    assert strategy(specs.load("tiny", ["decoding.min_length=2"])).constraint.min_length == 2
    assert strategy(specs.load("tiny"), constraint=trees).constraint is trees
