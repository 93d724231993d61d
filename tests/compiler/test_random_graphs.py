"""Random graphs: emitted code and passes depend only on the edges of a graph, never on names or order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import specs
from compiler import Purpose, emit, interpret, optimise
from compiler.backends.eager import functions
from compiler.emitted import EmittedProgram
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
from compiler.options import CompileOptions
from compiler.size import BATCH, CAPACITY, NEW, PAST, SOURCE, Size
from compiler.weights import Initializer, Parameter, StoredTensor
from tests.examples import changed

SIZES = {"batch": 3, "source": 5, "new": 2, "past": 4, "capacity": 9}
WIDTH, HEADS, TOKENS = 8, 2, 30
LAYERS = ["", "", "encoder.0", "encoder.1", "decoder.0", "decoder.1", "odd_one.7"]
NAMES = [
    *("given", "x", "memory", "w", "inputs", "torch", "math", "linear", "weights", "relu", "class", "lambda", "None"),
    *("decoder_layer", "encoder_layer_2", "decoder.0.keys", "encoder.1.x", "causal", "source", "a b", "7", "ü", '"'),
]
FLOATS = st.integers(0, 2**48)


@dataclass
class RandomGraph:
    """Builds a random graph, node by node, from the values that exist so far."""

    draw: random.Random

    def __post_init__(self) -> None:
        self.inputs: dict[str, ValueType] = {}
        self.nodes: list[Node] = []
        for length in (SOURCE, NEW):
            self.inputs[self.name()] = ValueType((BATCH, length), ValueKind.INTEGER)
        self.source, self.position = self.inputs
        self.length = self.name()
        self.inputs[self.length] = ValueType((BATCH,), ValueKind.INTEGER)
        for length in (SOURCE, NEW, NEW):
            self.inputs[self.name()] = ValueType((BATCH, length, Size.of(WIDTH)))
        self.parameters: dict[str, Parameter] = {}
        self.states: dict[str, StepState] = {}
        self.overwritten: set[str] = set()
        self.layer = ""

    def name(self) -> str:
        """Return a free name without meaning, even if it looks like one with a meaning."""
        taken = {*self.inputs, *(node.name for node in self.nodes)}
        while (name := self.draw.choice(NAMES) + self.draw.choice(["", "", "_2", f".{self.draw.random()}"])) in taken:
            pass
        return name

    def values(self, fits: Callable[[ValueType], bool]) -> list[str]:
        types = {**self.inputs, **{node.name: node.type for node in self.nodes}}
        return [name for name, type_ in types.items() if fits(type_) and name not in self.overwritten]

    def any(self, fits: Callable[[ValueType], bool]) -> str:
        return self.draw.choice(self.values(fits))

    def type(self, value: str) -> ValueType:
        return {**self.inputs, **{node.name: node.type for node in self.nodes}}[value]

    def add(self, operation: Operation, inputs: list[str], *shapes: tuple[int, ...]) -> str:
        parameters = [self.parameter(shape) for shape in shapes]
        given = [self.parameters[name].shape for name in parameters]
        type_ = operation.infer([self.type(i) for i in inputs], given)
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
        x, bias = self.any(_wide), self.draw.random() < 0.5
        self.add(Linear(), [x], (WIDTH, WIDTH), *([(WIDTH,)] if bias else []))

    def elementwise(self) -> None:
        x = self.any(_wide)
        operation = self.draw.choice(
            [
                *(LayerNorm(1e-5), Relu(), Silu(), Gelu(), Dropout(0.3), LogSoftmax()),
                PositionalEncoding(halves=self.draw.random() < 0.3, first=self.draw.choice([0, 0, 2])),
            ]
        )
        self.add(operation, [x], *([(WIDTH,), (WIDTH,)] if operation.is_norm else []))

    def sum(self) -> None:
        x = self.any(_wide)
        self.add(Add(), [x, self.any(lambda type_: type_ == self.type(x))])

    def embedding(self) -> None:
        tokens = self.any(lambda type_: type_.kind is ValueKind.INTEGER and len(type_.shape) == 2)
        embedded = self.add(Embedding(1.5), [tokens], (TOKENS, WIDTH))
        if self.draw.random() < 0.5:
            self.add(PositionalEncoding(), [embedded, tokens])

    def parts(self) -> None:
        """Add slices that together are the whole value, sometimes with another node between them."""
        x, cut = self.any(_wide), self.draw.choice([2, 4])
        first = self.add(Slice(-1, 0, cut), [x])
        if self.draw.random() < 0.3:
            self.elementwise()
        second = self.add(Slice(2, cut, self.draw.choice([WIDTH, None, -1])), [x])
        for part in (first, second):
            self.add(Linear(), [part], (self.type(part).shape[-1].constant, WIDTH))

    def heads(self, length: Size) -> str:
        if self.draw.random() < 0.3:
            x = self.any(lambda type_: _wide(type_) and type_.shape[1] == length)
            return self.add(SplitHeads(HEADS), [self.add(Linear(), [x], (WIDTH, WIDTH))])
        return self.add(SplitHeads(HEADS), [self.any(lambda type_: _wide(type_) and type_.shape[1] == length)])

    def attention(self) -> None:
        """Add an attention with queries, keys and masks from anywhere."""
        of = self.draw.choice([SOURCE, NEW])
        query, key, value = self.heads(self.draw.choice([SOURCE, NEW])), self.heads(of), self.heads(of)
        layer, self.layer = self.layer, self.draw.choice(["", self.layer])
        masks = []
        if of == SOURCE and self.draw.random() < 0.5:
            stream = self.any(lambda type_: type_.shape[:2] == (BATCH, SOURCE))
            masks.append(self.add(PaddingMask(), [self.length, stream]))
        if self.type(query).shape[2] == of and self.draw.random() < 0.5:
            tokens = self.source if of == SOURCE else self.position
            masks.append(self.add(CausalMask(), [tokens]))
        self.layer = layer
        self.add(MergeHeads(), [self.add(Attention(0.5), [query, key, value, *masks])])

    def cache(self) -> None:
        """Add a cache that grows or is planned."""
        planned = self.draw.random() < 0.5
        new, query, state = self.heads(NEW), self.heads(NEW), self.name()
        self.inputs[state] = ValueType((BATCH, Size.of(HEADS), CAPACITY if planned else PAST, Size.of(WIDTH // HEADS)))
        mask = self.add(UnwrittenMask(planned), [self.position, state])
        operation, more = (WriteToCache(), [self.position]) if planned else (AppendToCache(), [])
        grown = self.add(operation, [state, new, *more])
        self.states[state] = StepState(grown, length_axis=2)
        if planned:
            self.overwritten.add(state)
        self.add(MergeHeads(), [self.add(Attention(0.5), [query, grown, grown, mask])])

    def state(self) -> None:
        """Add a state of as many positions as the step has."""
        x, state = self.any(lambda type_: _wide(type_) and type_.shape[1] == NEW), self.name()
        self.inputs[state] = self.type(x)
        self.states[state] = StepState(self.add(Add(), [state, x]), length_axis=1)

    def graph(self, steps: int) -> Graph:
        for _ in range(steps):
            if self.draw.random() < 0.4:
                self.layer = self.draw.choice(LAYERS)
            kinds = [self.projection, self.elementwise, self.sum, self.embedding, self.parts]
            self.draw.choice([*kinds, *kinds, self.attention, self.cache, self.state])()
        leaving = self.draw.sample(self.nodes, min(3, len(self.nodes)))
        outputs = {f"out {i}": node.name for i, node in enumerate(leaving) if node.name not in self.overwritten}
        whole = Graph(Purpose.DECODE_STEP, self.inputs, tuple(self.nodes), outputs, self.parameters, self.states)
        verify(whole)
        return prune(whole)

    def tensors(self, graph: Graph) -> Iterator[tuple[str, Tensor]]:
        for name, type_ in graph.inputs.items():
            shape = [size(**SIZES) for size in type_.shape]
            if name == self.position:
                yield name, torch.tensor([[2, 3], [0, 1], [3, 4]])  # rows at different positions
            elif type_.kind is ValueKind.INTEGER:
                yield name, torch.randint(1, 4, shape)
            else:
                yield name, torch.randn(shape)


def _wide(type_: ValueType) -> bool:
    return type_.kind is ValueKind.FLOAT and len(type_.shape) == 3 and type_.shape[2] == Size.of(WIDTH)


def random_case(seed: int, steps: int) -> tuple[Graph, dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Return a random graph, its weights and inputs, and what the interpreter computes."""
    maker = RandomGraph(random.Random(seed))
    graph = maker.graph(steps)
    torch.manual_seed(seed)
    inputs = dict(maker.tensors(graph))
    weights = {name: torch.randn(each.shape) / 3 for name, each in stored_tensors([graph]).items()}
    return graph, weights, inputs, interpret(graph, weights, {name: tensor.clone() for name, tensor in inputs.items()})


@settings(max_examples=120, deadline=None, derandomize=True)
@given(FLOATS, st.integers(1, 30))
def test_emitted_code_computes_what_the_interpreter_does(seed: int, steps: int) -> None:
    graph, weights, inputs, expected = random_case(seed, steps)
    code = emit([graph])
    program = EmittedProgram(specs.load("tiny"), {graph.purpose: graph}, functions(code)).eval()
    program.share(weights)
    found = functions(code)[graph.purpose](program, inputs)
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
    spec = specs.load("tiny")
    optimise({graph.purpose: graph}, spec, CompileOptions())
    asked = changed(spec, disabled_passes=["beams_as_queries", "plan_cache"])
    after = optimise({graph.purpose: graph}, asked, CompileOptions())[graph.purpose]
    for name, tensor in interpret(after, weights, inputs).items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-4, rtol=1e-4)


class TestPasses:
    """Graphs that no spec has today, and that passes once handled wrongly."""

    X = ValueType((BATCH, SOURCE, Size.of(4)))

    def check(
        self, *nodes: tuple[str, Operation, tuple[str, ...], tuple[str, ...]], purpose: Purpose, **outputs: str
    ) -> None:
        """Check that passes do not change the outputs of these nodes. Parameters are [4, 4] or, for biases, [4]."""
        inputs = {"x": self.X, "labels": ValueType((BATCH, SOURCE), ValueKind.INTEGER)}
        types, drawn, parameters = dict(inputs), [], {}
        for name, operation, read, used in nodes:
            for each in used:
                shape = (4,) if each.endswith("bias") else (4, 4)
                parameters[each] = Parameter(each, StoredTensor(each, shape, Initializer.MATRIX))
            shapes = [parameters[each].shape for each in used]
            types[name] = operation.infer([types[i] for i in read], shapes)
            drawn.append(Node(name, operation, read, used, types[name], "encoder.0"))
        graph = prune(Graph(purpose, inputs, tuple(drawn), outputs, parameters))
        verify(graph)
        weights = {name: torch.randn(each.origin.shape) for name, each in parameters.items()}
        values = {"x": torch.randn(3, 5, 4), "labels": torch.randint(0, 3, (3, 5))}
        after = optimise({purpose: graph}, specs.load("tiny"), CompileOptions())[purpose]
        before, found = interpret(graph, weights, values), interpret(after, weights, values)
        for name in outputs:
            torch.testing.assert_close(found[name], before[name], atol=1e-4, rtol=1e-4)

    def test_fused_projections_get_a_free_name(self) -> None:
        self.check(
            ("p", Linear(), ("x",), ("a.w",)),
            ("q", Linear(), ("x",), ("b.w",)),
            ("y", Add(), ("p", "q"), ()),
            ("r", Linear(), ("y",), ("a.w",)),
            ("s", Linear(), ("y",), ("c.w",)),
            ("p_q", Add(), ("r", "s"), ()),
            purpose=Purpose.ENCODE,
            out="p_q",
        )

    @pytest.mark.parametrize("between", [Add(), LayerNorm(1e-5)])
    def test_a_scale_is_folded_into_a_query_only(self, between: Operation) -> None:
        rest = (("x",), ()) if isinstance(between, Add) else ((), ("gain_bias", "norm_bias"))
        self.check(
            ("query", Linear(), ("x",), ("w",)),
            ("changed", between, ("query", *rest[0]), rest[1]),
            ("heads", SplitHeads(2), ("changed",), ()),
            ("keys", SplitHeads(2), ("x",), ()),
            ("context", Attention(0.3), ("heads", "keys", "keys"), ()),
            ("merged", MergeHeads(), ("context",), ()),
            purpose=Purpose.ENCODE,
            out="merged",
        )

    def test_a_loss_over_part_of_the_vocabulary_is_not_chunked(self) -> None:
        self.check(
            ("logits", Logits(), ("x",), ("table",)),
            ("some", Slice(-1, 1, 4), ("logits",), ()),
            ("loss", CrossEntropy(0.1, True), ("some", "labels"), ()),
            ("without projection", CrossEntropy(0.1, True), ("x", "labels"), ()),
            purpose=Purpose.TRAIN,
            loss="loss",
            other="without projection",
        )

    def test_a_matrix_used_as_w_and_transposed_is_quantised_twice(self) -> None:
        parameters = {"w": Parameter("w", StoredTensor("w", (4, 4), Initializer.MATRIX))}
        nodes = Node("a", Linear(), ("x",), ("w",), self.X), Node("b", Logits(), ("a",), ("w",), self.X)
        graph = Graph(Purpose.ENCODE, {"x": self.X}, nodes, {"out": "b"}, parameters)
        weights = {"w": torch.randn(4, 4) * torch.tensor([1.0, 10.0, 100.0, 1000.0])}
        x, spec = {"x": torch.randn(2, 5, 4)}, specs.load("tiny", ["compilation.disabled_passes=[pad_vocabulary]"])
        rounded = optimise({graph.purpose: graph}, spec, CompileOptions(precision="int8"))[graph.purpose]
        exact = interpret(graph, weights, x)["out"]
        assert (interpret(rounded, weights, x)["out"] - exact).abs().max() < 0.03 * exact.abs().max()
