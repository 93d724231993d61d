"""bfloat16 halves the size of the weights, and many processors multiply it several times as fast as float32."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graphs
from compiler.options import CompileOptions
from compiler.weights import Parameter, Rounded
from specs import Spec


def bfloat16(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Round all weights to bfloat16. PyTorch code then computes everything before the log-probabilities in bfloat16."""
    if options.precision != "bfloat16":
        return graphs
    return {
        purpose: replace(graph, parameters={n: Parameter(n, Rounded(p.origin)) for n, p in graph.parameters.items()})
        for purpose, graph in graphs.items()
    }
