"""Every backend that is present computes what the interpreter does, and goes on from any state as eager does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler import (
    PASSES,
    TRANSLATE,
    EmittedProgram,
    Purpose,
    artefact,
    build,
    emit,
    graphs,
    interpret,
    lower,
    optimise,
)
from compiler.assemble import prepare_build
from compiler.backends import BACKENDS, BuildRequest
from compiler.backends.conformance import disagreement
from compiler.backends.eager import eager, functions
from compiler.graph import Graph, Node, StepState, stored_tensors
from compiler.initialization import initial_weights
from compiler.instruction import MAX_INT8_ROWS
from compiler.kernels import library
from compiler.operations.elementwise import Add
from compiler.operations.operation import EmitContext, Operation, ValueType
from compiler.operations.projection import Logits
from compiler.operations.views import Slice
from compiler.options import CompileOptions
from compiler.size import Size
from specs import Spec, ZooError

KINDS: dict[str, dict[str, object]] = {
    "restricted": {"kind": "restricted_attention", "radius": 3},
    "ssru": {"kind": "ssru"},
    "lstm": {"kind": "lstm"},
    "dilated": {"kind": "convolution", "kernel": 3, "dilated": True},
    "separable": {"kind": "separable_convolution", "kernel": 5},
}
"""What may stand where the paper has self-attention."""
SHAPES: dict[str, dict[str, object]] = {
    "shallow": {"N": 1},
    "post": {"N": {"encoder": 3, "decoder": 2}},
    "pre": {
        "N": 2,
        "norm": "pre",
        "positional_encoding": "learned",
        "tied_embeddings": "none",
        "projection_bias": True,
        "d_k": 8,
        "d_v": 8,
    },
    "additive": {"attention_score": "additive"},
    "unscaled": {"attention_score": "dot_product", "positional_encoding": "sinusoidal_halves"},
    "gelu": {"activation": "gelu", "output_bias": True, "first_position": 2, "norm": "pre", "tied_embeddings": "none"},
    "student": {
        "activation": "silu",
        "positional_encoding": "sinusoidal_halves",
        "first_position": 1,
        "output_bias": True,
        "N": {"encoder": 2, "decoder": 3},
        "decoder": [{"kind": "ssru"}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
    },
    **{
        kind: {
            "N": 2 if kind == "dilated" else 1,  # whose layers differ
            "encoder": [of, {"kind": "feed_forward"}],
            "decoder": [of, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        }
        for kind, of in KINDS.items()
    },
}
STEPPING = [name for name in BACKENDS if name != "ctranslate2"]
"""Backends with a decode_step; CTranslate2 has only a whole search (see test_ctranslate2.py)."""
QUICK = {"inductor": (), "aot": {"shallow"}, "onnx": {"shallow", "restricted", "ssru", "lstm"}}
"""The shapes for which what takes long to compile or to export is held here; the others are slow proofs.

The inductor makes the code of `aot`, too, and trains in a quick proof of its own (see test_program.py).
"""


def _cases(quick: Mapping[str, Collection[str]]) -> list[Any]:
    """Every backend with every shape."""
    return [
        pytest.param((name, of), id=f"{name}-{of}", marks=[pytest.mark.slow] * (of not in quick.get(name, SHAPES)))
        for name in STEPPING
        for of in SHAPES
    ]


pytestmark = pytest.mark.usefixtures("all_cores")


@pytest.fixture
def built(artefacts: Path, shaken: Callable[..., Any]) -> Callable[..., Any]:
    """Builds with a backend, or says why it cannot be had."""

    def make(name: str, spec: Spec, precision: str = "float32") -> Any:
        backend = BACKENDS[name]
        if problem := backend.unavailable_reason():
            pytest.skip(problem)
        compilation = spec.compilation.model_copy(update={"precision": precision})
        asked = spec.model_copy(update={"compilation": compilation})
        lowered = graphs(asked, TRANSLATE)
        weights = shaken(asked)
        if problem := backend.unsupported_reason(
            BuildRequest(asked, lowered, weights, precision=precision, folder=artefacts)
        ):
            pytest.skip(f"it says so itself: {problem}")
        return build(asked, TRANSLATE, weights=weights, backend=name, folder=artefacts)

    return make


@pytest.mark.parametrize("case", _cases(QUICK))
def test_it_agrees_with_the_interpreter(
    small: Callable[..., Spec], built: Callable[..., Any], case: tuple[str, str]
) -> None:
    name, shape = case
    found = disagreement(built(name, small(**SHAPES[shape])))
    assert set(found) == {Purpose.SCORE, Purpose.DECODE_STEP}
    assert all(error < 1e-5 for error in found.values()), found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "inductor")) for n in STEPPING])
def test_in_int8_it_is_near(
    small: Callable[..., Spec], built: Callable[..., Any], shaken: Callable[..., Any], name: str
) -> None:
    spec = small(N=1, output_bias=True)
    found = disagreement(built(name, spec, "int8"), weights=shaken(spec))
    assert 1e-5 < found[Purpose.DECODE_STEP] < 0.05, found


@pytest.mark.parametrize("case", _cases(QUICK))
def test_it_goes_on_as_eager_does(
    small: Callable[..., Spec], built: Callable[..., Any], shaken: Callable[..., Any], case: tuple[str, str]
) -> None:
    """Steps, some with suppressed tokens, moved beams, sentences that leave or join, past a cache's room at first."""
    name, shape = case
    spec = small(**SHAPES[shape])
    eagers = build(spec, backend="eager", weights=shaken(spec))
    for mine, theirs in zip(_walk(built(name, spec)), _walk(eagers), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)


def test_in_int8_it_rounds_as_eager_does(
    small: Callable[..., Spec], built: Callable[..., Any], shaken: Callable[..., Any]
) -> None:
    spec = small(output_bias=True)
    theirs = build(spec, weights=shaken(spec), backend="eager", precision="int8")
    steps = list(zip(_walk(built("native", spec, "int8")), _walk(theirs), strict=True))
    for mine, other in steps:
        # A number that lies between two 8-bit ones may fall to either side, and take its row a step of 8 bits along.
        torch.testing.assert_close(mine, other, atol=6e-2, rtol=0)
    alike = torch.cat([((mine - other).abs() < 1e-4).flatten() for mine, other in steps])
    assert alike.float().mean() > 0.95


@pytest.mark.skipif(BACKENDS["native"].unavailable_reason() is not None, reason="native is not here")
@pytest.mark.parametrize("rows", [MAX_INT8_ROWS, MAX_INT8_ROWS + 1])
def test_rows_too_wide_for_its_int8_are_refused_by_name_and_left_to_eager(
    small: Callable[..., Spec], rows: int
) -> None:
    spec = small(N=1, d_ff=rows)
    taken, order = prepare_build(spec, precision="int8", backend="auto")
    refusal = BACKENDS["native"].unsupported_reason(order)
    if rows == MAX_INT8_ROWS:
        assert (taken.name, refusal) == ("native", None)
        return
    assert taken.name == "eager"
    assert refusal == "its int8 products take at most 65,536 numbers a row, not 65,537: take the backend `eager`"
    with pytest.raises(ZooError, match="the backend `native` cannot run this"):
        prepare_build(spec, precision="int8", backend="native")


@pytest.mark.skipif(BACKENDS["native"].unavailable_reason() is not None, reason="native is not here")
def test_where_its_kernels_cannot_be_compiled_eager_translates_and_says_so(
    small: Callable[..., Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise ZooError("collect2: final link failed: No space left on device")

    monkeypatch.setattr(library, "_compile", full)
    monkeypatch.setattr(
        artefact, "_temporary_root", lambda: tmp_path / "passing"
    )  # where other tests have compiled them
    with pytest.warns(RuntimeWarning, match="No space left on device: using the slower backend `eager` instead"):
        program: Any = build(small(), backend="auto", folder=tmp_path / "auto")
    assert program.backend == "eager"
    with pytest.raises(ZooError, match="No space left on device"):
        build(small(), backend="native", folder=tmp_path / "native")


@dataclass(frozen=True)
class RunningSum(Operation):
    """Of all positions up to each: state [rows, 1, d], x [rows, new, d] -> x. What no shipped layer has."""

    def infer(self, inputs: Sequence[ValueType], parameters: Sequence[Any]) -> ValueType:
        return inputs[1]

    def interpret(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        return inputs[0] + inputs[1].cumsum(1)

    def emit(self, line: EmitContext, inputs: Sequence[str], parameters: Sequence[str]) -> str:
        return f"{inputs[0]} + {inputs[1]}.cumsum(1)"


def _recurrent(spec: Spec) -> Graph:
    """The step of a spec, to whose logits all outputs of its decoder so far are added."""
    step = lower(spec, Purpose.DECODE_STEP)
    logits = next(node for node in step.nodes if isinstance(node.operation, Logits))
    (y,), at = logits.inputs, step.nodes.index(logits)
    type_ = step.types[y]
    state = ValueType((type_.shape[0], Size.of(1), type_.shape[2]))
    new = (
        Node("sum", RunningSum(), ("sum so far", y), (), type_),
        Node("last sum", Slice(1, -1), ("sum",), (), state),
        Node("both", Add(), (y, "sum"), (), type_),
        replace(logits, inputs=("both",)),
    )
    return replace(
        step,
        inputs={**step.inputs, "sum so far": state},
        nodes=(*step.nodes[:at], *new, *step.nodes[at + 1 :]),
        states={**step.states, "sum so far": StepState("last sum")},
    )


def test_a_state_that_does_not_grow_is_carried_as_caches_are(small: Callable[..., Spec]) -> None:
    """Chosen, dropped and joined with its rows, whichever passes run; kernels that have no word for it refuse."""
    spec = small()
    lowered = {Purpose.ENCODE: lower(spec, Purpose.ENCODE), Purpose.DECODE_STEP: _recurrent(spec)}
    plain = [each.name for each in PASSES]
    weights, walks = initial_weights(spec, lowered), []
    for without in ([], ["plan_cache"], ["beams_as_queries"], plain):
        asked = spec.model_copy(
            update={"compilation": spec.compilation.model_copy(update={"disabled_passes": without})}
        )
        order = BuildRequest(asked, optimise(lowered, asked, CompileOptions()), weights)
        walks.append(list(_walk(eager.build(order))))
    for walk in walks:
        for mine, theirs in zip(walk, walks[-1], strict=True):
            torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)
    assert not torch.allclose(walks[0][0], next(_walk(build(spec, weights=weights))), atol=1e-2)
    order = BuildRequest(spec, optimise(lowered, spec, CompileOptions()), weights)
    assert "no instruction for RunningSum" in (BACKENDS["native"].unsupported_reason(order) or "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_every_kind_of_sub_layer_is_carried(small: Callable[..., Spec], kind: str) -> None:
    """The same whichever passes run, for rows that are chosen, dropped or joined, at different positions."""
    spec = small(**{**SHAPES[kind], "N": 3})
    walks = []
    for without in ([], ["beams_as_queries"], [each.name for each in PASSES]):
        compilation = spec.compilation.model_copy(update={"disabled_passes": tuple(without)})
        walks.append(list(_walk(build(spec.model_copy(update={"compilation": compilation}), backend="eager"))))
    for walk in walks:
        for mine, theirs in zip(walk, walks[-1], strict=True):
            torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("planned", [False, True])
def test_several_new_positions_are_one_step(small: Callable[..., Spec], planned: bool) -> None:
    """Masks have an offset and caches take as many as come: what follows is that of one position after the other."""
    spec = small()
    without = ["beams_as_queries", *([] if planned else ["plan_cache"])]
    asked = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"disabled_passes": without})})
    lowered = {Purpose.ENCODE: lower(spec, Purpose.ENCODE), Purpose.DECODE_STEP: _recurrent(spec)}
    graphs = optimise(lowered, asked, CompileOptions())
    weights, step = initial_weights(spec, graphs), graphs[Purpose.DECODE_STEP]
    source, tokens = torch.tensor([[7, 8, 9, 3], [5, 3, 0, 0]]), torch.randint(4, 101, (2, 7))
    function = functions(emit([step]))[Purpose.DECODE_STEP]
    program = EmittedProgram(spec, {Purpose.DECODE_STEP: step}, {}, "").eval()
    program.share({name: weights[name] for name in stored_tensors([step])})
    found = {}
    for run in (function, partial(_interpreted, step, weights)):
        for widths in ([1] * 7, [3, 1, 3], [7]):
            memory = interpret(graphs[Purpose.ENCODE], weights, {"source": source})
            sizes = {"batch": 2, "past": 0, "capacity": 16}
            carried = {name: torch.zeros([size(**sizes) for size in step.inputs[name].shape]) for name in step.states}
            rows, read = [], 0
            for width in widths:
                position = torch.arange(read, read + width).expand(2, -1)
                given = {"token": tokens[:, read : read + width], "position": position, "source": source}
                results = run(program, {**given, **memory, **carried})
                rows.append(results["log_probabilities"])
                carried, read = {name: results[name] for name in carried}, read + width
            found[run, tuple(widths)] = torch.cat(rows, 1)
    first, *others = found.values()
    assert len(others) == 5
    for other in others:
        torch.testing.assert_close(other, first, atol=1e-5, rtol=1e-5)


def _interpreted(graph: Graph, weights: Any, program: object, inputs: Any) -> dict[str, torch.Tensor]:
    return interpret(graph, weights, inputs)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in QUICK)) for n in BACKENDS])
def test_the_order_of_sub_layers_is_that_of_the_spec(
    small: Callable[..., Spec], built: Callable[..., Any], name: str
) -> None:
    kinds = [{"kind": kind} for kind in ("feed_forward", "cross_attention", "self_attention")]
    spec = small(encoder=[kinds[0], kinds[2]], decoder=kinds)
    weights = initial_weights(spec, graphs(spec))
    if name == "ctranslate2":
        assert "has layers of feed_forward, self_attention, and" in str(
            BACKENDS[name].unsupported_reason(BuildRequest(spec, graphs(spec), weights))
        )
        return
    found = disagreement(built(name, spec))
    assert all(error < 1e-5 for error in found.values()), found


def _walk(program: Any) -> Iterator[torch.Tensor]:
    generator, barring = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)

    def tokens(rows: int) -> torch.Tensor:
        return torch.randint(4, 101, (rows,), generator=generator)

    def start(*sources: list[int]) -> Any:
        width = max(map(len, sources))
        source = torch.tensor([[*row, *[0] * (width - len(row))] for row in sources])
        _, state = program.top_k(program.encode(source), torch.full((len(sources),), 2), 4)
        return program.select(state, torch.arange(len(sources)), torch.zeros(len(sources), 3, dtype=torch.long))

    state, sentences = start([7, 8, 9, 10, 11, 3], [5, 3], [9, 6, 3]), 3
    for step in range(24):
        if step % 5 == 4:
            found, state = program.top_k(state, tokens(3 * sentences), 6)
            yield found.values
            yield found.tokens
            yield found.ends
        elif step % 5 == 3:
            few = torch.rand(3 * sentences, 101, generator=barring) < (0.3 if step % 2 else 0.03)
            found, state = program.top_k(state, tokens(3 * sentences), 6, few[:1] if step == 13 else few)
            yield found.values
            yield found.tokens.masked_fill(found.values == -torch.inf, 0)
            yield found.ends
        else:
            every, state = program.decode_step(state, tokens(3 * sentences))
            yield every
        if step == 7:
            state, sentences = program.join(state, start([20, 21, 22, 23, 24, 25, 26, 27, 3], [30, 3])), 5
        kept = [0, 2, 3] if step == 12 else [1, 2] if step == 19 else list(range(sentences))
        parents = torch.randint(0, 3, (len(kept), 3), generator=generator)
        state, sentences = program.select(state, torch.tensor(kept), parents), len(kept)
