"""Random graphs: emitted code and passes depend only on the edges of a graph, never on names or order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import specs
from compiler import Purpose, emit, interpret, optimise
from compiler.backends import BuildRequest
from compiler.backends.eager import Functions, program
from compiler.builder import GraphBuilder, Value
from compiler.graph import Graph, StepState, prune, stored_tensors, unique_name, verify
from compiler.lowering.norm import LayerNorm
from compiler.lowering.positions import PositionalEncoding
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Add, Dropout, Gelu, Relu, Silu
from compiler.operations.mask import CausalMask, PaddingMask, UnwrittenMask
from compiler.operations.operation import Node, Operation, ValueKind, ValueType
from compiler.operations.probability import CrossEntropy, LogSoftmax
from compiler.operations.projection import Embedding, Linear, Logits
from compiler.operations.views import AppendToCache, MergeHeads, Slice, SplitHeads, WriteToCache
from compiler.size import BATCH, CAPACITY, NEW, PAST, SOURCE, Size
from compiler.weights import Initializer, Parameter, StoredTensor
from tests.examples import changed

SIZES = {"batch": 3, "source": 5, "new": 2, "past": 4, "capacity": 9}
WIDTH, HEADS, TOKENS = 8, 2, 30
LAYERS = ["", "", "encoder.0", "encoder.1", "decoder.0", "decoder.1", "odd_one.7"]
NAMES = ["given", "x", "memory", "w", "inputs", "torch", "math", "linear", "weights", "relu", "class", "lambda", "None"]
NAMES += ["decoder_layer", "encoder_layer_2", "decoder.0.keys", "encoder.1.x", "causal", "source", "a b", "7", "ü", '"']
FLOATS = st.integers(0, 2**48)


@dataclass
class RandomGraph:
    """Builds a random graph, node by node, from the values that exist so far."""

    draw: random.Random

    def __post_init__(self) -> None:
        self.inputs: dict[str, ValueType] = {}
        self.nodes: list[Node] = []
        self.parameters: dict[str, Parameter] = {}
        self.states: dict[str, StepState] = {}
        self.overwritten: set[str] = set()
        self.layer = ""
        self.source, self.position = (self.input(BATCH, length, kind=ValueKind.INTEGER) for length in (SOURCE, NEW))
        self.length = self.input(BATCH, kind=ValueKind.INTEGER)
        for length in (SOURCE, NEW, NEW):
            self.input(BATCH, length, Size.of(WIDTH))

    @property
    def types(self) -> dict[str, ValueType]:
        return {**self.inputs, **{node.name: node.type for node in self.nodes}}

    def name(self) -> str:
        """Return a free name without meaning, even if it looks like one with a meaning."""
        while True:
            name = self.draw.choice(NAMES) + self.draw.choice(["", "", "_2", f".{self.draw.random()}"])
            if name not in self.types:
                return name

    def input(self, *shape: Size, kind: ValueKind = ValueKind.FLOAT) -> str:
        name = self.name()
        self.inputs[name] = ValueType(shape, kind)
        return name

    def any(self, fits: Callable[[ValueType], bool]) -> str:
        return self.draw.choice([n for n, type_ in self.types.items() if fits(type_) and n not in self.overwritten])

    def add(self, operation: Operation, inputs: list[str], *shapes: tuple[int, ...]) -> str:
        parameters = [self.parameter(shape) for shape in shapes]
        type_ = operation.infer([self.types[i] for i in inputs], [self.parameters[p].shape for p in parameters])
        self.nodes.append(Node(self.name(), operation, tuple(inputs), tuple(parameters), type_, self.layer))
        return self.nodes[-1].name

    def parameter(self, shape: tuple[int, ...]) -> str:
        """Return a parameter of this layer, of another one or of none; sometimes an existing one."""
        known = [name for name, each in self.parameters.items() if each.origin.shape == shape]
        if known and self.draw.random() < 0.3:
            return self.draw.choice(known)
        stem = self.draw.choice([self.layer, self.layer, "encoder.1", "shared.table"]) or "outside"
        leaf = self.draw.choice(["w", "w", "w_w", "lambda", f"matrix_{len(self.parameters)}"])
        path = unique_name(f"{stem}.{leaf}", self.parameters)
        self.parameters[path] = Parameter(path, StoredTensor(path, shape, Initializer.MATRIX))
        return path

    # Kinds of nodes

    def projection(self) -> None:
        bias = [(WIDTH,)] if self.draw.random() < 0.5 else []
        self.add(Linear(), [self.any(_wide())], (WIDTH, WIDTH), *bias)

    def elementwise(self) -> None:
        x = self.any(_wide())
        encoding = PositionalEncoding(halves=self.draw.random() < 0.3, first=self.draw.choice([0, 0, 2]))
        operation = self.draw.choice((LayerNorm(1e-5), Relu(), Silu(), Gelu(), Dropout(0.3), LogSoftmax(), encoding))
        self.add(operation, [x], *([(WIDTH,), (WIDTH,)] if operation.is_norm else []))

    def sum(self) -> None:
        x = self.any(_wide())
        self.add(Add(), [x, self.any(lambda type_: type_ == self.types[x])])

    def embedding(self) -> None:
        tokens = self.any(lambda type_: type_.kind is ValueKind.INTEGER and len(type_.shape) == 2)
        embedded = self.add(Embedding(1.5), [tokens], (TOKENS, WIDTH))
        if self.draw.random() < 0.5:
            self.add(PositionalEncoding(), [embedded, tokens])

    def parts(self) -> None:
        """Add slices that together are the whole value, sometimes with another node between them."""
        x, cut = self.any(_wide()), self.draw.choice([2, 4])
        first = self.add(Slice(-1, 0, cut), [x])
        if self.draw.random() < 0.3:
            self.elementwise()
        second = self.add(Slice(2, cut, self.draw.choice([WIDTH, None, -1])), [x])
        for part in (first, second):
            self.add(Linear(), [part], (self.types[part].shape[-1].constant, WIDTH))

    def heads(self, length: Size) -> str:
        x = self.any(_wide(length))
        if self.draw.random() < 0.3:
            x = self.add(Linear(), [x], (WIDTH, WIDTH))
        return self.add(SplitHeads(HEADS), [x])

    def attention(self) -> None:
        """Add an attention with queries, keys and masks from anywhere."""
        of = self.draw.choice([SOURCE, NEW])
        query, key, value = self.heads(self.draw.choice([SOURCE, NEW])), self.heads(of), self.heads(of)
        layer, self.layer = self.layer, self.draw.choice(["", self.layer])
        masks = []
        if of == SOURCE and self.draw.random() < 0.5:
            stream = self.any(lambda type_: type_.shape[:2] == (BATCH, SOURCE))
            masks.append(self.add(PaddingMask(), [self.length, stream]))
        if self.types[query].shape[2] == of and self.draw.random() < 0.5:
            tokens = self.source if of == SOURCE else self.position
            masks.append(self.add(CausalMask(), [tokens]))
        self.layer = layer
        self.add(MergeHeads(), [self.add(Attention(0.5), [query, key, value, *masks])])

    def cache(self) -> None:
        """Add a cache that grows or is planned."""
        planned = self.draw.random() < 0.5
        new, query = self.heads(NEW), self.heads(NEW)
        state = self.input(BATCH, Size.of(HEADS), CAPACITY if planned else PAST, Size.of(WIDTH // HEADS))
        mask = self.add(UnwrittenMask(planned), [self.position, state])
        operation, more = (WriteToCache(), [self.position]) if planned else (AppendToCache(), [])
        grown = self.add(operation, [state, new, *more])
        self.states[state] = StepState(grown, length_axis=2)
        if planned:
            self.overwritten.add(state)
        self.add(MergeHeads(), [self.add(Attention(0.5), [query, grown, grown, mask])])

    def state(self) -> None:
        """Add a state of as many positions as the step has."""
        x, state = self.any(_wide(NEW)), self.input(BATCH, NEW, Size.of(WIDTH))
        self.states[state] = StepState(self.add(Add(), [state, x]), length_axis=1)

    def graph(self, steps: int) -> Graph:
        for _ in range(steps):
            if self.draw.random() < 0.4:
                self.layer = self.draw.choice(LAYERS)
            usual = [self.projection, self.elementwise, self.sum, self.embedding, self.parts]
            self.draw.choice([*usual, *usual, self.attention, self.cache, self.state])()
        leaving = self.draw.sample(self.nodes, min(3, len(self.nodes)))
        outputs = {f"out {i}": node.name for i, node in enumerate(leaving) if node.name not in self.overwritten}
        whole = Graph(Purpose.DECODE_STEP, self.inputs, tuple(self.nodes), outputs, self.parameters, self.states)
        verify(whole)
        return prune(whole)

    def tensors(self, graph: Graph) -> dict[str, Tensor]:
        """Return random inputs of a graph."""
        found = {}
        for name, type_ in graph.inputs.items():
            shape = [size(**SIZES) for size in type_.shape]
            found[name] = torch.randint(1, 4, shape) if type_.kind is ValueKind.INTEGER else torch.randn(shape)
        if self.position in found:
            found[self.position] = torch.tensor([[2, 3], [0, 1], [3, 4]])  # rows at different positions
        return found


def _wide(*lengths: Size) -> Callable[[ValueType], bool]:
    """Return whether a value has features, at positions of the source or of the step, or of the given length."""
    shapes = [(BATCH, length, Size.of(WIDTH)) for length in lengths or (SOURCE, NEW)]
    return lambda type_: type_.kind is ValueKind.FLOAT and type_.shape in shapes


def random_case(seed: int, steps: int) -> tuple[Graph, dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Return a random graph, its weights and inputs, and what the interpreter computes."""
    maker = RandomGraph(random.Random(seed))
    graph = maker.graph(steps)
    torch.manual_seed(seed)
    inputs = maker.tensors(graph)
    weights = {name: torch.randn(each.shape) / 3 for name, each in stored_tensors([graph]).items()}
    return graph, weights, inputs, interpret(graph, weights, {name: tensor.clone() for name, tensor in inputs.items()})


@settings(max_examples=120, deadline=None, derandomize=True)
@given(FLOATS, st.integers(1, 30))
def test_emitted_code_computes_what_the_interpreter_does(seed: int, steps: int) -> None:
    graph, weights, inputs, expected = random_case(seed, steps)
    code = emit([graph])
    request = BuildRequest(specs.load("tiny"), {graph.purpose: graph}, weights)
    found = Functions(code)[graph.purpose](program(request, Functions(code)).eval(), inputs)
    assert found.keys() == expected.keys() == graph.results.keys()
    for name, tensor in found.items():
        assert list(tensor.shape) == [size(**SIZES) for size in graph.types[graph.results[name]].shape]
        torch.testing.assert_close(tensor, expected[name], atol=1e-4, rtol=1e-4, msg=lambda text: f"{text}\n{code}")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(FLOATS, st.integers(1, 30))
def test_exact_passes_do_not_change_results(seed: int, steps: int) -> None:
    """Any value may have other readers, any parameter other users, and any name may be taken.

    Two passes change the inputs of the step, so they run only to check that they produce a valid graph.
    """
    graph, weights, inputs, expected = random_case(seed, steps)
    optimise({graph.purpose: graph}, specs.load("tiny"))
    asked = changed(specs.load("tiny"), disabled_passes=["beams_as_queries", "plan_cache"])
    after = optimise({graph.purpose: graph}, asked)[graph.purpose]
    for name, tensor in interpret(after, weights, inputs).items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-4, rtol=1e-4)


class TestPasses:
    """Graphs that no spec has today, and that passes once handled wrongly."""

    def builder(self, purpose: Purpose) -> tuple[GraphBuilder, Value]:
        b = GraphBuilder(purpose)
        return b, b.input("x", BATCH, SOURCE, 4)

    def linear(self, name: str, x: Value, parameter: str) -> Value:
        return x.builder.node(name, Linear(), (x,), x.builder.parameter(parameter, 4, 4))

    def check(self, b: GraphBuilder, **outputs: Value) -> None:
        """Check that passes do not change the outputs of a graph."""
        for name, value in outputs.items():
            b.output(name, value)
        graph = b.graph()
        weights = {name: torch.randn(each.origin.shape) for name, each in graph.parameters.items()}
        values = {"x": torch.randn(3, 5, 4), "labels": torch.randint(0, 3, (3, 5))}
        after = optimise({graph.purpose: graph}, specs.load("tiny"))[graph.purpose]
        before, found = interpret(graph, weights, values), interpret(after, weights, values)
        for name in outputs:
            torch.testing.assert_close(found[name], before[name], atol=1e-4, rtol=1e-4)

    def test_fused_projections_get_a_free_name(self) -> None:
        b, x = self.builder(Purpose.ENCODE)
        y = b.node("y", Add(), (self.linear("p", x, "a.w"), self.linear("q", x, "b.w")))
        self.check(b, out=b.node("p_q", Add(), (self.linear("r", y, "a.w"), self.linear("s", y, "c.w"))))

    @pytest.mark.parametrize("between", [Add(), LayerNorm(1e-5)])
    def test_a_scale_is_folded_into_a_query_only(self, between: Operation) -> None:
        b, x = self.builder(Purpose.ENCODE)
        gains = [b.parameter(name, 4, initial=Initializer.ONE) for name in ("gain", "bias") if between.is_norm]
        others = () if between.is_norm else (x,)
        middle = b.node("changed", between, (self.linear("query", x, "w"), *others), *gains)
        query, keys = (b.node("heads", SplitHeads(2), (value,)) for value in (middle, x))
        self.check(b, out=b.node("merged", MergeHeads(), (b.node("context", Attention(0.3), (query, keys, keys)),)))

    def test_a_loss_over_part_of_the_vocabulary_is_not_chunked(self) -> None:
        b, x = self.builder(Purpose.TRAIN)
        labels = b.input("labels", BATCH, SOURCE, kind=ValueKind.INTEGER)
        logits = b.node("logits", Logits(), (x,), b.parameter("table", 4, 4))
        part = b.node("some", Slice(-1, 1, 4), (logits,))
        loss, other = (b.node("loss", CrossEntropy(0.1, True), (value, labels)) for value in (part, x))
        self.check(b, loss=loss, other=other)

    def test_a_matrix_used_as_w_and_transposed_is_quantised_twice(self) -> None:
        b, x = self.builder(Purpose.ENCODE)
        b.output("out", b.node("b", Logits(), (self.linear("a", x, "w"),), "w"))
        graph, values = b.graph(), {"x": torch.randn(2, 5, 4)}
        weights = {"w": torch.randn(4, 4) * torch.tensor([1.0, 10.0, 100.0, 1000.0])}
        spec = specs.load("tiny", ["compilation.disabled_passes=[pad_vocabulary]"])
        rounded = optimise({graph.purpose: graph}, spec, precision="int8")[graph.purpose]
        exact = interpret(graph, weights, values)["out"]
        assert (interpret(rounded, weights, values)["out"] - exact).abs().max() < 0.03 * exact.abs().max()
