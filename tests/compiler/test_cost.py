"""Costs that are known before anything runs, checked against what torch counts when it does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

import specs
from compiler import TRANSLATE, EmittedProgram, Purpose, cost, emit, graphs
from compiler.backends.eager import functions
from compiler.costs import memory_traffic
from compiler.decoder import CACHE_BLOCK
from compiler.padded_batch import PaddedBatch
from compiler.size import BATCH, SOURCE, TARGET, Size, rounded_up
from specs import Spec
from tests.examples import changed, small


def count_flops(run: Callable[[], object]) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def runs(program: EmittedProgram, source: PaddedBatch, target: torch.Tensor) -> dict[Purpose, Callable[[], object]]:
    """Return functions that run a translation program on a batch, one for each purpose."""
    state = program.encode(source)
    return {
        Purpose.SCORE: lambda: program.score(source, target),
        Purpose.ENCODE: lambda: program.encode(source),
        Purpose.DECODE_STEP: lambda: program.advance(state, target[:, :1]),
    }


class TestSize:
    sizes = st.recursive(
        st.one_of(st.integers(-5, 5).map(Size.of), st.sampled_from([BATCH, SOURCE, TARGET])),
        lambda s: st.tuples(s, s, st.sampled_from([Size.__add__, Size.__mul__, Size.__sub__])).map(
            lambda t: t[2](t[0], t[1])
        ),
        max_leaves=6,
    )
    values = st.fixed_dictionaries({name: st.integers(0, 50) for name in ("batch", "source", "target")})

    @given(sizes, sizes, values)
    def test_arithmetic_on_sizes_is_arithmetic_on_their_values(self, a: Size, b: Size, at: dict[str, int]) -> None:
        assert (a + b)(**at) == a(**at) + b(**at)
        assert (a * b)(**at) == a(**at) * b(**at)
        assert (a - b)(**at) == a(**at) - b(**at)

    @given(sizes, sizes)
    def test_equal_polynomials_are_equal(self, a: Size, b: Size) -> None:
        assert a + b == b + a
        assert a * b == b * a
        assert a - a == Size()
        assert (a + b) * (a - b) == a * a - b * b

    def test_text_of_a_polynomial(self) -> None:
        assert str(2 * SOURCE * SOURCE * BATCH + 1000 * TARGET - 3) == "2·batch·source² + 1,000·target - 3"
        assert str(Size()) == "0"

    @given(st.integers(-5, 5))
    def test_a_constant_has_no_symbols(self, number: int) -> None:
        assert (Size.of(number) + BATCH - BATCH).constant == number
        with pytest.raises(ValueError, match="is not a constant"):
            _ = (number + BATCH).constant

    @given(st.integers(0, 50), st.integers(1, 20))
    def test_rounded_up_is_the_next_multiple(self, number: int, multiple: int) -> None:
        expected = -(-number // multiple) * multiple
        assert rounded_up(Size.of(number), multiple).constant == rounded_up(SOURCE, multiple)(source=number) == expected


def _kinds(spec: Spec) -> tuple[object, ...]:
    return *(each.kind for each in (*spec.architecture.encoder, *spec.architecture.decoder)), spec.architecture.norm


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_flops_and_parameters_of_shipped_specs(every: bool) -> None:
    """Count on the meta device, which needs no memory. By default, one spec per set of sub-layers with one layer."""
    loaded = {name: specs.load(name) for name in specs.names()}
    names = {(name if every else _kinds(spec)): name for name, spec in loaded.items()}
    assert len(names) > 3
    for name in names.values():
        spec = specs.load(name, {} if every else {"architecture.N": 1})
        optimised = graphs(spec, TRANSLATE)
        program = EmittedProgram(spec, optimised, functions(emit(optimised.values()))).eval()
        at = {"batch": 3, "source": 19, "target": 5, "beams": 1, "new": 1, "capacity": CACHE_BLOCK}
        tokens, target = (torch.empty(3, length, dtype=torch.long, device="meta") for length in (19, 6))
        source, read = PaddedBatch.full(tokens), spec.architecture.source
        if isinstance(read, specs.Features):  # convolutions turn several frames into one position
            frames = 19 * math.prod(each.stride for each in read.subsampling)
            source = PaddedBatch.full(torch.empty(3, frames, read.width, device="meta"))
        for purpose, run in runs(program, source, target).items():
            assert count_flops(run) == cost(optimised[purpose]).flops(**at), (name, purpose)
        counted = {n: parameter for graph in optimised.values() for n, parameter in graph.parameters.items()}
        assert sum(p.numel() for p in program.parameters()) == sum(p.count for p in counted.values()), name


def test_elements_saved_for_the_backward_pass() -> None:
    """Fused attention saves one number per query instead of weights; the loss saves its gradients."""
    batch, source, target, h, d_model, rows = 3, 7, 5, 2, 16, 104
    saved: dict[str, dict[str, int]] = {}
    for device in ("cpu", "cuda"):
        graph = graphs(small(N=1, dropout=0.0), [Purpose.TRAIN], device)[Purpose.TRAIN]
        for node in graph.nodes:
            elements = node.operation.saved_elements([graph.types[i] for i in node.inputs], graph.shapes(node))
            count = elements(batch=batch, source=source, target=target)
            saved.setdefault(device, {})[node.name] = count
    contexts = [name for name in saved["cuda"] if "context" in name]
    assert len(contexts) == 3
    for name in contexts:
        fused = batch * h * (source if name.startswith("encoder") else target)
        assert saved["cuda"][name] == fused < saved["cpu"][name]
    assert saved["cpu"]["loss"] == saved["cuda"]["loss"] == batch * target * d_model + rows * d_model


class TestMemoryTraffic:
    def test_each_weight_is_read_once_per_step(self) -> None:
        """Without rows only the weights remain, except the embedding, of which a step reads single rows."""
        step = graphs(small(tied_embeddings="target"))[Purpose.DECODE_STEP]
        at = {"batch": 0, "beams": 0, "new": 1, "source": 7, "capacity": 16}
        assert memory_traffic(step)(**at) == 4 * sum(parameter.count for parameter in step.parameters.values())

    def test_all_beams_read_the_memory_once(self) -> None:
        spec = small(N=1)
        before, after = (
            graphs(s)[Purpose.DECODE_STEP] for s in (changed(spec, disabled_passes=("beams_as_queries",)), spec)
        )
        sizes = {"source": 1000, "new": 1, "capacity": 16}
        saved = memory_traffic(before)(batch=4, **sizes) - memory_traffic(after)(batch=1, beams=4, **sizes)
        assert saved == 3 * 4 * 1000 * 2 * (6 + 4)  # float32 keys and values of two heads

    def test_a_planned_cache_is_not_copied(self) -> None:
        spec = small(N=1)
        before, after = (graphs(s)[Purpose.DECODE_STEP] for s in (changed(spec, disabled_passes=("plan_cache",)), spec))
        sizes = {"batch": 1, "beams": 1, "source": 3, "past": 99, "new": 1, "capacity": 100}
        # A copy reads and writes all positions but the new one.
        assert memory_traffic(before)(**sizes) - memory_traffic(after)(**sizes) == 4 * 2 * (6 + 4) * 2 * 99
