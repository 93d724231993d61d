"""Interpreter that runs a graph node by node in plain PyTorch. It is slow and simple: the reference for backends."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from compiler.graph import Graph


def interpret(graph: Graph, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the outputs and states of a graph, and return them by name. Dropout is off.

    Args:
        graph: The graph.
        weights: The tensors of a weights file by name.
        inputs: The inputs of the graph by name.
    """
    parameters = {name: parameter.origin.make(weights) for name, parameter in graph.parameters.items()}
    values = dict(inputs)
    for node in graph.nodes:
        arguments = [values[i] for i in node.inputs], [parameters[p] for p in node.parameters]
        values[node.name] = node.operation.interpret(*arguments)
    return {name: values[value] for name, value in graph.results.items()}
