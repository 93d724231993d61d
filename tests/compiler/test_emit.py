"""Emitted code: layers share functions, and the code is what runs."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compiler import TRANSLATE, Purpose, emit, graphs
from specs import Spec


def test_equal_layers_share_one_function_that_each_of_them_calls(small: Callable[..., Spec]) -> None:
    for n in (1, 4):
        code = emit(graphs(small(N=n), [Purpose.TRAIN, *TRANSLATE]).values())
        assert sorted(code.layers) == [
            "decoder_layer",
            "decoder_layer_2",  # without dropout
            "decoder_layer_memory",
            "decoder_layer_step",
            "encoder_layer",
            "encoder_layer_2",
        ]
        assert code.main[Purpose.TRAIN].count("encoder_layer(") == n
        assert code.main[Purpose.DECODE_STEP].count("decoder_layer_step(") == n


def test_each_purpose_has_a_function(small: Callable[..., Spec]) -> None:
    code = str(emit(graphs(small()).values()))
    functions = [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    assert functions[-3:] == ["encode", "decode_step", "score"]
