"""Table 2: BLEU on newstest2014 and the cost of training, of others' systems and of the paper's (6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper.checks import equals, hardware, holds, scored
from zoo.paper.claim import Check, Claim, Printed
from zoo.paper.evidence import Evidence
from zoo.paper.numbers import power, slug
from zoo.planning.footprint import footprint
from zoo.training.record import Record

HOUR, DAY = 3600.0, 86400.0
SUSTAINED = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
"""FLOPs a second in single precision, as the footnote to 6.1 takes them."""
GPUS = 8
"""P100s, of one machine (5.2)."""


@dataclass(frozen=True)
class Pair:
    """What a system has on a language pair, as printed: BLEU, the FLOPs of its training, the spec of it where ours."""

    bleu: tuple[Printed, ...] = ()
    flops: str | None = None
    spec: str | None = None


@dataclass(frozen=True)
class System:
    """A row of the table. `seconds` is how long the paper's own trained."""

    name: str
    german: Pair = Pair()
    french: Pair = Pair()
    ensemble: bool = False
    seconds: float | None = None

    @property
    def key(self) -> str:
        return slug(f"{self.name}{' ensemble' if self.ensemble else ''}")

    @property
    def pairs(self) -> dict[str, Pair]:
        """By how the paper calls them."""
        return {"EN-DE": self.german, "EN-FR": self.french}


def _pair(bleu: str, flops: str | None = None, spec: str | None = None) -> Pair:
    return Pair((Printed(bleu),), flops, spec)


_FRENCH_OF_BIG = (Printed("41.8", "abstract and Table 2 of the newest version"), Printed("41.0", "two versions"))
BASE = System(
    "Transformer (base)", _pair("27.3", "3.3e18", "base"), _pair("38.1", "3.3e18", "base-enfr"), seconds=12 * HOUR
)
BIG = System(
    "Transformer (big)",
    _pair("28.4", "2.3e19", "big"),
    Pair(_FRENCH_OF_BIG, "2.3e19", "big-enfr"),
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
    """Of the whole training that a spec declares: its steps of full batches, forward and backward, by the compiler."""
    of = specs.load(spec)
    return float(of.training.steps * footprint(of).step_flops)


def claims() -> Iterator[Claim]:
    for system in ROWS:
        for languages, pair in system.pairs.items():
            key, says = f"table2.{system.key}.{languages.lower()}", f"{system.name}, {languages}"
            says += " (ensemble)" if system.ensemble else ""
            if pair.bleu:
                check = scored("test", "paper_bleu", "bleu")
                yield Claim(f"{key}.bleu", "Table 2", f"{says}: BLEU", check, pair.bleu, "BLEU", pair.spec)
            if pair.flops:
                printed, told = (Printed(pair.flops),), f"{says}: cost of training"
                yield Claim(f"{key}.flops", "Table 2", told, _cost(system), printed, "FLOPs", pair.spec)
    for name, flops in SUSTAINED.items():
        says, printed = f"a {name} sustains, in single precision", (Printed(f"{flops / 1e12}"),)
        yield Claim(f"table2.{slug(name)}", "6.1, footnote", says, hardware(name), printed, "TFLOPS")
    yield from (Claim(f"table2.{key}", section, says, holds(decide)) for key, section, says, decide in _SENTENCES)


def _cost(system: System) -> Check:
    seconds = system.seconds
    if seconds is None:
        return scored("test")

    def derive() -> tuple[float, str]:
        flops = seconds * GPUS * SUSTAINED["P100"]
        time = f"{seconds / HOUR:g} hours" if seconds < DAY else f"{seconds / DAY:g} days"
        return flops, f"{time} x {GPUS} P100 x {SUSTAINED['P100'] / 1e12} TFLOPS = {power(flops)}"

    return equals(derive, power)


def _best(languages: str, *, ensembles: bool) -> tuple[System, float]:
    """The best of the others by BLEU."""
    found = [
        (system, system.pairs[languages].bleu[0].value)
        for system in OTHERS
        if system.pairs[languages].bleu and (ensembles or not system.ensemble)
    ]
    return max(found, key=lambda each: each[1])


def _flops(system: System, languages: str) -> float:
    return float(system.pairs[languages].flops or "inf")


def _by_two() -> tuple[bool, str]:
    system, best = _best("EN-DE", ensembles=True)
    ours = BIG.german.bleu[0].value
    margin = round(ours - best, 2)
    return margin > 2.0, f"printed: {ours} and {best}, of the ensemble of {system.name}: {margin} apart"


def _base_surpasses() -> tuple[bool, str]:
    system, best = _best("EN-DE", ensembles=True)
    ours = BASE.german.bleu[0].value
    return ours > best, f"printed: {ours}, and {best} of the ensemble of {system.name}"


def _cheaper(languages: str, of: System) -> tuple[bool, str]:
    priced = [system for system in OTHERS if system.pairs[languages].flops]
    least = min(priced, key=lambda system: _flops(system, languages))
    share = _flops(of, languages) / _flops(least, languages)
    return share < 1, f"printed: {share:.2g} times the cost of the cheapest, {least.name}"


def _all_single() -> tuple[bool, str]:
    system, best = _best("EN-FR", ensembles=False)
    values = [each.value for each in BIG.french.bleu]
    told = " or ".join(f"{value:g}" for value in values)
    return min(values) > best, f"printed: {told}, and {best} of {system.name}, the best of the single models"


def _all_of_them() -> tuple[bool, str]:
    system, best = _best("EN-FR", ensembles=True)
    below = [each for each in BIG.french.bleu if each.value <= best]
    told = f"{best} of the ensemble of {system.name}"
    return not below, f"printed: {told}; " + (f"above {', '.join(map(str, below))}" if below else "below all of ours")


def _quarter() -> tuple[bool, str]:
    system, _ = _best("EN-FR", ensembles=False)
    share = _flops(BIG, "EN-FR") / _flops(system, "EN-FR")
    told = f"{BIG.french.flops} and {system.french.flops} of {system.name}, the best single model"
    return share < 0.25, f"printed: {told}: {share:.2f} of it"


def _one_score() -> tuple[bool, str]:
    told = " and ".join(str(each) for each in _FRENCH_OF_BIG)
    return len({each.value for each in _FRENCH_OF_BIG}) == 1, f"{told}; 6.1 has 41.0 in the newest, too"


_SENTENCES = (
    ("by-two", "6.1", "big is more than 2.0 BLEU better than all before, ensembles included, EN-DE", _by_two),
    ("base-best", "6.1", "even base surpasses all models and ensembles published before, EN-DE", _base_surpasses),
    ("base-cheap", "6.1", "base cost a fraction of any competitive model, EN-DE", lambda: _cheaper("EN-DE", BASE)),
    ("big-cheap", "abstract", "big cost a fraction of the best models, EN-FR", lambda: _cheaper("EN-FR", BIG)),
    ("big-cheap-german", "Table 2", "big cost less than any other, EN-DE too", lambda: _cheaper("EN-DE", BIG)),
    ("single", "6.1", "big outperforms all single models published before, EN-FR", _all_single),
    ("ensembles", "Table 2", "big outperforms all ensembles published before, EN-FR too", _all_of_them),
    ("quarter", "6.1", "at less than 1/4 of the training cost of the previous state of the art, EN-FR", _quarter),
    ("one-score", "6.1", "abstract, Table 2 and 6.1 print one BLEU of big, EN-FR", _one_score),
)


@dataclass(frozen=True)
class OwnCost:
    """Of a run here, or of several whose probabilities are averaged: what section 6.1 would call the cost of their
    training, and the FLOPs that it really did."""

    folder: str
    bleu: float | None
    """On its own test set, by the paper's tokens where it was scored so."""
    scale: str
    seconds: float
    devices: int
    peak: float
    """0 where the log does not tell, or several were trained on other devices."""
    priced: float
    flops: float


def own(evidence: Evidence) -> Iterator[OwnCost]:
    """Of every run that has a log of its training, and translates; behind a run the ensembles that it is first of."""
    records = {run.folder: run.record for run in evidence.runs}
    for run in evidence.runs:
        if run.spec.task.kind != "translation":
            continue
        if run.record is not None:
            yield _together(run.folder, run.scores, run.scale, [run.record])
        for ensemble in run.ensembles:
            folders = [member.as_posix() for member in ensemble.members]
            trained = [record for record in map(records.get, folders) if record is not None]
            if len(trained) == len(folders):
                yield _together(" + ".join(folders), ensemble.scores, f"ensemble of {len(folders)}", trained)


def _together(folder: str, scores: Mapping[str, Any], scale: str, records: Sequence[Record]) -> OwnCost:
    found = [get_metric(name).read_score(scores.get("test")) for name in ("paper_bleu", "bleu")]
    peaks = {record.peak for record in records}
    return OwnCost(
        folder,
        next((score for score in found if score is not None), None),
        scale,
        seconds=sum(record.seconds for record in records),
        devices=max(record.devices for record in records),
        peak=peaks.pop() if len(peaks) == 1 else 0.0,
        priced=sum(record.priced for record in records) if all(record.peak for record in records) else 0.0,
        flops=sum(record.flops for record in records),
    )
