"""bfloat16 halves the bytes of a weight, and many processors multiply it several times as fast."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graphs
from compiler.options import CompileOptions
from compiler.weights import Parameter, Rounded
from specs import Spec


def bfloat16(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Round all weights to bfloat16, so that everything before the log-probabilities is computed in it."""
    if options.precision != "bfloat16":
        return graphs
    return {
        purpose: replace(graph, parameters={n: Parameter(n, Rounded(p.origin)) for n, p in graph.parameters.items()})
        for purpose, graph in graphs.items()
    }
