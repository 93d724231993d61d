"""Graphs in Graphviz's DOT language."""

from __future__ import annotations

import json
from itertools import groupby

from compiler import Purpose, lower
from compiler.operations.operation import Shape
from compiler.passes.variants import drop_dropout
from specs import Spec


def graphviz(spec: Spec) -> str:
    """Return the graph of a spec's model in training, in Graphviz's DOT language. Each layer is a cluster.

    The graph is as lowered, before the compiler passes, but without dropout of probability 0. The label of each node
    contains the operation, the name of the result and its shape.
    """
    graph = drop_dropout(lower(spec, Purpose.TRAIN))
    lines = [f"digraph {_quote(spec.name)} {{", "rankdir=BT", "node [shape=box]"]
    lines += [f"{_quote(name)} [shape=oval, label={_quote(name, type_.shape)}]" for name, type_ in graph.inputs.items()]
    for layer, nodes in groupby(graph.nodes, key=lambda node: node.layer):
        lines += [f"subgraph {_quote(f'cluster_{layer}')} {{", f"label={_quote(layer)}"] if layer else []
        for node in nodes:
            title = f"{type(node.operation).__name__}: {node.name.removeprefix(f'{layer}.')}"
            lines.append(f"{_quote(node.name)} [label={_quote(title, node.type.shape)}]")
        lines += ["}"] if layer else []
    lines += [f"{_quote(source)} -> {_quote(node.name)}" for node in graph.nodes for source in node.inputs]
    return "\n".join([*lines, "}\n"])


def _quote(name: str, shape: Shape | None = None) -> str:
    """Quote a name for Graphviz, with the shape of its value on a second line."""
    # JSON and DOT share the escapes that occur here: quotation marks, backslashes and line breaks.
    return json.dumps(name if shape is None else f"{name}\n[{', '.join(map(str, shape))}]", ensure_ascii=False)
