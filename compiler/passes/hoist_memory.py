"""What the decoder's step computes from the memory alone is the same in every step: the encoder computes it once."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Graphs, Node, Purpose, prune
from compiler.terms import Terms
from specs import Spec


def hoist_memory(graphs: Graphs, spec: Spec, terms: Terms) -> Graphs:
    """Moves the encoder-decoder keys and values out of the step and into the encoder."""
    if Purpose.ENCODE not in graphs or Purpose.DECODE_STEP not in graphs:
        return graphs
    encode, step = graphs[Purpose.ENCODE], graphs[Purpose.DECODE_STEP]
    moved = _of_memory_alone(step)
    names = {"memory"} | {node.name for node in moved}
    frontier = {i for node in step.nodes if node.name not in names for i in node.inputs if i in names}
    return {
        **graphs,
        Purpose.ENCODE: _extended(encode, moved, frontier, step),
        Purpose.DECODE_STEP: prune(
            replace(
                step,
                inputs={**step.inputs, **{node.name: node.type for node in moved if node.name in frontier}},
                nodes=tuple(node for node in step.nodes if node.name not in names),
            )
        ),
    }


def _of_memory_alone(step: Graph) -> list[Node]:
    moved: list[Node] = []
    known = {"memory"}
    for node in step.nodes:
        if known.issuperset(node.inputs):
            moved.append(node)
            known.add(node.name)
    return moved


def _extended(encode: Graph, moved: list[Node], frontier: set[str], step: Graph) -> Graph:
    memory = encode.outputs["memory"]
    nodes = tuple(replace(n, inputs=tuple(memory if i == "memory" else i for i in n.inputs)) for n in moved)
    kept = {output: value for output, value in encode.outputs.items() if output != "memory" or output in frontier}
    return prune(
        replace(
            encode,
            nodes=encode.nodes + nodes,
            outputs={**kept, **{name: name for name in sorted(frontier - {"memory"})}},
            parameters={**encode.parameters, **{p: step.parameters[p] for n in moved for p in n.parameters}},
        )
    )
