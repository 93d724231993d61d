"""The plan of a spec is the sum of its parts, and agrees with torch's counts when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import compiler
import specs
from compiler.lowering.transformer import Transformer
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, Spec
from tests.examples import changed
from zoo.planning import plan as plans
from zoo.planning.memory_estimate import batch_rows


def test_layers_add_up(small: Callable[..., Spec]) -> None:
    for fields in (
        {"norm": {"placement": "pre"}, "positions": {"kind": "learned", "rows": 128}},
        {"tied_embeddings": "none"},
        {"tied_embeddings": "target", "projection_bias": True},
    ):
        plan = plans.plan(small(**fields))
        assert sum(layer.parameters for layer in plan.layers) == plan.parameters
        assert sum(layer.flops_per_token for layer in plan.layers) == pytest.approx(plan.flops_per_token)
        names = [layer.name for layer in plan.layers if "embedding" in layer.name or "logits" in layer.name]
        assert names == ["source embedding", "target embedding", "logits"]


def test_passes_list_the_sizes_before_and_after(small: Callable[..., Spec]) -> None:
    spec = small(tied_embeddings="none")
    plan, effects = plans.plan(spec), plans.pass_effects(spec, 27)
    assert plan.program_parameters - plan.parameters == 3 * 16  # rows of the padded table
    by_name = {effect.name: effect for effect in effects}
    assert list(by_name) == [effect.name for effect in compiler.PASSES]
    for before, after in pairwise(effects):
        assert before.after == after.before
    padded = by_name["pad_vocabulary"]
    assert padded.after.weight_bytes - padded.before.weight_bytes == 4 * 3 * 16
    hoisted, fused = by_name["hoist_memory"], by_name["fuse_projections"]
    assert hoisted.after.flops < hoisted.before.flops / 1.5
    assert hoisted.after.step_bytes < hoisted.before.step_bytes
    assert fused.after.flops == fused.before.flops
    for name in ("fuse_projections", "beams_as_queries"):
        assert by_name[name].after.step_bytes < by_name[name].before.step_bytes
    assert by_name["chunk_loss"].after.activation_bytes < by_name["chunk_loss"].before.activation_bytes
    assert by_name["drop_dropout"].after.operations < by_name["drop_dropout"].before.operations
    assert [name for name, effect in by_name.items() if not effect.exact] == ["bfloat16", "int8"]


def source_only(model: Transformer) -> None:
    """Add the sum of the encoder's output to the graph as the loss."""
    memory, _ = model.encoder()
    model.b.output("loss", memory)


def test_a_task_without_decoder_has_a_plan(small: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs.Translation, "loss", f"{__name__}:source_only")
    spec = small(decoder=[], tied_embeddings="none")
    assert plans.plan(spec).cache_bytes == 0
    assert all(effect.after.flops > 0 == effect.after.step_bytes for effect in plans.pass_effects(spec, 27))


@pytest.mark.parametrize(("precision", "ratio"), [("bfloat16", 2), ("int8", 3.5)])
def test_lower_precision_reduces_memory_traffic(precision: str, ratio: float) -> None:
    spec = specs.load("base", {"compilation": {"precision": precision}})
    plan = plans.plan(spec)
    done = next(effect for effect in plans.pass_effects(spec, 27) if effect.name == precision)
    assert done.before.step_bytes / done.after.step_bytes == pytest.approx(ratio, rel=0.1)
    assert done.after.activation_bytes == done.before.activation_bytes
    assert plan.weight_bytes == 4 * plan.parameters


def translate(spec: Spec, length: int) -> Any:
    """Translate a sentence in this number of steps, and return the decoder state."""
    program = compiler.build(spec)
    state = program.encode(PaddedBatch.pad([[5] * (length - 1) + [EOS]]))
    for _ in range(length):
        _, state = program.advance(state, torch.tensor([[BOS]]))
    return state


def test_flops_of_a_translation_equal_those_that_torch_counts(small: Callable[..., Spec]) -> None:
    """Greedy search, without unused positions in the cache."""
    spec, length = changed(changed(small(), disabled_passes=("plan_cache",)), "decoding", beam=1), 5
    with FlopCounterMode(display=False) as counter:
        translate(spec, length)
    assert plans.pass_effects(spec, length)[-1].after.flops == counter.get_total_flops()


def test_cache_bytes_equal_the_tensors_of_the_state(small: Callable[..., Spec]) -> None:
    spec, length = small(), 16  # the initial capacity of a planned cache
    state = translate(spec, length)
    tensors = [*state.memory.values(), *state.carried.values()]
    floats = sum(tensor.nbytes for tensor in tensors if tensor.is_floating_point())
    assert plans.plan(spec, length).cache_bytes == floats


def test_steps_and_paths_follow_from_the_layers(small: Callable[..., Spec]) -> None:
    """Table 1 for whole stacks. Without a path, `reach` is the largest distance that the layers connect."""
    feed_forward, memory = {"kind": "feed_forward"}, {"kind": "cross_attention"}
    near = {"kind": "restricted_attention", "radius": 3}
    plan = plans.plan(small(encoder=[near, feed_forward], decoder=[{"kind": "ssru"}, memory, feed_forward]), 10)
    assert plan.positions == (plans.StackPositions("encoder", 1, None, 6), plans.StackPositions("decoder", 11, 10, 9))
    plan = plans.plan(small(encoder=[near, feed_forward]), 7)
    assert plan.positions == (plans.StackPositions("encoder", 1, 2, 6), plans.StackPositions("decoder", 2, 1, 6))


@pytest.mark.parametrize(("accumulation_steps", "part"), [(1, 925), (2, 463), (500, 2), (925, 1), (1000, 1)])
def test_accumulation_step_has_the_rows_of_its_largest_part(accumulation_steps: int, part: int) -> None:
    """25,000 tokens in pairs of 27. Remaining rows are distributed over the parts."""
    assert batch_rows(specs.load("base", [f"training.accumulation_steps={accumulation_steps}"]), 27) == (925, part)
