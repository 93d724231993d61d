"""Generate readable PyTorch code from a graph: a function for each kind of layer, and a main function that calls them.

Layers with the same code share one function, so that it is compiled once. Every function takes `w`, a tree of modules
that contains the parameters (such as `w.encoder[0].self_attention.query`).
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise

from compiler.graph import Graph, Purpose, numbered, unique_name
from compiler.operations.operation import EmitContext, Node, ValueKind
from compiler.size import Size

MAX_LINE_LENGTH = 110
IMPORTS = {
    "math": "import math",
    "torch": "import torch",
    "functional": "from torch.nn import functional",
    "cuda": "from compiler import cuda",
    **{name: f"from compiler.runtime import {name}" for name in ("attention", "layers", "losses")},
    "HeadColumns": "from compiler.operations.attention import HeadColumns",
}
"""Names that emitted code can use, with the statements that import them."""


@dataclass
class EmittedCode:
    """Generated Python code that executes graphs: functions for layers, and a main function for each purpose."""

    layers: dict[str, str] = field(default_factory=dict)
    """Source code of each layer function. The keys are the function names."""
    main: dict[str, str] = field(default_factory=dict)
    """Source code of the function for each purpose. The function has the name of the purpose."""

    def __str__(self) -> str:
        text = "\n\n".join([*self.layers.values(), *self.main.values()])
        imports = [statement for name, statement in IMPORTS.items() if re.search(rf"(?<![\w.]){name}[.(]", text)]
        return "\n".join([*imports, "\n", text])

    def layer_function(self, kind: str, body: str) -> str:
        """Return the name of the function with this body. If there is none, add one, and name it after `kind`."""
        name = next(name for name in numbered(kind) if self.layers.get(name) in (None, f"def {name}{body}"))
        self.layers[name] = f"def {name}{body}"
        return name


def emit(graphs: Iterable[Graph]) -> EmittedCode:
    """Generate Python code for graphs. Layers with the same code share one function, even in different graphs."""
    code = EmittedCode()
    for graph in graphs:
        code.main[graph.purpose] = _main_function(graph, code)
    return code


_SUFFIXES = {(Purpose.DECODE_STEP, "decoder"): "_step", (Purpose.ENCODE, "decoder"): "_memory"}
"""Name suffixes of functions that compute only a part of the paper's decoder layer."""


class _Names:
    """Unique variable names in one emitted function. The names omit `prefix`, the path of the function's layer."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.values: dict[str, str] = {}
        """Unique variable names, keyed by the names of the graph's values."""
        self.parameters: dict[str, str] = {}
        """Names of the arguments that are parameters of other parts of the model, keyed by parameter."""
        self._taken = {"w", "inputs", *IMPORTS}

    def new(self, wanted: str) -> str:
        """Return an unused name, as similar to `wanted` as possible."""
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        if not _is_identifier(wanted) or re.search(r"_layer(_|$)", wanted):
            wanted = f"v_{wanted}"
        name = unique_name(wanted, self._taken)
        self._taken.add(name)
        return name

    def temporary(self, name: str, suffix: str) -> str:
        """Return an unused name: `name` with its last word replaced by `suffix`.

        For example, cross_context becomes cross_weights if `suffix` is weights.
        """
        return self.new("_".join(filter(None, (name.rpartition("_")[0], suffix))))

    def assign(self, value: str, wanted: str | None = None) -> str:
        """Assign an unused variable name to a value, based on `wanted` or on the value's own name. Return the name."""
        self.values[value] = self.new(wanted or value.removeprefix(self.prefix))
        return self.values[value]

    def parameter(self, parameter: str) -> str:
        """Return the Python expression for a parameter."""
        return self.parameters.get(parameter) or _parameter_path(parameter.removeprefix(self.prefix))


def _main_function(graph: Graph, code: EmittedCode) -> str:
    """Return the main function for a graph. Each layer becomes a call, and every other node becomes one line."""
    names = _Names()
    plain = [name for name in graph.inputs if _is_identifier(name) and names.new(name) == name]
    names.values |= {name: name if name in plain else f"inputs[{json.dumps(name)}]" for name in graph.inputs}
    lines = [f"def {graph.purpose}(w, inputs):"]
    if plain:
        lines.append(f"{', '.join(plain)} = " + ", ".join(f'inputs["{name}"]' for name in plain))
    for layer, group in groupby(graph.nodes, lambda node: node.layer):
        nodes = list(group)
        lines += _layer_call(graph, code, names, layer, nodes) if layer else _body(graph, nodes, names)
    results = [f"    {json.dumps(name)}: {names.values[value]}," for name, value in graph.results.items()]
    return "\n    ".join([*lines, "return {", *results, "}"]) + "\n"


def _layer_call(graph: Graph, code: EmittedCode, names: _Names, layer: str, nodes: list[Node]) -> Iterator[str]:
    """Emit the function of a layer, unless it already exists. Yield the line that calls the function."""
    own = {node.name for node in nodes}
    used = {i for node in graph.nodes if node.name not in own for i in node.inputs}
    results = [node.name for node in nodes if node.name in used.union(graph.results.values())]
    if not results:
        return
    body, values, parameters = _layer_function(graph, layer, nodes, results)
    stack, index = layer.split(".")
    name = code.layer_function(stack + "_layer" + _SUFFIXES.get((graph.purpose, stack), ""), body)
    arguments = [names.values[value] for value in values] + [_parameter_path(parameter) for parameter in parameters]
    wanted = [layer] if len(results) == 1 else results
    targets = [names.assign(result, target) for result, target in zip(results, wanted, strict=True)]
    yield _wrapped(f"{', '.join(targets)} = {name}(", [f"w.{stack}[{index}]", *arguments])


def _layer_function(
    graph: Graph, layer: str, nodes: list[Node], results: list[str]
) -> tuple[str, list[str], list[str]]:
    """Return a layer function's code without its name, and the values and parameters to pass to the function.

    The code omits the layer's index, so identical layers have identical code. Only parameters that do not belong to the
    layer are passed.
    """
    names, types, own = _Names(f"{layer}."), graph.types, {node.name for node in nodes}
    values = sorted(
        dict.fromkeys(i for node in nodes for i in node.inputs if i not in own),
        key=lambda v: (types[v].kind in (ValueKind.MASK, ValueKind.BIAS), v.startswith(names.prefix)),
    )
    unnamed = iter(["x", "memory"])
    for value in values:
        if value.startswith(names.prefix) or types[value].kind is not ValueKind.FLOAT:
            names.assign(value)
        else:  # the output of the layer below and, in a decoder, the memory
            names.assign(value, next(unnamed, "x"))
    outside = dict.fromkeys(p for node in nodes for p in node.parameters if not p.startswith(names.prefix))
    names.parameters = {parameter: names.new(parameter) for parameter in outside}
    arguments = ["w", *(names.values[value] for value in values), *names.parameters.values()]
    lines = [_wrapped("(", arguments, MAX_LINE_LENGTH - len(layer) - 20) + ":", *_body(graph, nodes, names)]
    body = "\n    ".join([*lines, f"return {', '.join(names.values[result] for result in results)}"]) + "\n"
    return body, values, list(outside)


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


def _body(graph: Graph, nodes: list[Node], names: _Names) -> Iterator[str]:
    """Yield the lines of code that compute nodes of a graph.

    Slices that together cover a whole value become one `chunk` or `split`. Otherwise the gradient of each slice would
    be as large as the value, and mostly zeros.
    """
    for _, group in groupby(nodes, _slice_key):
        run = list(group)
        if split := _split(graph, run):
            parts, call = [names.assign(node.name) for node in run], f"{names.values[run[0].inputs[0]]}.{split}"
            line = f"{', '.join(parts)} = {call}"
            yield line if len(line) <= MAX_LINE_LENGTH else f"{_wrapped('(', parts, width=0)} = {call}"
            continue
        for node in run:
            inputs, parameters = [names.values[i] for i in node.inputs], [names.parameter(p) for p in node.parameters]
            name = names.assign(node.name)
            context = EmitContext(partial(names.temporary, name))
            expression = node.operation.emit(context, inputs, parameters)
            yield from context.statements
            yield f"{name} = {expression}"


def _slice_key(node: Node) -> tuple[str, int] | str:
    """Return a key that is the same for all slices of a value along a dimension. Other nodes have unique keys."""
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
