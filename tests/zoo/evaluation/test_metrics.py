"""Properties of all metrics: which score is better, what they are computed from, how they are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specs
from specs import Spec
from zoo.evaluation.metrics import DEV_TITLES, METRICS, Metric, get_metric, metrics_for
from zoo.evaluation.outputs import ModelOutputs

MEMBERS = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
NUMBERS = st.floats(0, 100)
FROZEN = Path(__file__).parents[2] / "frozen"


@MEMBERS
@given(one=NUMBERS, two=NUMBERS, three=NUMBERS)
def test_better_is_a_strict_order(metric: Metric, one: float, two: float, three: float) -> None:
    assert not metric.is_better(one, one)
    assert metric.is_better(one, two) + metric.is_better(two, one) == (one != two)
    assert all(
        metric.is_better(a, c)
        for a, b, c in permutations((one, two, three))
        if metric.is_better(a, b) and metric.is_better(b, c)
    )


@MEMBERS
@given(score=NUMBERS)
def test_values_that_are_not_finite_are_never_better(metric: Metric, score: float) -> None:
    for none in (math.nan, math.inf, -math.inf):
        assert not metric.is_better(none, score)
        assert not metric.is_better(none, None)
    assert metric.is_better(score, None)


@MEMBERS
@given(scores=st.lists(NUMBERS, min_size=1))
def test_the_best_score_does_not_depend_on_the_order(metric: Metric, scores: list[float]) -> None:
    best = None
    for score in scores:
        best = score if metric.is_better(score, best) else best
    assert best == (max if metric.is_better(2, 1) else min)(scores)


def test_lower_is_better_for_perplexity_and_ter() -> None:
    assert {metric.name for metric in METRICS if metric.is_better(1, 2)} == {"perplexity", "ter"}


@MEMBERS
def test_a_metric_asks_only_for_what_it_needs(metric: Metric, parrot: Callable[..., Any]) -> None:
    """A score of a dev set must not translate where it need not; the program that forces may not be able to."""
    translator = parrot(metric.task or "translation")
    answers = ModelOutputs(translator, translator.sources, translator.references)
    assert 0 < metric.score(answers) <= metric.max_value
    assert metric.score(answers) == metric.compute(answers)[metric.name]
    assert [what for what, _ in translator.asked] == ["scores" if metric.uses_probabilities else "outputs"], (
        "once, and no other"
    )


@MEMBERS
def test_a_metric_returns_its_score_details_and_signature(metric: Metric, parrot: Callable[..., Any]) -> None:
    translator = parrot(metric.task or "translation")
    entries = metric.compute(ModelOutputs(translator, translator.sources, translator.references))
    assert list(entries) == [metric.name, *metric.details, *([metric.signature] * (metric.signature in entries))]


@MEMBERS
@given(score=NUMBERS)
def test_scores_survive_json(metric: Metric, score: float) -> None:
    assert metric.read_score(json.loads(json.dumps({metric.name: score}))) == score
    assert float(metric.format_score(score)) == pytest.approx(score, abs=0.5 * 10**-metric.decimals + 1e-9)


@MEMBERS
@pytest.mark.parametrize("found", ["much", None, -1, -0.001, math.nan, [], {}])
def test_invalid_scores_are_ignored(metric: Metric, found: object) -> None:
    assert metric.read_score({metric.name: found}) is None
    assert metric.read_score({}) is None
    assert metric.read_score(found) is None
    assert metric.read_score({metric.name: metric.max_value * 1.1}) is None


def test_a_perfect_score_may_be_rounded_up() -> None:
    assert [get_metric(name).read_score({name: 100.00000000000004}) for name in ("bleu", "f1")] == [100, 100]


def test_the_metrics_of_a_task_are_the_choices_of_dev_score(parsing: Callable[..., Spec]) -> None:
    words = {
        word for choice in get_args(specs.Training.model_fields["dev_score"].annotation) for word in get_args(choice)
    }
    assert {metric.name for metric in METRICS} == words - {type(None)}
    for make in (lambda **fields: specs.load("tiny", fields), parsing):
        own = [metric.name for metric in metrics_for(make().task)]
        assert own[-1] == "perplexity"
        for name in own:
            assert make(**{"training.dev_score": name}).training.dev_score == name
        for name in {metric.name for metric in METRICS} - {*own}:
            with pytest.raises(specs.ZooError, match=f"`{name}`, which the task"):
                make(**{"training.dev_score": name})


def test_names_and_titles_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len({metric.title for metric in METRICS}) == len(METRICS)
    assert all(get_metric(metric.name) is metric for metric in METRICS)
    assert len({metric.signature for metric in METRICS if metric.task == "translation"}) == 4
    assert {f"dev_{metric.name}": f"dev {metric.title}" for metric in METRICS} == DEV_TITLES


@pytest.mark.parametrize(
    "file", sorted(FROZEN.glob("*/*/scores.json")), ids=lambda file: f"{file.parts[-3]}-{file.parts[-2]}"
)
def test_scores_of_past_versions_are_read(file: Path) -> None:
    scores = json.loads(file.read_text())["dev"]
    found = {metric.name: metric.read_score(scores) for metric in metrics_for(specs.load("tiny").task)}
    later = {name: scores.get(name) for name in ("paper_bleu", "chrf", "ter")}  # formats before 4 had none of them
    assert found == {"bleu": scores["bleu"], "perplexity": scores["perplexity"], **later}
