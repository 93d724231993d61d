"""Costs that are known before anything runs, checked against what torch counts when it does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import specs
from compiler import TRANSLATE, EmittedProgram, Purpose, cost, graphs, stored_tensors
from compiler.backends import BuildRequest
from compiler.backends.eager import build_eager
from compiler.costs import memory_traffic
from compiler.decoder import CACHE_BLOCK
from compiler.padded_batch import PaddedBatch
from compiler.size import Size
from specs import Spec
from tests.examples import changed, small


def count_flops(run: Callable[[], object]) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def runs(program: EmittedProgram, source: PaddedBatch, target: torch.Tensor) -> dict[Purpose, Callable[[], object]]:
    """Return functions that run a translation program on a batch, one for each purpose."""
    state = program.encode(source)
    whole = {Purpose.SCORE: lambda: program.score(source, target), Purpose.ENCODE: lambda: program.encode(source)}
    return whole | {Purpose.DECODE_STEP: lambda: program.advance(state, target[:, :1])}


def _kinds(spec: Spec) -> tuple[object, ...]:
    return *(each.kind for each in (*spec.architecture.encoder, *spec.architecture.decoder)), spec.architecture.norm


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_flops_and_parameters_of_shipped_specs(every: bool) -> None:
    """Count on the meta device, which needs no memory. By default, one spec per set of sub-layers with one layer."""
    names = {name if every else _kinds(specs.load(name)): name for name in specs.names()}
    assert len(names) > 3
    for name in names.values():
        spec = specs.load(name, {} if every else {"architecture.N": 1})
        optimised = graphs(spec, TRANSLATE)
        weights = {n: torch.empty(t.shape, device="meta") for n, t in stored_tensors(optimised.values()).items()}
        program = build_eager(BuildRequest(spec, optimised, weights, "meta"))
        at = {"batch": 3, "source": 19, "target": 5, "beams": 1, "new": 1, "capacity": CACHE_BLOCK}
        tokens, target = (torch.empty(3, length, dtype=torch.long, device="meta") for length in (19, 6))
        source, read = PaddedBatch.full(tokens), spec.architecture.source
        if isinstance(read, specs.Features):  # convolutions turn several frames into one position
            frames = 19 * math.prod(each.stride for each in read.subsampling)
            source = PaddedBatch.full(torch.empty(3, frames, read.width, device="meta"))
        for purpose, run in runs(program, source, target).items():
            assert count_flops(run) == cost(optimised[purpose]).flops(**at), (name, purpose)
        counted = {n: p.count for graph in optimised.values() for n, p in graph.parameters.items()}
        assert sum(p.numel() for p in program.parameters()) == sum(counted.values()), name


def test_elements_saved_for_the_backward_pass() -> None:
    """Fused attention saves one number per query instead of weights; the loss saves its gradients."""
    h, d_model, rows, at = 2, 16, 104, {"batch": 3, "source": 7, "target": 5}
    saved: dict[str, dict[str, int]] = {"cpu": {}, "cuda": {}}
    for device, counts in saved.items():
        graph = graphs(small(N=1, dropout=0.0), [Purpose.TRAIN], device)[Purpose.TRAIN]
        for node in graph.nodes:
            types = [graph.types[i] for i in node.inputs]
            counts[node.name] = node.operation.saved_elements(types, graph.shapes(node))(**at)
    contexts = [name for name in saved["cuda"] if "context" in name]
    assert len(contexts) == 3
    for name in contexts:
        fused = at["batch"] * h * at["source" if name.startswith("encoder") else "target"]
        assert saved["cuda"][name] == fused < saved["cpu"][name]
    assert saved["cpu"]["loss"] == saved["cuda"]["loss"] == at["batch"] * at["target"] * d_model + rows * d_model


class TestMemoryTraffic:
    def test_each_weight_is_read_once_per_step(self) -> None:
        """Without rows only the weights remain, except the embedding, of which a step reads single rows."""
        step = graphs(small(tied_embeddings="target"))[Purpose.DECODE_STEP]
        at = {"batch": 0, "beams": 0, "new": 1, "source": 7, "capacity": 16}
        assert memory_traffic(step)(**at) == 4 * sum(parameter.count for parameter in step.parameters.values())

    def step(self, *disabled_passes: str) -> Size:
        return memory_traffic(graphs(changed(small(N=1), disabled_passes=disabled_passes))[Purpose.DECODE_STEP])

    def test_all_beams_read_the_memory_once(self) -> None:
        sizes = {"source": 1000, "new": 1, "capacity": 16}
        saved = self.step("beams_as_queries")(batch=4, **sizes) - self.step()(batch=1, beams=4, **sizes)
        assert saved == 3 * 4 * 1000 * 2 * (6 + 4)  # float32 keys and values of two heads

    def test_a_planned_cache_is_not_copied(self) -> None:
        sizes = {"batch": 1, "beams": 1, "source": 3, "past": 99, "new": 1, "capacity": 100}
        # A copy reads and writes all positions but the new one.
        assert self.step("plan_cache")(**sizes) - self.step()(**sizes) == 4 * 2 * (6 + 4) * 2 * 99
