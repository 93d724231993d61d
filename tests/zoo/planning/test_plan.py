"""The plan of a spec is the sum of its parts, and agrees with what torch counts when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import compiler
import specs
from specs import BOS, EOS, Spec, ZooError
from zoo.planning import plan as plans
from zoo.planning.memory_estimate import batch_rows


@pytest.mark.parametrize("name", ["base", "big", "tiny", "table3/e-learned"])
def test_layers_add_up(name: str) -> None:
    plan = plans.plan(specs.load(name))
    assert sum(layer.parameters for layer in plan.layers) == plan.parameters
    assert sum(layer.flops_per_token for layer in plan.layers) == pytest.approx(plan.flops_per_token)


@pytest.mark.parametrize(
    "fields", [{}, {"norm": "pre"}, {"tied_embeddings": "none"}, {"tied_embeddings": "target", "projection_bias": True}]
)
def test_layers_add_up_whatever_the_architecture(small: Callable[..., Spec], fields: dict[str, object]) -> None:
    plan = plans.plan(small(**fields))
    assert sum(layer.parameters for layer in plan.layers) == plan.parameters
    assert [layer.name for layer in plan.layers if "embedding" in layer.name or "logits" in layer.name] == [
        "source embedding",
        "target embedding",
        "logits",
    ]


def test_flops_are_those_that_torch_counts(small: Callable[..., Spec]) -> None:
    spec, length = small(dropout=0.0), 7
    program = compiler.build(spec, [compiler.Purpose.SCORE])
    source = torch.tensor([[5] * (length - 1) + [EOS]])
    target = torch.tensor([[BOS] + [5] * (length - 1) + [EOS]])
    with FlopCounterMode(display=False) as counter:
        program.score(source, target)
    plan = plans.plan(spec, length)
    # The vocabulary of 101 is padded to 104 in the program.
    padding = 2 * 3 * spec.architecture.d_model * length
    assert counter.get_total_flops() == plan.flops_per_token * length + padding


def test_a_pass_says_what_was_before_it_and_after_it(small: Callable[..., Spec]) -> None:
    plan = plans.plan(small(tied_embeddings="none"))
    assert plan.program_parameters - plan.parameters == 3 * 16  # rows of the padded table
    by_name = {each.name: each for each in plan.passes}
    assert list(by_name) == [each.name for each in compiler.PASSES]
    for before, after in pairwise(plan.passes):
        assert before.after == after.before
    padded = by_name["pad_vocabulary"]
    assert padded.after.weight_bytes - padded.before.weight_bytes == 4 * 3 * 16
    hoisted, fused = by_name["hoist_memory"], by_name["fuse_projections"]
    assert hoisted.after.flops < hoisted.before.flops / 1.5
    assert hoisted.after.step_bytes < hoisted.before.step_bytes
    assert fused.after.step_bytes < fused.before.step_bytes
    assert fused.after.flops == fused.before.flops
    assert by_name["beams_as_queries"].after.step_bytes < by_name["beams_as_queries"].before.step_bytes
    assert by_name["chunk_loss"].after.activation_bytes < by_name["chunk_loss"].before.activation_bytes
    assert by_name["drop_dropout"].after.operations < by_name["drop_dropout"].before.operations
    assert [name for name, each in by_name.items() if not each.exact] == ["bfloat16", "int8"]


@pytest.mark.parametrize(("precision", "part"), [("bfloat16", 2), ("int8", 3.5)])
def test_a_precision_shows_in_what_is_read(precision: str, part: float) -> None:
    plan = plans.plan(specs.load("base", {"compilation": {"precision": precision}}))
    done = next(each for each in plan.passes if each.name == precision)
    assert done.before.step_bytes / done.after.step_bytes == pytest.approx(part, rel=0.1)
    assert done.after.activation_bytes == done.before.activation_bytes
    assert plan.weight_bytes == 4 * plan.parameters


def test_a_sentences_flops_are_those_that_torch_counts(small: Callable[..., Spec]) -> None:
    """Translated greedily, without the cache's room for more than there is."""
    spec, length = small(), 5
    compilation = spec.compilation.model_copy(update={"disabled_passes": ("plan_cache",)})
    spec = spec.model_copy(
        update={"decoding": spec.decoding.model_copy(update={"beam": 1}), "compilation": compilation}
    )
    program = compiler.build(spec)
    with FlopCounterMode(display=False) as counter:
        state = program.encode(torch.tensor([[5] * (length - 1) + [EOS]]))
        for _ in range(length):
            _, state = program.decode_step(state, torch.tensor([BOS]))
    assert plans.plan(spec, length).passes[-1].after.flops == counter.get_total_flops()


def test_a_pass_that_is_off_is_not_shown(small: Callable[..., Spec]) -> None:
    spec = specs.load("tiny", {"compilation": {"disabled_passes": ["fuse_projections"]}})
    assert "fuse_projections" not in [each.name for each in plans.plan(spec).passes]
    assert "query_key_value" not in plans.code(spec)
    assert "query_key_value" in plans.code(small())


def test_the_cache_is_the_bytes_that_a_decoder_carries(small: Callable[..., Spec]) -> None:
    spec, length = small(), 16  # as many as a planned cache has room for at first
    program = compiler.build(spec)
    state = program.encode(torch.tensor([[5] * (length - 1) + [EOS]]))
    for _ in range(length):
        _, state = program.decode_step(state, torch.tensor([BOS]))
    carried = [*state.memory.values(), *state.carried.values()]
    assert plans.plan(spec, length).cache_bytes == sum(tensor.nbytes for tensor in carried)


def test_the_code_is_python_for_training_and_translating() -> None:
    code = plans.code(specs.load("tiny"))
    compile(code, "tiny.py", "exec")
    assert all(f"def {purpose}(" in code for purpose in (compiler.Purpose.TRAIN, *compiler.TRANSLATE))


def test_it_is_drawn_into_a_file(small: Callable[..., Spec]) -> None:
    file = plans.draw_to(small(), Path("figure.svg"))
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<svg ")
    assert f"{plans.plan(small()).parameters:,} parameters" in text
    with pytest.raises(ZooError, match=r"does not end in \.svg") as caught:
        plans.draw_to(small(), Path("figure.png"))
    assert caught.value.hint == "the drawing is SVG: call it `figure.svg`"
    assert not Path("figure.png").exists()


def test_steps_and_paths_are_those_of_what_is_in_the_layers(small: Callable[..., Spec]) -> None:
    """Table 1, of the whole stacks of a spec; layers that do not reach far enough connect what they reach."""
    network, memory = {"kind": "feed_forward"}, {"kind": "cross_attention"}
    near = {"kind": "restricted_attention", "radius": 3}
    plan = plans.plan(small(encoder=[near, network], decoder=[{"kind": "ssru"}, memory, network]), 10)
    assert plan.positions == (plans.StackPositions("encoder", 1, None, 6), plans.StackPositions("decoder", 11, 10, 9))
    plan = plans.plan(small(encoder=[near, network]), 7)
    assert plan.positions == (plans.StackPositions("encoder", 1, 2, 6), plans.StackPositions("decoder", 2, 1, 6))


@pytest.mark.parametrize(("accumulation_steps", "part"), [(1, 925), (2, 463), (500, 2), (925, 1), (1000, 1)])
def test_a_part_is_as_large_as_the_largest_that_is_computed(accumulation_steps: int, part: int) -> None:
    """Of 25,000 tokens in pairs of 27: what is left over goes with the others."""
    assert batch_rows(specs.load("base", [f"training.accumulation_steps={accumulation}"]), 27) == (925, part)
