"""The passes, in the order in which they run. To add one: its file, and its line here.

A pass takes the graphs that share weights and gives them back changed. It is exact (the same numbers, to rounding)
or approximate, can be switched off by name (`compilation.disabled_passes`), and is tested against the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compiler.graph import Graphs, Purpose, verify
from compiler.lower import lower
from compiler.operations.operation import GraphError
from compiler.passes.beams_as_queries import beams_as_queries
from compiler.passes.bfloat16 import bfloat16
from compiler.passes.choose_attention import choose_attention
from compiler.passes.chunk_loss import chunk_loss
from compiler.passes.drop_dropout import drop_dropout
from compiler.passes.fold_scales import fold_scales
from compiler.passes.fuse_memory import fuse_memory
from compiler.passes.fuse_projections import fuse_projections
from compiler.passes.hoist_memory import hoist_memory
from compiler.passes.int8 import int8
from compiler.passes.pad_vocabulary import pad_vocabulary
from compiler.passes.plan_cache import plan_cache
from compiler.terms import Terms, terms_of
from compiler.weights import Parameter
from specs import Spec, ZooError
from specs.errors import nearest


@dataclass(frozen=True)
class Pass:
    """A named rewriting of graphs. Its summary is the first line of what its function says of itself."""

    apply: Callable[[Graphs, Spec, Terms], Graphs]
    exact: bool = True

    @property
    def name(self) -> str:
        return self.apply.__name__

    @property
    def summary(self) -> str:
        return (self.apply.__doc__ or "").strip().splitlines()[0]


PASSES = (
    Pass(drop_dropout),
    Pass(fold_scales),
    Pass(fuse_projections),
    Pass(hoist_memory),
    Pass(fuse_memory),
    Pass(beams_as_queries),
    Pass(plan_cache),
    Pass(pad_vocabulary),
    Pass(chunk_loss),
    Pass(choose_attention),
    Pass(bfloat16, exact=False),
    Pass(int8, exact=False),
)


TRANSLATE = (Purpose.ENCODE, Purpose.DECODE_STEP, Purpose.SCORE)
"""What a program for translating computes."""


def graphs(
    spec: Spec, purposes: Iterable[Purpose] = TRANSLATE, device: str = "cpu", precision: str | None = None
) -> Graphs:
    """The graphs of a spec after all passes, for a device. Raises ZooError as `terms_of` and `optimise` do."""
    purposes = tuple(purposes)
    terms = terms_of(spec, purposes, device, precision)
    return optimise({purpose: lower(spec, purpose) for purpose in purposes}, spec, terms)


def optimise(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """All passes but those in `compilation.disabled_passes`, each one's result verified. Raises ZooError on an unknown name."""
    names = [p.name for p in PASSES]
    for name in spec.compilation.disabled_passes:
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean `{near}`?" if near else f"the passes are {', '.join(names)}"
            raise ZooError(f"`{name}` in `compilation.disabled_passes` is not a pass", hint=hint)
    for step in PASSES:
        if step.name not in spec.compilation.disabled_passes:
            before, graphs = graphs, step.apply(graphs, spec, terms)
            _verify(graphs, step.name, before)
    return graphs


def _verify(graphs: Graphs, step: str, before: Graphs) -> None:
    """Each graph that has changed, and that what all share is the same: parameters of one name are made alike."""
    known: dict[str, Parameter] = {}
    for purpose, graph in graphs.items():
        if graph != before.get(purpose):
            verify(graph)
        for name, parameter in graph.parameters.items():
            if known.setdefault(name, parameter) != parameter:
                raise GraphError(f"`{step}` makes two parameters of the name `{name}`")
