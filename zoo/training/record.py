"""What a run's own log says of its training: how long it took, on what, how much it computed, and what it learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from compiler import Purpose, cost, lower
from specs import Spec
from zoo.files.reading import read_json
from zoo.models.folder import RUN_IDENTITY, ModelFolder
from zoo.planning.plan import LENGTH

_NEEDED = ("step", "seconds", "source_tokens_per_second", "target_tokens_per_second", "utilisation")


@dataclass(frozen=True)
class Record:
    """Of the steps that were done; `seconds` are those spent in them, on all `devices` at once."""

    steps: int
    seconds: float
    devices: int
    flops: float
    """Of the matrix products, forward and backward, by the plan and the tokens, padding left out. It takes sentences to
    have the length that a plan takes them to have; a tenth more or less of that is a thousandth of the whole."""
    peak: float
    """FLOPs a second of a large matrix product on one of the devices, measured as each training began; 0 where the log
    does not tell."""

    @property
    def priced(self) -> float:
        """FLOPs as section 6.1 estimates them: the time, times the devices, times what one of them sustains."""
        return self.seconds * self.devices * self.peak


def lines_of(run: ModelFolder) -> list[Mapping[str, Any]]:
    """The lines of its log that are whole, in order; none where it has no log yet."""
    path = run.folder / "log.jsonl"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return [line for line in map(_whole, text.splitlines()) if line is not None]


def record_of(run: ModelFolder, spec: Spec) -> Record | None:
    """Nothing where the run has no log yet, or no line of it is whole. Raises ZooError where it cannot be read."""
    lines = lines_of(run)
    if not lines:
        return None
    ends = [0.0, *(line["seconds"] for line in lines)]
    spans = [(line, max(0.0, end - begin)) for line, (begin, end) in zip(lines, pairwise(ends), strict=True)]
    source, target = (sum(line[f"{side}_tokens_per_second"] * span for line, span in spans) for side in _SIDES)
    flops, busy = _flops(spec, source, target), sum(line["utilisation"] * span for line, span in spans)
    basis = read_json(run.folder / RUN_IDENTITY) if (run.folder / RUN_IDENTITY).is_file() else {}
    devices = basis.get("processes", 1)
    return Record(int(lines[-1]["step"]), ends[-1], devices, flops, flops / busy / devices if busy else 0.0)


_SIDES = ("source", "target")


def _flops(spec: Spec, source: float, target: float) -> float:
    """Of so many tokens of each side: those of the memory are the source's, those of attention to it the target's."""
    products = cost(lower(spec, Purpose.TRAIN)).flops
    reading, both = (products(batch=1, source=LENGTH, target=length) for length in (0, LENGTH))
    return 3 * (reading * source + (both - reading) * target) / LENGTH


def _whole(text: str) -> Mapping[str, Any] | None:
    """A line of the log, unless it was cut short."""
    try:
        line = json.loads(text)
        return line if all(isinstance(line[name], int | float) for name in _NEEDED) else None
    except (ValueError, KeyError, TypeError):
        return None
