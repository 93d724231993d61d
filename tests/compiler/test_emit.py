"""Emitted code: layers share functions, and the code is what runs."""

from __future__ import annotations

from compiler import TRANSLATE, Purpose, emit, graphs
from tests.examples import small


def test_equal_layers_share_one_function_that_each_of_them_calls() -> None:
    shared = "decoder_layer decoder_layer_2 decoder_layer_memory decoder_layer_step encoder_layer encoder_layer_2"
    for n in (1, 4):  # those that end in 2 have no dropout
        code = emit(graphs(small(N=n), [Purpose.TRAIN, *TRANSLATE]).values())
        assert sorted(code.layers) == shared.split()
        assert code.main[Purpose.TRAIN].count("encoder_layer(") == n
        assert code.main[Purpose.DECODE_STEP].count("decoder_layer_step(") == n
