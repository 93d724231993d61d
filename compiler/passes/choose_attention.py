"""Fused attention saves memory traffic on a GPU. On a CPU, separate calls are faster for short sentences."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graphs
from compiler.options import CompileOptions
from specs import Spec


def choose_attention(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """On a GPU, use one fused kernel for each dot-product attention without dropout. Otherwise use separate calls."""
    if options.device != "cuda":
        return graphs
    return {
        purpose: replace(
            graph,
            nodes=tuple(
                replace(n, operation=n.operation.fused(has_parameters=bool(n.parameters))) for n in graph.nodes
            ),
        )
        for purpose, graph in graphs.items()
    }
