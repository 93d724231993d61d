"""Properties of all metrics: which score is better, what they are computed from, how they are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specs
from specs import Spec
from zoo.evaluation.metrics import METRICS, Metric, get_metric, metrics_for
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs

MEMBERS = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
NUMBERS = st.floats(0, 100)


@MEMBERS
@given(scores=st.lists(NUMBERS, min_size=1))
def test_the_best_score_does_not_depend_on_the_order(metric: Metric, scores: list[float]) -> None:
    best = None
    for score in scores:
        for invalid in (math.nan, math.inf, -math.inf):
            assert not metric.is_better(invalid, best)
        best = score if metric.is_better(score, best) else best
        assert not metric.is_better(best, best)
    assert best == (max if metric.is_better(2, 1) else min)(scores)


@MEMBERS
def test_a_metric_asks_only_for_what_it_needs(metric: Metric, parrot: Callable[..., Any]) -> None:
    """A score of a dev set must not translate where it need not; the program that forces may not be able to."""
    translator = parrot("parsing" if metric.name == "f1" else "translation")
    outputs = ModelOutputs(translator, EvaluationSet(translator.streams, [translator.spec.default_direction] * 2))
    entries = metric.compute(outputs)
    assert list(entries) == [metric.name, *metric.details, *([metric.signature] * (metric.signature in entries))]
    assert 0 < metric.score(outputs) == entries[metric.name] <= metric.max_value
    asked = [what for what, _ in translator.asked]
    assert asked == ["scores" if metric.uses_probabilities else "outputs"], "once, and no other"


def test_a_model_that_transcribes_and_translates_has_the_metrics_of_each(parrot: Callable[..., Any]) -> None:
    translator = parrot("translation")
    rows = len(translator.sources)
    for directions, names in (
        ([("en", "en"), ("en", "de")], {"wer en en", "chrf en de"}),
        ([("en", "de"), ("de", "en")], {"wer en de", "wer de en", "chrf en de", "chrf de en"}),
        ([("en", "en")], set()),
    ):
        outputs = ModelOutputs(translator, EvaluationSet(translator.streams, [*islice(cycle(directions), rows)]))
        entries = [{**get_metric(name).compute(outputs)} for name in ("wer", "chrf")]
        assert {*entries[0], *entries[1]} == {"wer", "wer_signature", "chrf", "chrf_signature"} | names


@MEMBERS
@given(score=NUMBERS)
def test_scores_survive_json(metric: Metric, score: float) -> None:
    assert metric.read_score(json.loads(json.dumps({metric.name: score}))) == score
    assert float(metric.format_score(score)) == pytest.approx(score, abs=0.5 * 10**-metric.decimals + 1e-9)


@MEMBERS
@pytest.mark.parametrize("invalid", ["much", None, -1, -0.001, math.nan, [], {}])
def test_invalid_scores_are_ignored(metric: Metric, invalid: object) -> None:
    assert metric.read_score({metric.name: invalid}) is None
    assert metric.read_score(invalid) is None
    assert metric.read_score({metric.name: metric.max_value * 1.1}) is None


def test_the_metrics_of_a_task_are_the_choices_of_dev_score(parsing: Callable[..., Spec]) -> None:
    choices, _ = specs.schema()["$defs"]["Training"]["properties"]["dev_score"]["anyOf"]
    assert {metric.name for metric in METRICS} == {*choices["enum"]}
    for make in (lambda **fields: specs.load("tiny", fields), parsing):
        own = [metric.name for metric in metrics_for(make())]
        assert own[-1] == "perplexity"
        for name in own:
            assert make(**{"training.dev_score": name}).training.dev_score == name
        for name in {metric.name for metric in METRICS} - {*own}:
            with pytest.raises(specs.ZooError, match=f"`{name}`, which is not a score"):
                make(**{"training.dev_score": name})


@pytest.mark.parametrize(("name", "first"), [("speech/everyday-en", "wer"), ("speech/everyday-ende", "bleu")])
def test_a_model_without_transcripts_has_no_error_rates(name: str, first: str) -> None:
    names = [metric.name for metric in metrics_for(specs.load(name))]
    assert names[0] == first
    assert ("cer" in names) == (first == "wer")
    if first != "wer":
        with pytest.raises(specs.ZooError, match="`wer`, which is not a score of the `recognition` task from en to de"):
            specs.load(name, {"training.dev_score": "wer"})
