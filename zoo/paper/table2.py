"""Derivations for the claims of the abstract and section 6.1 about Table 2, and the training cost of our own runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper.claims import CLAIMS, ROWS, Row
from zoo.paper.runs import Measurements
from zoo.planning.memory_estimate import estimate_memory
from zoo.training.run_log import TrainingRecord


def big_margin() -> tuple[bool, str]:
    """Decide whether the BLEU of `big` is more than 2.0 above that of all earlier systems, EN-DE."""
    best = _best_earlier("en-de.bleu")
    ours, theirs = _number("transformer-big", "en-de.bleu"), float(best["en-de.bleu"])
    margin = round(ours - theirs, 2)
    return margin > 2.0, f"printed: {ours}, and {theirs} of the {best['name']}: a difference of {margin}"


def base_is_best() -> tuple[bool, str]:
    """Decide whether the BLEU of `base` is above that of all earlier systems, EN-DE."""
    best = _best_earlier("en-de.bleu")
    ours, theirs = _number("transformer-base", "en-de.bleu"), float(best["en-de.bleu"])
    return ours > theirs, f"printed: {ours}, and {theirs} of the {best['name']}"


def cheaper(system: str, languages: str) -> tuple[bool, str]:
    """Decide whether the training cost of a system is below that of all earlier systems."""
    column = f"{languages}.flops"
    cheapest = min(_earlier(column), key=lambda row: float(row[column]))
    share = _number(system, column) / float(cheapest[column])
    return share < 1, f"printed: {share:.2g} times the cost of the cheapest other system, {cheapest['name']}"


def better_than_single_models() -> tuple[bool, str]:
    """Decide whether the BLEU of `big` is above that of all earlier single models, EN-FR."""
    best, numbers = _best_earlier("en-fr.bleu", ensembles=False), CLAIMS[_FRENCH_BLEU].printed
    words = " or ".join(f"{number.value:g}" for number in numbers)
    better = all(number.value > float(best["en-fr.bleu"]) for number in numbers)
    return better, f"printed: {words}, and {best['en-fr.bleu']} of {best['name']}, the best other single model"


def better_than_ensembles() -> tuple[bool, str]:
    """Decide whether the BLEU of `big` is above that of all earlier systems, EN-FR."""
    best = _best_earlier("en-fr.bleu")
    below = [number for number in CLAIMS[_FRENCH_BLEU].printed if number.value <= float(best["en-fr.bleu"])]
    words = f"printed: {best['en-fr.bleu']} of the {best['name']}"
    return not below, f"{words}; better than {', '.join(map(str, below))}" if below else f"{words}; big has more"


def cost_below_a_quarter() -> tuple[bool, str]:
    """Decide whether `big` cost less than a quarter of the best earlier single model, EN-FR."""
    ours, best = ROWS["table2"]["transformer-big"], _best_earlier("en-fr.bleu", ensembles=False)
    share = float(ours["en-fr.flops"]) / float(best["en-fr.flops"])
    words = f"{ours['en-fr.flops']}, and {best['en-fr.flops']} of {best['name']}, the best other single model"
    return share < 0.25, f"printed: {words}: a share of {share:.2f}"


def one_score() -> tuple[bool, str]:
    """Decide whether the paper prints the same BLEU of `big` everywhere, EN-FR."""
    numbers = CLAIMS[_FRENCH_BLEU].printed
    words = " and ".join(map(str, numbers))
    return len({number.value for number in numbers}) == 1, f"{words}; 6.1 prints 41.0 in the newest version"


_FRENCH_BLEU = "table2.transformer-big.en-fr.bleu"


def _number(system: str, column: str) -> float:
    return float(ROWS["table2"][system][column])


def _earlier(column: str, *, ensembles: bool = True) -> list[Row]:
    """Return the rows of earlier systems, with or without ensembles, that have a number in a column."""
    rows = [row for row in ROWS["table2"].values() if "spec" not in row and column in row]
    return [row for row in rows if ensembles or not row["name"].endswith(" ensemble")]


def _best_earlier(column: str, *, ensembles: bool = True) -> Row:
    return max(_earlier(column, ensembles=ensembles), key=lambda row: float(row[column]))


def planned_flops(spec: str) -> float:
    """Return the FLOPs of a spec's complete training run, counted by the compiler: all steps with full batches."""
    loaded = specs.load(spec)
    return float(loaded.training.steps * estimate_memory(loaded).step_flops)


@dataclass(frozen=True)
class OwnCost:
    """Training cost of one of our own training runs or ensembles.

    The cost is computed in two ways: as in section 6.1 (time x devices x FLOPs per second), and by counting the FLOPs
    of the matrix products.
    """

    folder: str
    bleu: float | None
    """BLEU on the run's own test set: the paper's BLEU or, if there is none, sacreBLEU's. None if it was not scored."""
    scale: str
    """How the run differs from the shipped spec (see `RunResults.scale`)."""
    seconds: float
    devices: int
    peak: float
    """FLOPs per second of a large matrix product on the device. 0 if the log does not contain this speed, or if it
    differs between the members of an ensemble."""
    estimated_flops: float
    """Training cost in FLOPs, estimated as in section 6.1. 0 if a log does not contain `peak`."""
    flops: float
    """Training cost in FLOPs, counted over all matrix products."""


def own_costs(measurements: Measurements) -> Iterator[OwnCost]:
    """Yield the training cost of every translation run that has a log.

    After each run, yield the costs of the saved ensembles whose first member is this run.
    """
    records = {run.folder: run.record for run in measurements.runs}
    for run in measurements.runs:
        if run.spec.task.kind != "translation":
            continue
        if run.record is not None:
            yield _cost_of(run.folder, run.scores, run.scale, [run.record])
        for ensemble in run.ensembles:
            folders = [member.as_posix() for member in ensemble.members]
            members = [record for record in map(records.get, folders) if record is not None]
            if len(members) == len(folders):
                yield _cost_of(" + ".join(folders), ensemble.scores, f"ensemble of {len(folders)}", members)


def _cost_of(folder: str, scores: Mapping[str, Any], scale: str, records: Sequence[TrainingRecord]) -> OwnCost:
    bleu = [get_metric(name).read_score(scores.get("test")) for name in ("paper_bleu", "bleu")]
    peaks = {record.peak for record in records}
    return OwnCost(
        folder,
        next((score for score in bleu if score is not None), None),
        scale,
        seconds=sum(record.seconds for record in records),
        devices=max(record.devices for record in records),
        peak=peaks.pop() if len(peaks) == 1 else 0.0,
        estimated_flops=sum(record.estimated_flops for record in records) if all(r.peak for r in records) else 0.0,
        flops=sum(record.flops for record in records),
    )
