"""Bytes that a step moves, against a count of what its operations touch."""

from __future__ import annotations

from collections.abc import Callable

from compiler import Purpose, graphs, lower
from compiler.cost import memory_traffic
from specs import Spec


def test_every_weight_is_read_once_a_step(small: Callable[..., Spec]) -> None:
    """What is left without rows is the weights, but for the table of which a step reads single rows."""
    step = graphs(small(tied_embeddings="target"))[Purpose.DECODE_STEP]
    at = {"batch": 0, "beams": 0, "source": 7, "capacity": 16}
    assert memory_traffic(step)(**at) == 4 * sum(parameter.count for parameter in step.parameters.values())


def test_the_memory_is_read_once_for_all_beams(small: Callable[..., Spec]) -> None:
    spec = small(N=1)
    without = spec.compilation.model_copy(update={"disabled_passes": ("beams_as_queries",)})
    before = graphs(spec.model_copy(update={"compilation": without}))[Purpose.DECODE_STEP]
    after = graphs(spec)[Purpose.DECODE_STEP]
    sizes = {"source": 1000, "new": 1, "capacity": 16}
    saved = memory_traffic(before)(batch=4, **sizes) - memory_traffic(after)(batch=1, beams=4, **sizes)
    memory = 4 * 1000 * 2 * (6 + 4)  # keys and values of two heads
    assert saved == 3 * memory


def test_a_cache_that_has_room_is_not_copied(small: Callable[..., Spec]) -> None:
    spec = small(N=1)
    without = spec.compilation.model_copy(update={"disabled_passes": ("plan_cache",)})
    before = graphs(spec.model_copy(update={"compilation": without}))[Purpose.DECODE_STEP]
    after = graphs(spec)[Purpose.DECODE_STEP]
    sizes = {"batch": 1, "beams": 1, "source": 3, "past": 99, "new": 1, "capacity": 100}
    # Read to be copied and written as a copy, but for the new position.
    assert memory_traffic(before)(**sizes) - memory_traffic(after)(**sizes) == 4 * 2 * (6 + 4) * 2 * 99


def test_a_training_graph_has_its_traffic_too(small: Callable[..., Spec]) -> None:
    train = lower(small(), Purpose.TRAIN)
    assert memory_traffic(train)(batch=2, source=5, target=6) > 4 * sum(p.count for p in train.parameters.values())
