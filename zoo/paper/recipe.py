"""Claims of sections 5, 6.1 and 6.3 about data, batches, schedule, regularisation and search, checked on the specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isclose
from operator import attrgetter

import specs
from zoo.paper.claims import Claim, Printed, corpus_size, equals, holds, is_set, needs_gpu, power_of_ten
from zoo.paper.table2 import DAY, GPUS, HOUR, SUSTAINED
from zoo.training.step import learning_rate

K = 1024
"""Number that K stands for in the paper's 16K and 32K tokens."""
STEP_SECONDS = {"base": 0.4, "big": 1.0}
"""Time of a training step in seconds, from section 5.2."""


def claims() -> Iterator[Claim]:
    """Yield the claims of sections 5, 6.1 and 6.3."""
    for key, section, says, printed, unit, spec, field in _SETTINGS:
        check = is_set(_setting(spec, field, unit))
        yield Claim(f"recipe.{key}", section, says, check, (Printed(printed),), unit, spec)
    for key, section, says, printed, unit, spec in _CORPORA:
        yield Claim(f"recipe.{key}", section, says, corpus_size(), (Printed(printed),), unit, spec)
    for key, section, says, printed, unit, derive in _TIMES:
        yield Claim(f"recipe.{key}", section, says, equals(derive), (Printed(printed),), unit)
    yield Claim("recipe.devices", "5.2", "trained on P100 GPUs", needs_gpu("P100"), (Printed(str(GPUS)),), "GPUs")
    for name, seconds in STEP_SECONDS.items():
        claimed = (Printed(str(seconds)),)
        yield Claim(f"recipe.step-{name}", "5.2", "a step takes, on these GPUs", needs_gpu("P100"), claimed, "s", name)
    for key, says, decide in _SCHEDULE:
        yield Claim(f"recipe.{key}", "5.3", says, holds(decide), spec="base")


def _setting(spec: str, field: str, unit: str) -> Callable[[], tuple[float, str]]:
    def read() -> tuple[float, str]:
        value = attrgetter(field)(specs.load(spec))
        return value / K if unit.startswith("K ") else value, f"value in the spec {spec}"

    return read


def _hours() -> tuple[float, str]:
    steps, seconds = specs.load("base").training.steps, STEP_SECONDS["base"]
    hours = steps * seconds / HOUR
    return hours, f"{steps:,} steps x {seconds} s = {hours:.1f} hours"


def _days() -> tuple[float, str]:
    steps, seconds = specs.load("big").training.steps, STEP_SECONDS["big"]
    days = steps * seconds / DAY
    return days, f"{steps:,} steps x {seconds} s = {days:.2f} days"


def _every(spec: str) -> Callable[[], tuple[float, str]]:
    def minutes() -> tuple[float, str]:
        steps, seconds = specs.load(spec).training.checkpoint_steps, STEP_SECONDS[spec]
        return steps * seconds / 60, f"{spec} writes one every {steps:,} steps of {seconds} s"

    return minutes


def _cost_by_steps(spec: str) -> Callable[[], tuple[float, str]]:
    """Return a function that derives a model's training cost in FLOPs from the number of steps and the time of a step.

    The claims of Table 2 derive the cost from the total training time instead.
    """

    def flops() -> tuple[float, str]:
        seconds, sustained = specs.load(spec).training.steps * STEP_SECONDS[spec], SUSTAINED["P100"]
        cost = seconds * GPUS * sustained
        return cost, f"{seconds:,.0f} s of steps x {GPUS} P100 x {sustained / 1e12} TFLOPS = {power_of_ten(cost)}"

    return flops


def _rises() -> tuple[bool, str]:
    spec, first = specs.load("base"), learning_rate(1, specs.load("base"))
    linear = all(isclose(learning_rate(step, spec), step * first) for step in range(1, spec.training.warmup_steps + 1))
    return linear, f"each of {spec.training.warmup_steps:,} steps adds {first:.4g} to the learning rate"


def _falls() -> tuple[bool, str]:
    spec = specs.load("base")
    warmup, steps = spec.training.warmup_steps, spec.training.steps
    peak = learning_rate(warmup, spec)
    roots = all(
        isclose(learning_rate(step, spec), peak * (warmup / step) ** 0.5) for step in range(warmup, steps + 1, 1000)
    )
    return roots, f"from {peak:.4g} at step {warmup:,} to {learning_rate(steps, spec):.4g} at step {steps:,}"


def _peak() -> tuple[bool, str]:
    spec = specs.load("base")
    a, warmup = spec.architecture, spec.training.warmup_steps
    best = max(range(1, 3 * warmup), key=lambda step: learning_rate(step, spec))
    rate = learning_rate(best, spec)
    return best == warmup and isclose(rate, (a.d_model * warmup) ** -0.5), f"{rate:.4g} at step {best:,}"


_SETTINGS = (
    ("vocabulary", "5.1", "shared vocabulary, EN-DE: about", "37000", "tokens", "base", "vocabulary.size"),
    ("vocabulary-french", "5.1", "subword vocabulary, EN-FR", "32000", "tokens", "base-enfr", "vocabulary.size"),
    ("source", "5.1", "source tokens of a batch: about", "25000", "tokens", "base", "training.source_tokens"),
    ("target", "5.1", "target tokens of a batch: about", "25000", "tokens", "base", "training.target_tokens"),
    ("steps", "5.2", "base: steps", "100000", "steps", "base", "training.steps"),
    ("steps-big", "5.2", "big: steps", "300000", "steps", "big", "training.steps"),
    ("beta1", "5.3", "Adam: beta1", "0.9", "", "base", "training.beta1"),
    ("beta2", "5.3", "Adam: beta2", "0.98", "", "base", "training.beta2"),
    ("epsilon", "5.3", "Adam: epsilon", "1e-9", "", "base", "training.epsilon"),
    ("warmup", "5.3", "warmup_steps", "4000", "steps", "base", "training.warmup_steps"),
    ("dropout", "5.4", "base: P_drop", "0.1", "", "base", "architecture.dropout"),
    ("dropout-big", "Table 3", "big: P_drop", "0.3", "", "big", "architecture.dropout"),
    ("dropout-french", "6.1", "big, EN-FR: P_drop", "0.1", "", "big-enfr", "architecture.dropout"),
    ("smoothing", "5.4", "label smoothing", "0.1", "", "base", "training.label_smoothing"),
    ("average", "6.1", "base: checkpoints averaged", "5", "checkpoints", "base", "training.average"),
    ("average-big", "6.1", "big: checkpoints averaged", "20", "checkpoints", "big", "training.average"),
    ("average-3", "6.2", "Table 3: checkpoints averaged", "1", "checkpoints", "table3/base", "training.average"),
    ("beam", "6.1", "beam", "4", "hypotheses", "base", "decoding.beam"),
    ("alpha", "6.1", "length penalty alpha", "0.6", "", "base", "decoding.alpha"),
    ("longest", "6.1", "output: input length plus", "50", "tokens", "base", "decoding.extra_length"),
    ("parser-N", "6.3", "parser: layers", "4", "layers", "parsing/wsj", "architecture.N"),
    ("parser-d_model", "6.3", "parser: d_model", "1024", "features", "parsing/wsj", "architecture.d_model"),
    ("parser-beam", "6.3", "parser: beam", "21", "hypotheses", "parsing/wsj", "decoding.beam"),
    ("parser-alpha", "6.3", "parser: alpha", "0.3", "", "parsing/wsj", "decoding.alpha"),
    (
        "parser-longest",
        "6.3",
        "parser: output: input length plus",
        "300",
        "tokens",
        "parsing/wsj",
        "decoding.extra_length",
    ),
    ("parser-tokens", "6.3", "parser, WSJ only: vocabulary", "16", "K tokens", "parsing/wsj", "vocabulary.size"),
    ("semi-tokens", "6.3", "semi-supervised: vocabulary", "32", "K tokens", "parsing/wsj-semi", "vocabulary.size"),
)
_CORPORA = (
    ("pairs", "5.1", "WMT14 EN-DE: about", "4.5e6", "pairs", "base"),
    ("pairs-french", "5.1", "WMT14 EN-FR", "36e6", "pairs", "base-enfr"),
    ("trees", "6.3", "WSJ: about", "40e3", "sentences", "parsing/wsj"),
    ("trees-semi", "6.3", "semi-supervised: about", "17e6", "sentences", "parsing/wsj-semi"),
)
_TIMES = (
    ("hours", "5.2", "base: 100,000 steps of 0.4 s take", "12", "hours", _hours),
    ("days", "5.2", "big: 300,000 steps of 1.0 s take", "3.5", "days", _days),
    ("minutes", "6.1", "base: a checkpoint every", "10", "minutes", _every("base")),
    ("minutes-big", "6.1", "big: a checkpoint every", "10", "minutes", _every("big")),
    ("flops", "Table 2", "base: cost, from the steps of 5.2", "3.3e18", "FLOPs", _cost_by_steps("base")),
    ("flops-big", "Table 2", "big: cost, from the steps of 5.2", "2.3e19", "FLOPs", _cost_by_steps("big")),
)
_SCHEDULE = (
    ("rises", "the learning rate rises linearly in the first warmup_steps", _rises),
    ("falls", "after that it falls with the inverse square root of the step", _falls),
    ("peak", "its peak is at warmup_steps, where it is (d_model · warmup_steps)^-0.5", _peak),
)
