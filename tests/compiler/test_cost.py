"""Costs known before anything runs, against what torch counts when it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import compiler
import specs
from compiler import PASSES, TRANSLATE, Purpose, build, cost, emit, graphs, lower
from compiler.backends.eager import functions
from compiler.cost import layers
from compiler.decoder import CACHE_BLOCK
from compiler.emitted import EmittedProgram
from specs import Spec

WITHOUT = [p.name for p in PASSES if p.exact and p.name != "drop_dropout"]


def _flops(run: Callable[[], object]) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("without", [[], WITHOUT])
def test_flops_are_those_that_torch_counts(small: Callable[..., Spec], without: list[str]) -> None:
    spec = small()
    spec = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"disabled_passes": tuple(without)})}
    )
    program = build(spec, [Purpose.TRAIN, *TRANSLATE])
    source, target = torch.randint(4, 101, (3, 7)), torch.randint(4, 101, (3, 6))
    at = {"batch": 3, "source": 7, "target": 5}
    costs = {purpose: cost(graph).flops for purpose, graph in program.graphs.items()}
    assert _flops(lambda: program.score(source, target)) == costs[Purpose.SCORE](**at)
    assert _flops(lambda: program(source, target)) == costs[Purpose.TRAIN](**at)
    assert _flops(lambda: program.encode(source)) == costs[Purpose.ENCODE](**at)
    state = program.encode(source)
    for length in (1, 2, 3):
        at_step = {**at, "past": length - 1, "new": 1, "beams": 1, "capacity": CACHE_BLOCK}
        with FlopCounterMode(display=False) as counter:
            _, state = program.decode_step(state, target[:, 0])
        assert counter.get_total_flops() == costs[Purpose.DECODE_STEP](**at_step)


@pytest.mark.parametrize("without", [[], WITHOUT])
def test_a_training_step_costs_three_times_the_forward_pass(small: Callable[..., Spec], without: list[str]) -> None:
    spec = small(dropout=0.0)
    spec = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"disabled_passes": tuple(without)})}
    )
    program = build(spec, [Purpose.TRAIN])
    source, target = torch.randint(4, 101, (3, 7)), torch.randint(4, 101, (3, 6))
    with FlopCounterMode(display=False) as counter:
        program(source, target).smoothed.backward()
    forward = cost(program.graphs[Purpose.TRAIN]).flops(batch=3, source=7, target=5)
    assert counter.get_total_flops() == 3 * forward


def test_the_layers_and_the_rest_add_up(small: Callable[..., Spec]) -> None:
    graph = lower(small(), Purpose.TRAIN)
    parts = [cost(graph, layer) for layer in layers(graph)]
    whole = cost(graph)
    assert sum(part.parameters for part in parts) == whole.parameters
    assert sum((part.flops for part in parts), whole.flops * 0) == whole.flops
    assert sum((part.activation_bytes for part in parts), whole.flops * 0) == whole.activation_bytes


def test_cache_bytes_are_those_of_the_state(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    state = program.encode(torch.randint(4, 101, (3, 7)))
    for _ in range(4):
        _, state = program.decode_step(state, torch.tensor([2, 2, 2]))
    held = sum(tensor.nbytes for tensor in state.carried.values())
    assert held == cost(program.graphs[Purpose.DECODE_STEP]).cache_bytes(batch=3, beams=1, room=CACHE_BLOCK)


def test_a_pass_that_changes_the_count_says_so(small: Callable[..., Spec]) -> None:
    spec = small()
    before, after = lower(spec, Purpose.SCORE), graphs(spec)[Purpose.SCORE]
    padding = 3 * spec.architecture.d_model  # 101 tokens become 104
    assert cost(after).parameters - cost(before).parameters == padding
    assert cost(before).parameters == compiler.parameters(spec)


@pytest.mark.parametrize("name", specs.names())
def test_flops_and_parameters_of_every_shipped_spec(name: str) -> None:
    """At full size, on the meta device, which has shapes and no memory."""
    spec = specs.load(name)
    lowered = graphs(spec, TRANSLATE)
    program = EmittedProgram(spec, lowered, functions(emit(lowered.values())), "").eval()
    at = {"batch": 3, "source": 7, "target": 5, "beams": 1, "new": 1, "capacity": CACHE_BLOCK}
    source, target = (
        torch.empty(3, 7, dtype=torch.long, device="meta"),
        torch.empty(3, 6, dtype=torch.long, device="meta"),
    )
    assert _flops(lambda: program.score(source, target)) == cost(lowered[Purpose.SCORE]).flops(**at)
    assert _flops(lambda: program.encode(source)) == cost(lowered[Purpose.ENCODE]).flops(**at)
    state = program.encode(source)
    assert _flops(lambda: program.decode_step(state, target[:, 0])) == cost(lowered[Purpose.DECODE_STEP]).flops(**at)
    counted = {p: name for graph in lowered.values() for p, name in graph.parameters.items()}
    assert sum(p.numel() for p in program.parameters()) == sum(p.count for p in counted.values())


def test_what_is_kept_for_the_backward_pass_is_what_it_reads(small: Callable[..., Spec]) -> None:
    """Of a fused attention a number a query in place of weights; of the loss the gradients that it has already."""
    batch, source, target, h, d_model, rows = 3, 7, 5, 2, 16, 104
    kept: dict[str, dict[str, int]] = {}
    for device in ("cpu", "cuda"):
        graph = graphs(small(N=1, dropout=0.0), [Purpose.TRAIN], device)[Purpose.TRAIN]
        for node in graph.nodes:
            of = [graph.types[each] for each in node.inputs], [graph.parameters[each].shape for each in node.parameters]
            numbers = node.operation.saved_elements(*of)(batch=batch, source=source, target=target)
            kept.setdefault(device, {})[node.name] = int(numbers)
    fused = {
        name: batch * h * (source if name.startswith("encoder") else target)
        for name in kept["cuda"]
        if "context" in name
    }
    assert len(fused) == 3
    assert {name: kept["cuda"][name] for name in fused} == fused
    assert all(kept["cpu"][name] > fused[name] for name in fused)
    assert kept["cpu"]["loss"] == kept["cuda"]["loss"] == batch * target * d_model + rows * d_model
