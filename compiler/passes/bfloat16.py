"""Half the bytes of a weight, and products that many machines take at several times the speed."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graphs
from compiler.terms import Terms
from compiler.weights import Parameter, Rounded
from specs import Spec


def bfloat16(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Rounds every weight to bfloat16, and with them all that is computed up to the log-probabilities."""
    if terms.precision != "bfloat16":
        return graphs
    return {
        purpose: replace(graph, parameters={n: Parameter(n, Rounded(p.origin)) for n, p in graph.parameters.items()})
        for purpose, graph in graphs.items()
    }
