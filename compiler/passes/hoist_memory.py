"""Each decoder step computes the same keys and values from the memory, so the encoder can compute them once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.graph import Graph, Graphs, Purpose, prune
from compiler.operations.operation import Node
from compiler.options import CompileOptions
from specs import Spec


def hoist_memory(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
    """Compute the keys and values of cross-attention once, in the encoder, instead of in each decoder step."""
    if Purpose.ENCODE not in graphs or Purpose.DECODE_STEP not in graphs:
        return graphs
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    memory = {name: value for name, value in encode.outputs.items() if name in step.inputs}
    moved = _memory_nodes(step, memory)
    names = {node.name for node in moved}
    if names & encode.types.keys():  # some would need another name
        return graphs
    read = {i for node in step.nodes if node.name not in names for i in node.inputs} | set(step.results.values())
    frontier = [node for node in moved if node.name in read]
    outputs = {output: value for output, value in encode.outputs.items() if output not in memory or output in read}
    hoisted = (replace(n, inputs=tuple(memory.get(i, i) for i in n.inputs)) for n in moved)
    return {
        **graphs,
        Purpose.ENCODE: prune(
            replace(
                encode,
                nodes=(*encode.nodes, *hoisted),
                outputs={**outputs, **{name: name for name in sorted(node.name for node in frontier)}},
                parameters={**encode.parameters, **{p: step.parameters[p] for n in moved for p in n.parameters}},
            )
        ),
        Purpose.DECODE_STEP: prune(
            replace(
                step,
                inputs={**step.inputs, **{node.name: node.type for node in frontier}},
                nodes=tuple(node for node in step.nodes if node.name not in names),
            )
        ),
    }


def _memory_nodes(step: Graph, memory: Iterable[str]) -> list[Node]:
    """Return the nodes of a decoder step that depend only on the memory, not on tokens or states."""
    nodes: list[Node] = []
    known = set(memory)
    for node in step.nodes:
        if known.issuperset(node.inputs):
            nodes.append(node)
            known.add(node.name)
    return nodes
