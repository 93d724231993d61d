"""The plan of a spec is the sum of its parts, and agrees with what torch counts when the program runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import compiler
import specs
from specs import BOS, EOS, Spec
from zoo import plan as plans


@pytest.mark.parametrize("name", ["base", "big", "tiny", "table3/e-learned"])
def test_layers_add_up(name: str) -> None:
    plan = plans.plan(specs.load(name))
    assert sum(layer.parameters for layer in plan.layers) == plan.parameters
    assert sum(layer.flops_a_token for layer in plan.layers) == pytest.approx(plan.flops_a_token)


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
    assert counter.get_total_flops() == plan.flops_a_token * length + padding


def test_a_pass_that_adds_parameters_says_how_many(small: Callable[..., Spec]) -> None:
    plan = plans.plan(small(tied_embeddings="none"))
    changes = {each.name: each.parameters for each in plan.passes}
    assert plan.program_parameters - plan.parameters == sum(changes.values())
    assert changes["pad_vocabulary"] == 3 * 16
    assert [name for name, change in changes.items() if change] == ["pad_vocabulary"]


def test_a_pass_that_is_off_is_not_shown(small: Callable[..., Spec]) -> None:
    spec = specs.load("tiny", {"compilation": {"without": ["fuse_projections"]}})
    assert "fuse_projections" not in [each.name for each in plans.plan(spec).passes]
    assert "query_key_value" not in plans.code(spec)
    assert "query_key_value" in plans.code(small())


def test_the_cache_is_the_bytes_that_a_decoder_carries(small: Callable[..., Spec]) -> None:
    spec, length = small(), 5
    program = compiler.build(spec)
    state = program.encode(torch.tensor([[5] * (length - 1) + [EOS]]))
    for _ in range(length):
        _, state = program.decode_step(state, torch.tensor([BOS]))
    carried = [*state.memory.values(), *state.cache.values()]
    assert plans.plan(spec, length).cache_bytes == sum(tensor.nbytes for tensor in carried)


def test_the_code_is_python_for_all_purposes() -> None:
    code = plans.code(specs.load("tiny"))
    compile(code, "tiny.py", "exec")
    assert all(f"def {purpose}(" in code for purpose in compiler.Purpose)
