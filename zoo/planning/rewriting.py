"""What each pass did to the graphs of a spec, in numbers (no torch is loaded)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler import PASSES, TRANSLATE, Graph, Graphs, Purpose, cost, lower
from compiler.cost import memory_traffic
from compiler.options import compile_options
from compiler.size import BEAMS
from specs import Spec
from zoo.planning.footprint import pairs


@dataclass(frozen=True)
class Sizes:
    """Of all graphs of a spec together, between two passes. A sentence has the plan's length on either side."""

    operations: int
    flops: int
    """Of matrix products, to translate a sentence with the spec's beam, a multiply-add counted as two."""
    weight_bytes: int
    """Of what translates; a matrix that several graphs use counts once."""
    step_bytes: int
    """What a decoder's step reads and writes, for one sentence at its last position."""
    activation_bytes: int
    """What training keeps of one part of a full batch for the backward pass."""


@dataclass(frozen=True)
class Rewriting:
    """A pass, and the sizes before and after it."""

    name: str
    summary: str
    exact: bool
    before: Sizes
    after: Sizes


def rewritings(spec: Spec, length: int) -> tuple[Rewriting, ...]:
    """Each pass that is not switched off with what it changed, in the order in which they run."""
    terms = compile_options(spec, [Purpose.TRAIN]), compile_options(spec, TRANSLATE)
    train: Graphs = {Purpose.TRAIN: lower(spec, Purpose.TRAIN)}
    translate: Graphs = {purpose: lower(spec, purpose) for purpose in TRANSLATE}
    before, found = sizes({**train, **translate}, spec, length), []
    for each in PASSES:
        if each.name in spec.compilation.without:
            continue
        train, translate = each.apply(train, spec, terms[0]), each.apply(translate, spec, terms[1])
        after = sizes({**train, **translate}, spec, length)
        found.append(Rewriting(each.name, each.summary, each.exact, before, after))
        before = after
    return tuple(found)


def sizes(graphs: Graphs, spec: Spec, length: int) -> Sizes:
    """Of the graphs of all purposes, with sentences of `length` tokens."""
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    flops, last = cost(step).flops, at(step, spec.decoding.beam, length)
    _, part = pairs(spec, length)
    parameters = {name: p for purpose in TRANSLATE for name, p in graphs[purpose].parameters.items()}
    return Sizes(
        operations=sum(len(graph.nodes) for graph in graphs.values()),
        flops=cost(encode).flops(batch=1, source=length)
        + sum(flops(**{**last, "past": read, "capacity": read + 1}) for read in range(length)),
        weight_bytes=sum(parameter.bytes for parameter in parameters.values()),
        step_bytes=memory_traffic(step)(**last),
        activation_bytes=cost(graphs[Purpose.TRAIN]).activation_bytes(batch=part, source=length, target=length),
    )


def at(step: Graph, beam: int, length: int) -> Mapping[str, int]:
    """The sizes of a decoder's step for the hypotheses of one sentence, when they read the last of `length` tokens."""
    rows = {"batch": 1, "beams": beam} if step.inputs["token"].shape[1] == BEAMS else {"batch": beam, "new": 1}
    return {**rows, "source": length, "past": length - 1, "capacity": length}
