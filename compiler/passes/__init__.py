"""Compiler passes, in the order in which they run. To add a pass, write its function and add a line to PASSES.

An exact pass changes results only by rounding errors. Other passes are approximate. A spec can disable a pass by name
(`compilation.disabled_passes`). Tests compare the results of each pass with the interpreter's results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, cast

from compiler.graph import Graphs, Purpose, verify
from compiler.lowering import lower
from compiler.operations.operation import GraphError
from compiler.options import choose_precision
from compiler.passes.decoder_step import beams_as_queries, hoist_memory, plan_cache
from compiler.passes.pack_rows import pack_rows
from compiler.passes.projections import fuse_memory, fuse_projections
from compiler.passes.variants import bfloat16, choose_attention, drop_dropout, int8
from compiler.passes.vocabulary import chunk_loss, pad_vocabulary
from compiler.weights import Parameter
from specs import Spec, ZooError
from specs.errors import suggest


@dataclass(frozen=True)
class Pass:
    """Compiler pass, and the device, precision and purposes for which it runs."""

    rewrite: Callable[[Any], Any]
    """Function that rewrites one graph or, if `together`, all graphs that share weights."""
    together: bool = False
    purposes: Collection[Purpose] = tuple(Purpose)
    """Purposes of the graphs to rewrite."""
    device: str | None = None
    """Kind of device that needs the pass: cpu or cuda. If None, all devices need it."""
    precision: str | None = None
    """Precision that needs the pass. If None, all precisions need it."""
    exact: bool = True
    """Whether results change only by rounding errors."""

    def apply(self, graphs: Graphs, device: str = "cpu", precision: str = "float32") -> Graphs:
        """Run the pass on graphs for a device and precision, and return the new graphs."""
        if self.device not in (None, device.partition(":")[0]) or self.precision not in (None, precision):
            return graphs
        if self.together:
            return cast("Graphs", self.rewrite(graphs))
        return {purpose: self.rewrite(g) if purpose in self.purposes else g for purpose, g in graphs.items()}

    @property
    def name(self) -> str:
        """The name of the pass, which is the name of its function."""
        return self.rewrite.__name__

    @property
    def summary(self) -> str:
        """The first line of the pass's docstring."""
        return (self.rewrite.__doc__ or "").strip().splitlines()[0]


PASSES = (
    Pass(drop_dropout),
    Pass(fuse_projections),
    Pass(hoist_memory, together=True),
    Pass(fuse_memory),
    Pass(beams_as_queries, purposes=(Purpose.DECODE_STEP,)),
    Pass(plan_cache, purposes=(Purpose.DECODE_STEP,)),
    Pass(pad_vocabulary, together=True),
    Pass(pack_rows, purposes=(Purpose.UPDATE,)),
    Pass(chunk_loss, purposes=(Purpose.TRAIN,)),
    Pass(choose_attention, device="cuda"),
    Pass(bfloat16, precision="bfloat16", exact=False),
    Pass(int8, precision="int8", exact=False),
)
TRANSLATE = (Purpose.ENCODE, Purpose.DECODE_STEP, Purpose.SCORE)
"""Purposes of the graphs that a translation program needs."""


def graphs(
    spec: Spec, purposes: Iterable[Purpose] = TRANSLATE, device: str = "cpu", precision: str | None = None
) -> Graphs:
    """Lower a spec to graphs, and run all passes on these graphs.

    Args:
        spec: The model's spec.
        purposes: The purposes of the graphs. ENCODE is omitted if the spec has no encoder, and DECODE_STEP if it has no
            decoder.
        device: The device that the graphs will run on.
        precision: The precision to use. If None, use the spec's precision or, for training, float32.

    Raises:
        ZooError: The precision or the name of a disabled pass is invalid.
    """
    stacks = {Purpose.ENCODE: spec.architecture.encoder, Purpose.DECODE_STEP: spec.architecture.decoder}
    purposes = tuple(purpose for purpose in purposes if stacks.get(purpose, True))
    precision = choose_precision(spec, purposes, precision)
    return optimise({purpose: lower(spec, purpose) for purpose in purposes}, spec, device, precision)


def optimise(graphs: Graphs, spec: Spec, device: str = "cpu", precision: str = "float32") -> Graphs:
    """Run all compiler passes that the spec does not disable. Verify the graphs after each pass, and return them.

    Raises:
        ZooError: `compilation.disabled_passes` contains an unknown name.
    """
    names = [p.name for p in PASSES]
    for name in spec.compilation.disabled_passes:
        if name not in names:
            hint = suggest(name, names).strip() or f"choose from {', '.join(names)}"
            raise ZooError(f"`{name}` in `compilation.disabled_passes` is not a compiler pass", hint=hint)
    for step in PASSES:
        if step.name not in spec.compilation.disabled_passes:
            before, graphs = graphs, step.apply(graphs, device, precision)
            _verify(graphs, step.name, before)
    return graphs


def _verify(graphs: Graphs, name: str, before: Graphs) -> None:
    """Check that all graphs changed by a pass are valid, and that parameters with the same name are equal.

    Args:
        graphs: The graphs after the pass.
        name: The name of the pass.
        before: The graphs before the pass.

    Raises:
        GraphError: A graph is invalid, or two graphs have different parameters with the same name.
    """
    known: dict[str, Parameter] = {}
    for purpose, graph in graphs.items():
        if graph != before.get(purpose):
            verify(graph)
        for parameter in graph.parameters.values():
            if known.setdefault(parameter.name, parameter) != parameter:
                raise GraphError(f"the pass `{name}` creates two different parameters named `{parameter.name}`")
