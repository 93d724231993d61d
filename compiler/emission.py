"""Generate readable PyTorch code from a graph: a function for each kind of layer, and a main function that calls them.

Layers with the same code share one function, so that it is compiled once. Every function takes `w`, a tree of modules
that contains the parameters (such as `w.encoder[0].self_attention.query`).
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise

from compiler.graph import Graph, Purpose
from compiler.operations.operation import EmitContext, GraphError, Node, ValueKind
from compiler.size import Size

MAX_LINE_LENGTH = 110
IMPORTS = {
    "math": "import math",
    "torch": "import torch",
    "functional": "from torch.nn import functional",
    **{name: f"from compiler import {name}" for name in ("fused", "runtime", "slots", "sublayers", "windows")},
    "HeadColumns": "from compiler.operations.attention import HeadColumns",
}
"""Names that emitted code can use, with the statements that import them."""


@dataclass
class EmittedCode:
    """Python source code that computes graphs: functions for layers, and one main function per purpose."""

    layers: dict[str, str] = field(default_factory=dict)
    """Source code of each layer function. The keys are the function names."""
    main: dict[str, str] = field(default_factory=dict)
    """Source code of the function for each purpose. The function has the name of the purpose."""

    def __str__(self) -> str:
        text = "\n\n".join([*self.layers.values(), *self.main.values()])
        imports = [statement for name, statement in IMPORTS.items() if re.search(rf"\b{name}[.(]", text)]
        return "\n".join([*imports, "\n", text])

    def layer_function(self, kind: str, body: str) -> str:
        """Return the name of the function with this body. If there is no such function, add it, named after `kind`."""
        for number in range(1, len(self.layers) + 2):
            name = kind if number == 1 else f"{kind}_{number}"
            text = f"def {name}{body}"
            if self.layers.setdefault(name, text) == text:
                return name
        raise GraphError(f"no free name for {kind}")


def emit(graphs: Iterable[Graph]) -> EmittedCode:
    """Generate Python code for graphs. Layers with the same code share one function, even in different graphs."""
    code = EmittedCode()
    for graph in graphs:
        code.main[graph.purpose] = _MainFunction(graph, code).text()
    return code


_SUFFIXES = {(Purpose.DECODE_STEP, "decoder"): "_step", (Purpose.ENCODE, "decoder"): "_memory"}
"""Name suffixes of functions that compute only a part of the paper's decoder layer."""


class _Names:
    """Unique variable names in one emitted function, keyed by the names of the graph's values."""

    def __init__(self, code: EmittedCode) -> None:
        self.values: dict[str, str] = {}
        self._taken = {"w", "inputs", "math", "torch", *IMPORTS}

    def new(self, wanted: str) -> str:
        """Return an unused name, as similar to `wanted` as possible."""
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        if not _is_identifier(wanted) or re.search(r"_layer(_|$)", wanted):
            wanted = f"v_{wanted}"
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def temporary(self, name: str, suffix: str) -> str:
        """Return an unused name: `name` with `suffix` as its last word, such as cross_weights for cross_context."""
        return self.new("_".join(filter(None, (name.rpartition("_")[0], suffix))))

    def assign(self, value: str, wanted: str) -> str:
        """Give a value an unused variable name, as similar to `wanted` as possible. Return the variable name."""
        self.values[value] = self.new(wanted)
        return self.values[value]


class _MainFunction:
    """Generates the main function for a graph. Each layer becomes a call, and every other node becomes one line."""

    def __init__(self, graph: Graph, code: EmittedCode) -> None:
        self.graph, self.code, self.names = graph, code, _Names(code)

    def text(self) -> str:
        plain = [name for name in self.graph.inputs if _is_identifier(name) and self.names.new(name) == name]
        names = self.names.values
        names.update({name: name if name in plain else f"inputs[{json.dumps(name)}]" for name in self.graph.inputs})
        lines = [f"def {self.graph.purpose}(w, inputs):"]
        if plain:
            lines.append(f"{', '.join(plain)} = " + ", ".join(f'inputs["{name}"]' for name in plain))
        for layer, nodes in groupby(self.graph.nodes, lambda node: node.layer):
            if layer:
                lines += self._call(layer, list(nodes))
            else:
                lines += _body(self.graph, list(nodes), self.names, lambda name: name, _parameter_path)
        results = [f"    {json.dumps(name)}: {names[value]}," for name, value in self.graph.results.items()]
        return "\n    ".join([*lines, "return {", *results, "}"]) + "\n"

    def _call(self, layer: str, nodes: list[Node]) -> Iterator[str]:
        """Emit the layer's function, unless it already exists. Yield the line that calls the function."""
        own = {node.name for node in nodes}
        used = {i for node in self.graph.nodes if node.name not in own for i in node.inputs}
        results = [node.name for node in nodes if node.name in used.union(self.graph.results.values())]
        if not results:
            return
        function = _LayerFunction(self.graph, self.code, layer, nodes, results)
        stack, index = layer.split(".")
        kind = stack + "_layer" + _SUFFIXES.get((self.graph.purpose, stack), "")
        name = self.code.layer_function(kind, function.text)
        arguments = [self.names.values[v] for v in function.values] + [_parameter_path(p) for p in function.parameters]
        wanted = [layer] if len(results) == 1 else results
        targets = [self.names.assign(result, target) for result, target in zip(results, wanted, strict=True)]
        yield _wrapped(f"{', '.join(targets)} = {name}(", [f"w.{stack}[{index}]", *arguments])


class _LayerFunction:
    """Generates the function for a layer. The code omits the layer's index, so identical layers have identical code."""

    def __init__(self, graph: Graph, code: EmittedCode, layer: str, nodes: list[Node], results: list[str]) -> None:
        self.prefix, self.names, types = f"{layer}.", _Names(code), graph.types
        own = {node.name for node in nodes}
        outside = list(dict.fromkeys(i for node in nodes for i in node.inputs if i not in own))
        order = {value: index for index, value in enumerate(outside)}
        self.values = sorted(
            outside,
            key=lambda v: (types[v].kind in (ValueKind.MASK, ValueKind.BIAS), v.startswith(self.prefix), order[v]),
        )
        """Values of the graph that are passed as arguments, in order."""
        self.parameters = list(
            dict.fromkeys(p for node in nodes for p in node.parameters if not p.startswith(self.prefix))
        )
        """Parameters that do not belong to the layer. They are passed after the values."""
        unnamed = iter(["x", "memory"])
        for value in self.values:
            if value.startswith(self.prefix) or types[value].kind is not ValueKind.FLOAT:
                self.names.assign(value, self._relative(value))
            else:  # the output of the layer below and, in a decoder, the memory
                self.names.assign(value, next(unnamed, "x"))
        shared = {p: self.names.new(p) for p in self.parameters}
        arguments = [*(self.names.values[value] for value in self.values), *shared.values()]

        def path(parameter: str) -> str:
            return shared.get(parameter) or _parameter_path(self._relative(parameter))

        lines = [
            _wrapped("(", ["w", *arguments], MAX_LINE_LENGTH - len(layer) - 20) + ":",
            *_body(graph, nodes, self.names, self._relative, path),
        ]
        self.text = "\n    ".join([*lines, f"return {', '.join(self.names.values[r] for r in results)}"]) + "\n"

    def _relative(self, name: str) -> str:
        return name.removeprefix(self.prefix)


def _is_identifier(name: str) -> bool:
    """Return whether Python can use the string as a name unchanged. Python changes `ﬁ` to `fi`, for example."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _parameter_path(parameter: str) -> str:
    """Return the Python expression for a parameter, such as w.a[0].b for a.0.b."""
    path = "w"
    for part in parameter.split("."):
        attribute = f"{path}.{part}" if _is_identifier(part) else f"getattr({path}, {part!r})"
        path = f"{path}[{part}]" if part.isdecimal() else attribute
    return path


def _wrapped(start: str, arguments: Sequence[str], width: int = MAX_LINE_LENGTH) -> str:
    """Return a call as one line of code or, if the line would be too long, with one line per argument."""
    line = f"{start}{', '.join(arguments)})"
    return line if len(line) <= width else start + "".join(f"\n        {a}," for a in arguments) + "\n    )"


def _body(
    graph: Graph, nodes: list[Node], names: _Names, wanted: Callable[[str], str], path: Callable[[str], str]
) -> Iterator[str]:
    """Yield the lines of code that compute the nodes.

    Slices that together cover a whole value become one `chunk` or `split`. Otherwise the gradient of each slice would
    be as large as the value, and mostly zeros.

    Args:
        graph: The graph that contains the nodes.
        nodes: The nodes to emit.
        names: Names of the function's variables.
        wanted: Function that returns the preferred variable name of a value.
        path: Function that returns the expression of a parameter.
    """
    for _, group in groupby(nodes, _slice_key):
        run = list(group)
        if split := _split(graph, run):
            parts = [names.assign(node.name, wanted(node.name)) for node in run]
            yield _wrapped_split(parts, f"{names.values[run[0].inputs[0]]}.{split}")
            continue
        for node in run:
            inputs, parameters = [names.values[i] for i in node.inputs], [path(p) for p in node.parameters]
            name = names.assign(node.name, wanted(node.name))
            context = EmitContext(node.type, partial(names.temporary, name))
            expression = node.operation.emit(context, inputs, parameters)
            yield from context.statements
            yield f"{name} = {expression}"


def _slice_key(node: Node) -> tuple[str, int] | str:
    """Return a key that is equal for slices of one value along one dimension. Other nodes have unique keys."""
    part = node.operation.sliced_range()
    return (node.inputs[0], part[0]) if part else node.name


def _split(graph: Graph, run: list[Node]) -> str | None:
    """Return the `chunk` or `split` call that replaces several slices, or None if they do not cover the whole value."""
    parts = [part for node in run if (part := node.operation.sliced_range())]
    if len(parts) < 2:
        return None
    dimension = parts[0][0]
    ends = [0, *(stop or 0 for _, _, stop in parts)]
    size = graph.types[run[0].inputs[0]].shape[dimension]
    if [start for _, start, _ in parts] != ends[:-1] or size != Size.of(ends[-1]) or min(ends) < 0:
        return None
    widths = [stop - start for start, stop in pairwise(ends)]
    return f"chunk({len(widths)}, {dimension})" if len(set(widths)) == 1 else f"split({widths}, {dimension})"


def _wrapped_split(targets: list[str], call: str) -> str:
    line = f"{', '.join(targets)} = {call}"
    if len(line) <= MAX_LINE_LENGTH:
        return line
    return "(" + "".join(f"\n        {target}," for target in targets) + f"\n    ) = {call}"
