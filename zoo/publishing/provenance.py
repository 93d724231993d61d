"""What is known of a run as it is published: its facts, from its folder and the corpus that was prepared for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import specs
from specs import Archive, Spec, ZooError, difference
from specs.notation import on_one_line
from zoo.data.prepare import Prepared
from zoo.evaluation.metric import METRICS
from zoo.files import manifest, places
from zoo.files.download import known_sha256
from zoo.files.files import read_json
from zoo.models.weights import Weights
from zoo.planning.memory_estimate import estimate_memory
from zoo.publishing.facts import Facts, Parent, Point, Text, Training, fingerprint
from zoo.training.run import Run
from zoo.training.run_log import read_log, training_record
from zoo.version import __version__

_POINTS = 64
"""Of a curve, at most."""
_COMPARED = ("task", "architecture", "vocabulary", "training")


def facts_of(spec: Spec, run: Run, weights: Weights) -> Facts:
    """Of a run that is published now, as far as its folder and the prepared corpus tell."""
    return Facts(
        spec=fingerprint(spec),
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        by=__version__,
        parent=_parent(spec),
        text=_text(spec, run),
        training=_training(spec, run, weights),
    )


def facts_of_import(spec: Spec, origin: Mapping[str, str], notes: Sequence[str] = ()) -> Facts:
    """Of a model that was made elsewhere: what its format said of it, and what its users should know."""
    return Facts(
        spec=fingerprint(spec),
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        by=__version__,
        imported=dict(origin),
        notes=tuple(notes),
    )


def _parent(spec: Spec) -> Parent:
    """A shipped spec's own is the one that it extends."""
    changed = {short: dict(_changed(spec, other)) for short, other in _shipped().items()}
    nearest = min(changed, key=lambda short: len(changed[short]))
    if not changed[nearest] and (parent := specs.parent(nearest)):
        return Parent(parent.short, dict(_changed(spec, parent)))
    return Parent(nearest, changed[nearest])


@cache
def _shipped() -> Mapping[str, Spec]:
    return {short: specs.load(short) for short in specs.names()}


def _changed(spec: Spec, other: Spec) -> Iterator[tuple[str, tuple[str, str]]]:
    for key, (there, here) in difference(spec, other).items():
        if key.partition(".")[0] in _COMPARED:
            yield key, (on_one_line(there).strip("`"), on_one_line(here).strip("`"))


def _text(spec: Spec, run: Run) -> Text:
    archives = {
        part.archive: known
        for part in spec.corpus.parts
        if isinstance(part, Archive) and (known := part.sha256 or known_sha256(part.archive))
    }
    prepared = _prepared(run)
    if prepared is None:
        return Text(_known(run, "fingerprint"), {}, archives)
    entries = manifest.read(prepared.folder).entries
    return Text(prepared.fingerprint, {name: entry.sha256 for name, entry in entries.items()}, archives)


def _prepared(run: Run) -> Prepared | None:
    """The corpus that it was trained on, where that is still here."""
    try:
        return Prepared(places.prepared() / str(read_json(run.data)["fingerprint"]))
    except (ZooError, KeyError):
        return None


def _known(run: Run, fact: str) -> str:
    try:
        return str(read_json(run.data).get(fact, ""))
    except ZooError:  # a run of before there was such a file
        return ""


def _training(spec: Spec, run: Run, weights: Weights) -> Training:
    averaged = tuple(int(step) for step in weights.facts.get("steps", "").split(",") if step.isdecimal())
    record = training_record(run, spec)
    common: dict[str, Any] = {"machine": _known(run, "machine"), "software": _known(run, "software")}
    if record is None:
        last = weights.last_step
        flops = None if last is None else float(last * estimate_memory(spec).step_flops)
        return Training(spec.training.seed, averaged, last, flops, **common)
    return Training(
        spec.training.seed,
        averaged,
        record.steps,
        flops=record.flops,
        priced=record.estimated_flops or None,
        seconds=record.seconds,
        devices=record.devices,
        curve=tuple(_curve(run)),
        **common,
    )


def _curve(run: Run) -> Iterator[Point]:
    """Where the dev set was scored, if it ever was; a few of many, the last among them."""
    called = {f"dev_{metric.name}": metric.name for metric in METRICS}
    lines = read_log(run)
    scored = [line for line in lines if called.keys() & line.keys()] or lines
    every = -(-len(scored) // _POINTS)
    for line in scored[::-1][::every][::-1]:
        dev = {name: float(line[key]) for key, name in called.items() if isinstance(line.get(key), int | float)}
        yield Point(int(line["step"]), line.get("loss"), dev)
