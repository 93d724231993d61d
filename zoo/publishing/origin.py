"""What a card says of where a model comes from: its parent, who made it, and how it learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from specs import Spec
from zoo.evaluation.metrics import METRICS, Metric
from zoo.publishing.facts import Facts, Point, Training
from zoo.report import duration

_WIDE, _HIGH = 60, 10
"""Signs of a curve."""
_ROWS = 8
"""Of its table."""


def cell(words: str) -> str:
    """Words that may be anybody's, in a table or a line of Markdown: words, and nothing else."""
    line = " ".join(words.split())
    return "".join(f"\\{sign}" if sign in r"\`*_[]<>|#~&!" else sign for sign in line)


def origin(facts: Facts) -> Iterator[str]:
    """Of which spec it is a variant, and whence it was imported."""
    if facts.imported:
        rows = "\n".join(f"| {cell(key)} | {cell(value)} |" for key, value in facts.imported.items())
        yield "## Imported\n\nIt was made elsewhere, and brought in by `zoo import`."
        yield f"| what | |\n| --- | --- |\n{rows}"
    parent = facts.parent
    if parent and parent.changed:
        rows = "\n".join(f"| `{key}` | {cell(there)} | {cell(here)} |" for key, (there, here) in parent.changed.items())
        yield (
            f"Of the specs that zoo ships, `{parent.spec}` is the nearest; it differs from that in:\n\n"
            f"| field | `{parent.spec}` | here |\n| --- | --- | --- |\n{rows}"
        )
    elif parent:
        yield f"Its network and its training are those of the spec `{parent.spec}`, which zoo ships."


def training(spec: Spec, facts: Facts) -> str:
    """How it was trained, what that cost, and how it learned."""
    known = facts.training
    if known is None:
        return "How it was trained is not known here."
    steps = (
        f"A step had at most {spec.training.source_tokens:,} source and {spec.training.target_tokens:,} target tokens, "
        f"padding counted; the seed was {known.seed}. `spec.yaml` holds the whole recipe."
    )
    return "\n\n".join([f"{_weights(known.averaged)} {steps}", *_cost(known), *_curve(spec, known.curve)])


def _weights(averaged: Sequence[int]) -> str:
    if not averaged:
        return "The weights do not say of which steps they are."
    if len(averaged) == 1:
        return f"The weights are those of step {averaged[0]:,}."
    return f"The weights are the mean of {len(averaged)} checkpoints, of the steps {averaged[0]:,} to {averaged[-1]:,}."


def _cost(known: Training) -> Iterator[str]:
    if known.flops is None:
        return
    many = "" if known.steps is None else f" for {known.steps:,} steps"
    if known.seconds is None:
        yield f"Its training cost {known.flops:.2g} FLOPs{many}, by the compiler's count of full batches."
        return
    on = f" on {cell(known.machine)}" if known.machine else ""
    several = f", {known.devices} processes together" if known.devices and known.devices > 1 else ""
    priced = ""
    if known.priced:
        priced = (
            f" Section 6.1 of the paper would put it at {known.priced:.2g}: the time, times what a large matrix "
            "product reaches there."
        )
    yield (
        f"Its training cost {known.flops:.2g} FLOPs{many}, by the compiler's count of matrix products over the tokens "
        f"that were read, in {duration(known.seconds)}{on}{several}.{priced}"
    )


def _curve(spec: Spec, curve: Sequence[Point]) -> Iterator[str]:
    """Drawn in letters, which are read wherever a card is, and as a table."""
    metric = _drawn(curve)
    points = [
        (point.step, value)
        for point in curve
        if (value := point.dev.get(metric.name) if metric else point.loss) is not None
    ]
    if len(points) < 2:
        return
    called = f"{metric.title} of the dev set" if metric else "training loss"
    scale = ", logarithmic" if _is_steep(points) else ""
    yield f"Learning curve, {called}{scale}, over steps:\n\n```text\n{drawn(points)}\n```"
    every = -(-len(points) // _ROWS)
    rows = "\n".join(
        f"| {step:,} | {metric.format_score(value) if metric else f'{value:.3f}'} |"
        for step, value in points[::-1][::every][::-1]
    )
    yield f"| step | {called} |\n| ---: | ---: |\n{rows}"


def _drawn(curve: Sequence[Point]) -> Metric | None:
    """The first metric that was asked of the dev set."""
    return next((metric for metric in METRICS if any(metric.name in point.dev for point in curve)), None)


def _is_steep(points: Sequence[tuple[int, float]]) -> bool:
    values = [value for _, value in points]
    return min(values) > 0 and max(values) > 5 * min(values)


def drawn(points: Sequence[tuple[int, float]]) -> str:
    """Points over two axes, in letters; the upward one is logarithmic where the last are too near each other else."""
    place: Callable[[float], float] = math.log if _is_steep(points) else float
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = points[0][0], points[-1][0]
    signs = [[" "] * _WIDE for _ in range(_HIGH)]
    for step, value in points:
        across = round((step - first) / max(1, last - first) * (_WIDE - 1))
        up = round((place(value) - place(low)) / ((place(high) - place(low)) or 1.0) * (_HIGH - 1))
        signs[_HIGH - 1 - up][across] = "•"
    names = {0: f"{high:.4g}", _HIGH - 1: f"{low:.4g}"}
    margin = max(map(len, names.values()))
    rows = [f"{names.get(row, ''):>{margin}} │{''.join(line)}".rstrip() for row, line in enumerate(signs)]
    ends = f"{first:,}{f'{last:,}':>{_WIDE - len(f'{first:,}')}}"
    return "\n".join([*rows, f"{'':{margin}} └{'─' * _WIDE}", f"{'':{margin}}  {ends}"])
