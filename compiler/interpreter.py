"""Runs a graph node by node in plain torch: slow, and obviously right. What is emitted is tested against this."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from compiler.graph import Graph

Environment = Mapping[str, Tensor]


def interpret(graph: Graph, weights: Environment, inputs: Environment) -> dict[str, Tensor]:
    """What leaves a graph. `weights` are the tensors of a weights file; dropout does nothing here."""
    parameters = {name: parameter.origin.make(weights) for name, parameter in graph.parameters.items()}
    values = dict(inputs)
    for node in graph.nodes:
        given = [values[i] for i in node.inputs], [parameters[p] for p in node.parameters]
        values[node.name] = node.operation.interpret(*given)
    return {name: values[value] for name, value in graph.results.items()}
