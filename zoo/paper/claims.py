"""Claims of the paper, and the checks that determine their status.

A claim is a number that the paper prints, or a sentence that can be checked. The status of a claim is never written by
hand: its check computes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from statistics import fmean

import specs
from zoo.data.corpus import missing_part
from zoo.data.prepare import known_counts
from zoo.evaluation.metrics import Metric, get_metric
from zoo.paper.evidence import Evidence, RunEvidence
from zoo.report import figure


class Status(StrEnum):
    """Outcome of checking a claim of the paper. The values are the texts that users see."""

    DERIVED = "derived"
    SET = "set in our spec"
    MEASURED = "measured here"
    DIFFERENT = "comes out differently"
    OPEN = "not tested"
    CITED = "another system's"


@dataclass(frozen=True)
class Printed:
    """Number as text, as the paper prints it, such as "65" or "3.3e18".

    If the paper prints different numbers for the same quantity, `where` says where it prints this one.
    """

    text: str
    where: str = ""

    @property
    def value(self) -> float:
        """The printed number as a float."""
        return float(self.text)

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Interval of the numbers that round to the printed digits. It excludes its upper bound."""
        number = Decimal(self.text)
        half = Fraction(10) ** int(number.as_tuple().exponent) / 2
        return Fraction(number) - half, Fraction(number) + half

    def agrees(self, value: float) -> bool:
        """Return whether `value`, rounded to as many digits as are printed, equals the printed number."""
        lower, upper = self.bounds
        return lower <= Fraction(value) < upper

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text


@dataclass(frozen=True)
class Finding:
    """Result of checking a claim: its status, the reason, and the number that zoo derived or measured."""

    status: Status
    because: str
    """Reason for the status."""
    value: float | None = None
    """Number that zoo derived or measured, in the claim's unit. None if there is none."""
    ours: str = ""
    """The same number, formatted."""
    runs: tuple[str, ...] = ()
    """Folders of the training runs in which the number was measured."""


@dataclass(frozen=True)
class Claim:
    """Statement of the paper, the section that makes it, and a function that checks it."""

    key: str
    """Unique identifier, which begins with the table or the part of the paper: "table3.a-h1.bleu"."""
    section: str
    says: str
    check: Callable[[Claim, Evidence], Finding]
    printed: tuple[Printed, ...] = ()
    """Printed numbers. Several if versions or parts of the paper disagree. Empty for a sentence without a number."""
    unit: str = ""
    spec: str | None = None
    """Short name of the spec that the claim is about. None if it is about another system."""

    @property
    def number(self) -> float:
        """First number that the paper prints for the claim, as a float."""
        return self.printed[0].value


Check = Callable[[Claim, Evidence], Finding]


@dataclass(frozen=True)
class CheckedClaim:
    """Claim of the paper, with the result of its check."""

    claim: Claim
    finding: Finding


def format_number(value: float) -> str:
    """Format a number with four significant digits, or without decimals from 1,000 on: "0.98", "37,000", "3.283e18"."""
    return power_of_ten(value, 4) if value and not 1e-3 <= abs(value) < 1e7 else figure(value)


def power_of_ten(value: float, digits: int = 3) -> str:
    """Format a number with a power of ten, such as "3.28e18". `digits` is the number of significant digits."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def slug(words: str) -> str:
    """Convert a text to lower case with hyphens, for the key of a claim, such as "gnmt-rl-ensemble"."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower().replace("&", "and")).strip("-")


Derivation = tuple[float | None, str]
"""Derived number, and a description of the derivation. The number is None if the paper states one number, but the
derivation gives several."""


def equals(
    derive: Callable[[], Derivation],
    format_value: Callable[[float], str] = format_number,
    status: Status = Status.DERIVED,
) -> Check:
    """Return a function that checks whether a derived number, once formatted, equals the number in the claim.

    If the claim contains several numbers, it must equal each of them.

    Args:
        derive: Function that returns the derived number, and a description of the derivation.
        format_value: Function that formats the number.
        status: The status of the claim if the numbers agree.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        value, derivation = derive()
        if value is None:
            return Finding(Status.DIFFERENT, f"the numbers differ: {derivation}")
        wrong = [printed for printed in claim.printed if not printed.agrees(value)]
        if not wrong:
            return Finding(status, derivation, value, format_value(value))
        right = "".join(f"{printed} and " for printed in claim.printed if printed not in wrong)
        because = f"{right}not {' and not '.join(map(str, wrong))}: {derivation}"
        return Finding(Status.DIFFERENT, because, value, format_value(value))

    return check


def is_set(read: Callable[[], Derivation]) -> Check:
    """Return a function that checks whether a field of a shipped spec has the value that the paper prints.

    Args:
        read: Function that returns the field's value, and a description of where it was read.
    """
    return equals(read, status=Status.SET)


def holds(decide: Callable[[], tuple[bool, str]]) -> Check:
    """Return a function that checks whether a sentence of the paper is true.

    Args:
        decide: Function that returns whether the sentence is true, and a text with the numbers that show it.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        true, reason = decide()
        return Finding(Status.DERIVED, reason, ours="yes") if true else Finding(Status.DIFFERENT, reason, ours="no")

    return check


def scored(split: str, *metrics: str) -> Check:
    """Return a function that checks a claim by reporting the scores of training runs with the claim's spec.

    The function does not judge whether a score is close to the printed one. It reports how the runs differ from the
    paper's, so that readers can judge.

    Args:
        split: "dev" or "test".
        metrics: Names of metrics. The one for which most runs have a score is used. In a tie, the first is used.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        if claim.spec is None:
            return Finding(Status.CITED, "a number of another system, which the paper cites")
        runs = evidence.of(claim.spec)
        comparable = _comparable_runs(runs, split, [get_metric(name) for name in metrics])
        if comparable is None:
            return Finding(Status.OPEN, _reason_for_no_score(claim.spec, evidence, runs, split))
        metric, chosen, scale = comparable
        values = [run.score(split, metric) or 0.0 for run in chosen]
        spread = (
            f" ({metric.format_score(min(values))} to {metric.format_score(max(values))})" if len(values) > 1 else ""
        )
        folders = f"{chosen[0].folder}" if len(chosen) == 1 else f"{len(chosen)} runs, the first {chosen[0].folder}"
        mean = fmean(values)
        return Finding(
            Status.MEASURED,
            f"{metric.title} of {folders}: {scale}",
            mean,
            f"{metric.format_score(mean)}{spread}",
            tuple(run.folder for run in chosen),
        )

    return check


def corpus_size() -> Check:
    """Return a function that checks whether the corpus of a claim's spec has the printed number of pairs.

    If the corpus has not been prepared on this machine, the function reports the claim as not tested.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        assert claim.spec is not None
        spec = specs.load(claim.spec)
        if missing := missing_part(spec):
            return Finding(Status.OPEN, missing)
        counts = known_counts(spec)
        if counts is None:
            return Finding(Status.OPEN, f"its corpus is available, but `zoo prepare {claim.spec}` has not been run")
        words = f"pairs in the corpus of {claim.spec}, prepared here"
        if all(printed.agrees(counts.read) for printed in claim.printed):
            return Finding(Status.MEASURED, words, counts.read, f"{counts.read:,}")
        return Finding(Status.DIFFERENT, f"{counts.read:,} {words}", counts.read, f"{counts.read:,}")

    return check


def needs_gpu(name: str) -> Check:
    """Return a function that reports a claim as not tested, because the claim is about the speed of the GPU `name`."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        return Finding(Status.OPEN, f"needs a {name}, which is not measured here")

    return check


def timing(key: str, tolerance: float) -> Check:
    """Return a function that checks whether a layer's time grows with the sequence length as by Table 1's formula.

    Args:
        key: The `LayerType.key` of the layer.
        tolerance: Largest accepted difference between the measured exponent and the exponent of the formula.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        timing = next((timing for timing in evidence.timings if timing.key == key), None)
        if timing is None:
            return Finding(Status.OPEN, "not timed: `zoo paper table1 --measure` measures it")
        words = f"n^{timing.exponent:.2f} for {timing.seconds[0][0]:,} to {timing.seconds[-1][0]:,} positions"
        close = abs(timing.exponent - timing.formula) <= tolerance
        words += "" if close else f", but n^{timing.formula:.2f} by the formula"
        status = Status.MEASURED if close else Status.DIFFERENT
        return Finding(status, words, timing.exponent, f"n^{timing.exponent:.2f}")

    return check


def drawn(figure: int) -> Check:
    """Return a function that reports a claim about a figure as not tested, because readers must judge it by eye.

    If there is a trained model, the finding contains the command that draws the figure with this model.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        assert claim.spec is not None
        trained = [run for run in evidence.of(claim.spec) if run.weights]
        if not trained:
            return Finding(Status.OPEN, _reason_for_no_score(claim.spec, evidence, (), "test"))
        how = f"`zoo attend --model {trained[0].folder} --figure {figure}` draws it, for readers to judge"
        return Finding(Status.OPEN, how, runs=tuple(run.folder for run in trained))

    return check


def _comparable_runs(
    runs: Sequence[RunEvidence], split: str, metrics: Sequence[Metric]
) -> tuple[Metric, tuple[RunEvidence, ...], str] | None:
    """Choose training runs whose scores can be averaged, because their corpus and all relevant settings are equal.

    If there are several groups of such runs, choose the group with the fewest differences from the shipped spec. In a
    tie, choose the largest group.

    Returns:
        The metric that most of these runs were scored by, the runs with a score by it, and their `RunEvidence.scale`.
        None if no run has a score.
    """
    groups: dict[tuple[str, str], list[RunEvidence]] = {}
    for run in runs:
        if any(run.score(split, metric) is not None for metric in metrics):
            corpus = run.spec.corpus.model_copy(update={"folder": ""})  # its folder differs between machines
            groups.setdefault((run.scale, repr(corpus)), []).append(run)
    if not groups:
        return None
    (scale, _), group = min(groups.items(), key=lambda item: (item[1][0].distance, -len(item[1]), item[0]))
    by_metric = {m: tuple(run for run in group if run.score(split, m) is not None) for m in metrics}
    metric = max(metrics, key=lambda metric: len(by_metric[metric]))
    return metric, by_metric[metric], scale


def _reason_for_no_score(spec: str, evidence: Evidence, runs: Sequence[RunEvidence], split: str) -> str:
    if runs:
        folders, first = ", ".join(run.folder for run in runs[:3]), runs[0].folder
        return f"not scored on the {split} set: {folders}; `zoo evaluate --model {first} --set {split}` scores it"
    missing = missing_part(specs.load(spec))
    return f"no run of {spec} in `{evidence.root}`" + (f"; {missing}" if missing else "")
