"""Layers of Table 1 are timed as they are listed; how long they take is nobody's promise."""

from __future__ import annotations

import pytest

from zoo.paper import timings
from zoo.paper.table1 import RESTRICTED, SELF_ATTENTION


def test_each_layer_has_a_time_at_each_length_and_the_formulas_exponent() -> None:
    found = list(timings.time_layers((SELF_ATTENTION, RESTRICTED), (16, 32)))
    assert [each.key for each in found] == ["self-attention", "restricted"]
    assert all([n for n, _ in each.seconds] == [16, 32] and min(s for _, s in each.seconds) > 0 for each in found)
    assert [each.formula for each in found] == pytest.approx([2.0, 1.0])
