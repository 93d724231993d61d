"""`average` as a shell sees it: what a search found, and what does not go together."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from zoo.evaluation.metrics import get_metric
from zoo.training.averaging import AverageSearch, ScoredAverage
from zoo.training.run import Run

Zoo = Callable[..., Any]


@pytest.fixture
def found(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the search of `tiny` finds."""
    trained("runs/tiny")

    def set(metric: str, *means: ScoredAverage) -> None:
        best = next(mean for mean in means if not mean.more)
        monkeypatch.setattr(
            "zoo.training.averaging.search_averages", lambda run, **how: AverageSearch(get_metric(metric), means, best)
        )

    return set


def test_the_curve_is_told_and_what_is_beyond_noise(zoo: Zoo, found: Callable[..., None]) -> None:
    found(
        "bleu",
        ScoredAverage(1, 1, (400,), 20.0, -2.0, 0.5),
        ScoredAverage(2, 1, (300, 400), 21.75, -0.25, 0.5),
        ScoredAverage(5, 1, (0, 100, 200, 300, 400), 22.0, 0.0, 0.0),
    )
    done = zoo("average", "tiny", "--search")
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["1", "1", "400", "20.00", "-2.00", "±", "0.50"],
        ["2", "1", "300", "to", "400", "21.75", "-0.25", "±", "0.50"],
        ["5", "1", "0", "to", "400", "22.00", "the", "best"],
    ]
    assert done.err == (
        "for means of 10, 20 there are too few checkpoints; `training.average=20` and a smaller "
        "`training.checkpoint_steps` keep more, while it trains\n"
        "within noise of the best: 2 of every 1; `zoo average tiny --last 5` writes it\n"
    )
    told = json.loads(zoo("average", "tiny", "--search", "--json").out)
    assert [(each["last"], each["score"], each["worse"]) for each in told] == [
        (1, 20, True),
        (2, 21.75, False),
        (5, 22, False),
    ]
    assert {each["metric"] for each in told} == {"bleu"}


def test_the_best_may_be_of_every_second_or_by_a_score_without_noise(zoo: Zoo, found: Callable[..., None]) -> None:
    many = ScoredAverage(20, 1, tuple(range(20)), 10.0, 2.0, 0.1)
    found("perplexity", ScoredAverage(1, 1, (4,), 9.0, 1.0, 0.1), ScoredAverage(2, 2, (2, 4), 8.0, 0.0, 0.0), many)
    told = zoo("average", "tiny", "--search").err
    assert (
        told == "the best is beyond noise; a training with 2 times its `training.checkpoint_steps` would keep those\n"
    )
    found("chrf", ScoredAverage(20, 1, tuple(range(20)), 50.0, 0.0, None))
    assert zoo("average", "tiny", "--search").err == "how much of it is chance is not known of chrF\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--search", "--last", "2"), "`--last` chooses, and `--search` asks what to choose"),
        (("--json",), "`--json` is for `--search` only"),
        (("--device", "cpu"), "`--device` is for `--search` only"),
    ],
)
def test_what_does_not_go_together_is_refused(
    zoo: Zoo, trained: Callable[..., Run], words: tuple[str, ...], told: str
) -> None:
    trained("runs/tiny")
    done = zoo("average", "tiny", *words)
    assert (done.status, done.out) == (2, "")
    assert told in done.err


def test_what_is_no_number_has_no_word_in_json(zoo: Zoo, found: Callable[..., None]) -> None:
    whole, broken = (
        ScoredAverage(1, 1, (400,), 3.0, 0.0, 0.0),
        ScoredAverage(2, 1, (300, 400), math.nan, math.nan, None),
    )
    found("perplexity", whole, broken)
    told = json.loads(zoo("average", "tiny", "--search", "--json").out, parse_constant=lambda word: pytest.fail(word))
    assert [(each["score"], each["difference"], each["worse"]) for each in told] == [
        (3.0, 0.0, False),
        (None, None, True),
    ]
