"""Table 2: BLEU on newstest2014 and training cost, for the paper's models and earlier systems (section 6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper.claims import Check, Claim, Printed, equals, holds, needs_gpu, power_of_ten, scored, slug
from zoo.paper.evidence import Evidence
from zoo.planning.memory_estimate import estimate_memory
from zoo.training.run_log import TrainingRecord

HOUR, DAY = 3600.0, 86400.0
SUSTAINED = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
"""Sustained FLOPs per second of each GPU in single precision, from the footnote to section 6.1."""
GPUS = 8
"""Number of P100 GPUs that trained the paper's models, all in one machine (section 5.2)."""


@dataclass(frozen=True)
class PairResult:
    """Numbers that Table 2 prints for a system and a language pair.

    Attributes:
        bleu: BLEU. Several numbers if the paper contradicts itself, none if it prints none.
        flops: Training cost in FLOPs, as printed. None if the paper prints none.
        spec: Short name of the spec of the paper's own model. None for other systems.
    """

    bleu: tuple[Printed, ...] = ()
    flops: str | None = None
    spec: str | None = None


@dataclass(frozen=True)
class System:
    """System in a row of Table 2.

    `seconds` is its training time. It is None for earlier systems, because the paper does not print theirs.
    """

    name: str
    german: PairResult = PairResult()
    french: PairResult = PairResult()
    ensemble: bool = False
    seconds: float | None = None

    @property
    def key(self) -> str:
        """Name of the system in the keys of its claims, such as "gnmt-rl-ensemble"."""
        return slug(f"{self.name}{' ensemble' if self.ensemble else ''}")

    @property
    def pairs(self) -> dict[str, PairResult]:
        """Results of the system for each language pair. The keys are "EN-DE" and "EN-FR"."""
        return {"EN-DE": self.german, "EN-FR": self.french}


def _pair(bleu: str, flops: str | None = None, spec: str | None = None) -> PairResult:
    return PairResult((Printed(bleu),), flops, spec)


_FRENCH_OF_BIG = (Printed("41.8", "abstract and Table 2 of the newest version"), Printed("41.0", "two versions"))
BASE = System(
    "Transformer (base)", _pair("27.3", "3.3e18", "base"), _pair("38.1", "3.3e18", "base-enfr"), seconds=12 * HOUR
)
BIG = System(
    "Transformer (big)",
    _pair("28.4", "2.3e19", "big"),
    PairResult(_FRENCH_OF_BIG, "2.3e19", "big-enfr"),
    seconds=3.5 * DAY,
)
OTHERS = (
    System("ByteNet", _pair("23.75")),
    System("Deep-Att + PosUnk", french=_pair("39.2", "1.0e20")),
    System("GNMT + RL", _pair("24.6", "2.3e19"), _pair("39.92", "1.4e20")),
    System("ConvS2S", _pair("25.16", "9.6e18"), _pair("40.46", "1.5e20")),
    System("MoE", _pair("26.03", "2.0e19"), _pair("40.56", "1.2e20")),
    System("Deep-Att + PosUnk", french=_pair("40.4", "8.0e20"), ensemble=True),
    System("GNMT + RL", _pair("26.30", "1.8e20"), _pair("41.16", "1.1e21"), ensemble=True),
    System("ConvS2S", _pair("26.36", "7.7e19"), _pair("41.29", "1.2e21"), ensemble=True),
)
ROWS = (*OTHERS, BASE, BIG)


def planned_flops(spec: str) -> float:
    """Return the FLOPs of a spec's complete training run, counted by the compiler: all steps with full batches."""
    loaded = specs.load(spec)
    return float(loaded.training.steps * estimate_memory(loaded).step_flops)


def claims() -> Iterator[Claim]:
    """Yield the claims of Table 2, and the claims of the abstract and section 6.1 about this table."""
    for system in ROWS:
        for languages, pair in system.pairs.items():
            key, says = f"table2.{system.key}.{languages.lower()}", f"{system.name}, {languages}"
            says += " (ensemble)" if system.ensemble else ""
            if pair.bleu:
                check = scored("test", "paper_bleu", "bleu")
                yield Claim(f"{key}.bleu", "Table 2", f"{says}: BLEU", check, pair.bleu, "BLEU", pair.spec)
            if pair.flops:
                printed, cost = (Printed(pair.flops),), f"{says}: training cost"
                yield Claim(f"{key}.flops", "Table 2", cost, _cost(system), printed, "FLOPs", pair.spec)
    for name, flops in SUSTAINED.items():
        says, printed = f"sustained speed of a {name} in single precision", (Printed(f"{flops / 1e12}"),)
        yield Claim(f"table2.{slug(name)}", "6.1, footnote", says, needs_gpu(name), printed, "TFLOPS")
    yield from (Claim(f"table2.{key}", section, says, holds(decide)) for key, section, says, decide in _SENTENCES)


def _cost(system: System) -> Check:
    seconds = system.seconds
    if seconds is None:
        return scored("test")

    def derive() -> tuple[float, str]:
        flops = seconds * GPUS * SUSTAINED["P100"]
        time = f"{seconds / HOUR:g} hours" if seconds < DAY else f"{seconds / DAY:g} days"
        return flops, f"{time} x {GPUS} P100 x {SUSTAINED['P100'] / 1e12} TFLOPS = {power_of_ten(flops)}"

    return equals(derive, power_of_ten)


def _best(languages: str, *, ensembles: bool) -> tuple[System, float]:
    """Return the best earlier system in Table 2 for a language pair, and its BLEU.

    Args:
        languages: "EN-DE" or "EN-FR".
        ensembles: Whether ensembles are considered.
    """
    scores = [
        (system, system.pairs[languages].bleu[0].value)
        for system in OTHERS
        if system.pairs[languages].bleu and (ensembles or not system.ensemble)
    ]
    return max(scores, key=lambda score: score[1])


def _flops(system: System, languages: str) -> float:
    return float(system.pairs[languages].flops or "inf")


def _by_two() -> tuple[bool, str]:
    system, best = _best("EN-DE", ensembles=True)
    ours = BIG.german.bleu[0].value
    margin = round(ours - best, 2)
    return margin > 2.0, f"printed: {ours}, and {best} of the {system.name} ensemble: a difference of {margin}"


def _base_surpasses() -> tuple[bool, str]:
    system, best = _best("EN-DE", ensembles=True)
    ours = BASE.german.bleu[0].value
    return ours > best, f"printed: {ours}, and {best} of the {system.name} ensemble"


def _cheaper(languages: str, model: System) -> tuple[bool, str]:
    with_cost = [system for system in OTHERS if system.pairs[languages].flops]
    cheapest = min(with_cost, key=lambda system: _flops(system, languages))
    share = _flops(model, languages) / _flops(cheapest, languages)
    return share < 1, f"printed: {share:.2g} times the cost of the cheapest other system, {cheapest.name}"


def _all_single() -> tuple[bool, str]:
    system, best = _best("EN-FR", ensembles=False)
    values = [printed.value for printed in BIG.french.bleu]
    words = " or ".join(f"{value:g}" for value in values)
    return min(values) > best, f"printed: {words}, and {best} of {system.name}, the best other single model"


def _all_of_them() -> tuple[bool, str]:
    system, best = _best("EN-FR", ensembles=True)
    below = [printed for printed in BIG.french.bleu if printed.value <= best]
    words = f"printed: {best} of the {system.name} ensemble"
    return not below, f"{words}; better than {', '.join(map(str, below))}" if below else f"{words}; big has more"


def _quarter() -> tuple[bool, str]:
    system, _ = _best("EN-FR", ensembles=False)
    share = _flops(BIG, "EN-FR") / _flops(system, "EN-FR")
    words = f"{BIG.french.flops}, and {system.french.flops} of {system.name}, the best other single model"
    return share < 0.25, f"printed: {words}: a share of {share:.2f}"


def _one_score() -> tuple[bool, str]:
    words = " and ".join(map(str, _FRENCH_OF_BIG))
    return len({printed.value for printed in _FRENCH_OF_BIG}) == 1, f"{words}; 6.1 prints 41.0 in the newest version"


_SENTENCES = (
    ("by-two", "6.1", "big is more than 2.0 BLEU better than all before, ensembles included, EN-DE", _by_two),
    ("base-best", "6.1", "even base surpasses all models and ensembles published before, EN-DE", _base_surpasses),
    ("base-cheap", "6.1", "base cost a fraction of any competitive model, EN-DE", lambda: _cheaper("EN-DE", BASE)),
    ("big-cheap", "abstract", "big cost a fraction of the best models, EN-FR", lambda: _cheaper("EN-FR", BIG)),
    (
        "big-cheap-german",
        "Table 2",
        "caption, a fraction of the training cost: big cost less than every other system, EN-DE",
        lambda: _cheaper("EN-DE", BIG),
    ),
    ("single", "6.1", "big outperforms all single models published before, EN-FR", _all_single),
    (
        "ensembles",
        "Table 2",
        "caption, better BLEU than the state of the art: big is better than all ensembles, EN-FR",
        _all_of_them,
    ),
    ("quarter", "6.1", "at less than 1/4 of the training cost of the previous state of the art, EN-FR", _quarter),
    ("one-score", "6.1", "abstract, Table 2 and 6.1 print the same BLEU of big, EN-FR", _one_score),
)


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
    """How the run differs from the shipped spec (see `RunEvidence.scale`)."""
    seconds: float
    devices: int
    peak: float
    """FLOPs per second of a large matrix product on the device. 0 if the log does not contain this speed, or if it
    differs between the members of an ensemble."""
    estimated_flops: float
    """Training cost in FLOPs, estimated as in section 6.1. 0 if a log does not contain `peak`."""
    flops: float
    """Training cost in FLOPs, counted over all matrix products."""


def own_costs(evidence: Evidence) -> Iterator[OwnCost]:
    """Yield the training cost of every translation run that has a log.

    After each run, yield the costs of the saved ensembles whose first member is this run.
    """
    records = {run.folder: run.record for run in evidence.runs}
    for run in evidence.runs:
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
