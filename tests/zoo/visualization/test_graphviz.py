"""A graph in Graphviz's language has the nodes, clusters and edges of the compiler's graph."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

import compiler
import specs
from compiler import Purpose
from compiler.passes.variants import drop_dropout
from zoo.visualization.graphviz import graphviz


@pytest.mark.parametrize("name", ["base", "rivals/gnmt", "speech/digits"])
def test_nodes_clusters_and_edges(name: str) -> None:
    """Names are quoted as in JSON, so the file can be read line by line."""
    graph = drop_dropout(compiler.lower(specs.load(name), Purpose.TRAIN))
    shapes, edges, cluster = dict[str, tuple[str, str]](), Counter[tuple[str, str]](), ""
    for line in graphviz(specs.load(name)).splitlines():
        quoted = [json.loads(each) for each in re.findall(r'"(?:[^"\\]|\\.)*"', line)]
        if " -> " in line:
            edges[quoted[0], quoted[1]] += 1
        elif " [" in line and quoted:
            shapes[quoted[0]] = (cluster, quoted[1].partition("\n")[2])
        elif "label=" in line or line == "}":
            cluster = "".join(quoted)
    assert edges == Counter((source, node.name) for node in graph.nodes for source in node.inputs)
    layers = {**dict.fromkeys(graph.inputs, ""), **{node.name: node.layer for node in graph.nodes}}
    assert shapes == {name: (layers[name], str(type_)[1:]) for name, type_ in graph.types.items()}
