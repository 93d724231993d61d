"""How a translation is wanted: the spec's choices, those of a caller, and what is refused."""

import pytest

import specs
from specs import ZooError
from zoo.generation.beam_search import BeamSearch
from zoo.generation.config import DEFAULT_MAX_BATCH_TOKENS, GenerationConfig
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.sampling import Sampling


def test_what_is_left_open_the_spec_decides():
    spec = specs.load("tiny", ["decoding.beam=3", "decoding.alpha=0.8", "training.seed=9", "decoding.workers=2"])
    request = GenerationConfig.from_spec(spec, {"beam": None, "tokens": None})
    assert (request.tokens, request.workers, request.n_best) == (DEFAULT_MAX_BATCH_TOKENS, 2, 1)
    assert request.strategy() == BeamSearch(3, 0.8, 1)
    assert GenerationConfig.from_spec(spec, {"beam": 5, "alpha": 0, "workers": "auto"}, 4).strategy() == BeamSearch(
        5, 0, 4
    )
    sampled = spec.model_copy(update={"decoding": spec.decoding.model_copy(update={"search": "sample", "top_k": 7})})
    assert GenerationConfig.from_spec(sampled, {"top_p": 0.5}, 4).strategy() == Sampling(4, 0.8, 1.0, 7, 0.5, 9)
    assert GenerationConfig.from_spec(spec, {"search": "sample", "seed": 3, "temperature": 2}).strategy() == Sampling(
        1, 0.8, 2, 0, 1.0, 3
    )
    assert GenerationConfig.from_spec(sampled, {"search": "beam"}).strategy() == BeamSearch(3, 0.8, 1)


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"beam": 0}, "`beam` is 0"),
        ({"beam": 2.0}, "`beam` is 2.0"),
        ({"beam": 2**62}, "`beam` is 4611686018427387904: it must be a whole number from 1 to 1,024"),
        ({"beam": 10**5000}, "`beam` is 0x"),
        ({"n_best": 10**10}, "`n_best` is 10000000000: it must be a whole number from 1 to 10,000"),
        ({"alpha": 10**400}, "`alpha` is 1000"),
        ({"tokens": 10**300}, "`tokens` is 1000"),
        ({"workers": 100_000}, "`workers` is 100000"),
        ({"search": "sample", "top_k": 2**62}, "`top_k` is 4611686018427387904"),
        ({"search": "sample", "seed": 2**64}, "`seed` is 18446744073709551616"),
        ({"search": "sample", "temperature": 1e300}, "`temperature` is 1e+300"),
        ({"beam": True}, "`beam` is True"),
        ({"n_best": 0}, "`n_best` is 0"),
        ({"beam": 2, "n_best": 3}, "`n_best` is 3, but a beam of 2 finds only 2"),
        ({"alpha": -0.1}, "`alpha` is -0.1"),
        ({"alpha": float("nan")}, "`alpha` is nan"),
        ({"alpha": 1e6}, "`alpha` is 1000000.0"),
        ({"alpha": "much"}, "`alpha` is 'much': it must be a number from 0 to 10"),
        ({"search": "dfs"}, "`search` is 'dfs'"),
        ({"tokens": 0}, "`tokens` is 0"),
        ({"tokens": 1.5}, "`tokens` is 1.5"),
        ({"tokens": True}, "`tokens` is True"),
        ({"workers": 0}, "`workers` is 0"),
        ({"workers": "all"}, "`workers` is 'all'"),
        ({"search": "sample", "temperature": 0}, "`temperature` is 0"),
        ({"search": "sample", "temperature": float("inf")}, "`temperature` is inf"),
        ({"search": "sample", "top_k": -1}, "`top_k` is -1"),
        ({"search": "sample", "top_k": 2.5}, "`top_k` is 2.5"),
        ({"search": "sample", "top_p": 0.0}, "`top_p` is 0.0"),
        ({"search": "sample", "top_p": 1.1}, "`top_p` is 1.1"),
        ({"search": "sample", "seed": -1}, "`seed` is -1"),
        ({"search": "sample", "beam": 4}, "`beam` is given, and the search is `sample`"),
        ({"temperature": 0.5}, "`temperature` is given, and the search is `beam`"),
        ({"seed": 5}, "`seed` is given, and the search is `beam`"),
    ],
)
def test_values_out_of_range_and_out_of_place_are_named(choice, named):
    n_best = choice.pop("n_best", None)
    with pytest.raises(ZooError) as caught:
        GenerationConfig.from_spec(specs.load("tiny", ["decoding.beam=4"]), choice, n_best)
    assert str(caught.value).startswith(named)
    assert len(str(caught.value)) < 300


def test_what_belongs_to_the_model_is_as_its_spec_says():
    traits = ["decoding.length_penalty=power", "decoding.stopping_rule=full", "decoding.suppressed_tokens=[1, 6]"]
    spec = specs.load("tiny", ["decoding.beam=3", "decoding.alpha=0.8", "decoding.min_length=2", *traits])
    bars = SuppressedTokens((1, 6), spec.vocabulary.size, least=2)
    assert GenerationConfig.from_spec(spec, {}, 2).strategy() == BeamSearch(3, 0.8, 2, bars, "power", "full")
    assert GenerationConfig.from_spec(spec, {"search": "sample", "seed": 3}).strategy() == Sampling(
        1, 0.8, 1.0, 0, 1.0, 3, bars, "power"
    )


def test_what_bounds_a_search_bounds_beams_and_samples(translator_of):
    translator, constraint = translator_of(), BracketConstraint([4], [5], [6], 7)
    translator.constraint = constraint
    barring = translator_of(["decoding.suppressed_tokens=[1]"])
    barring.constraint = constraint
    for search in ("beam", "sample"):
        assert translator.request(None, {"search": search}).strategy().constraint is constraint
        assert barring.request(None, {"search": search}).strategy().constraint.other is constraint


def test_samples_may_be_more_than_a_beam():
    assert GenerationConfig.from_spec(specs.load("tiny"), {"search": "sample"}, 50).n_best == 50


@pytest.mark.parametrize(
    ("field", "value"),
    [("search", "dfs"), ("temperature", 0.0), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.5), ("workers", 0)],
)
def test_a_spec_says_nothing_out_of_range_either(field, value):
    with pytest.raises(ZooError, match=rf"`decoding\.{field}`"):
        specs.load("tiny", {"decoding": {field: value}})
