"""The code that is written: shared between layers, and what runs."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

import compiler
import specs
from compiler import TRANSLATE, Purpose, build, emit, graphs
from specs import Spec


def test_layers_of_a_kind_share_one_function(small: Callable[..., Spec]) -> None:
    for n in (1, 4):
        code = emit(graphs(small(N=n), [Purpose.TRAIN, *TRANSLATE]).values())
        assert sorted(code.layers) == [
            "decoder_layer",
            "decoder_layer_2",  # the same without dropout
            "decoder_layer_memory",
            "decoder_layer_step",
            "encoder_layer",
            "encoder_layer_2",
        ]


def test_the_functions_are_called_once_a_layer(small: Callable[..., Spec]) -> None:
    code = emit(graphs(small(N=5)).values())
    assert code.main[Purpose.ENCODE].count("encoder_layer(") == 5
    assert code.main[Purpose.DECODE_STEP].count("decoder_layer_step(") == 5


def test_the_code_is_what_runs(small: Callable[..., Spec]) -> None:
    program = build(small())
    assert program.code == str(emit(program.graphs.values()))
    functions = [node.name for node in ast.parse(program.code).body if isinstance(node, ast.FunctionDef)]
    assert functions[-3:] == ["encode", "decode_step", "score"]


def test_no_line_is_too_long_to_read() -> None:
    text = str(emit(graphs(specs.load("base"), [Purpose.TRAIN, *TRANSLATE]).values()))
    assert max(map(len, text.splitlines())) <= 125


@pytest.mark.parametrize("name", specs.names())
def test_a_program_has_the_parameters_of_its_graph(name: str) -> None:
    """Counted on the meta device's shapes, before passes: no memory is needed even for big."""
    spec = specs.load(name)
    every = tuple(p.name for p in compiler.PASSES)
    bare = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"disabled_passes": every})})
    lowered = graphs(bare, [Purpose.TRAIN])
    program = compiler.EmittedProgram(bare, lowered, {}, "")
    assert sum(p.numel() for p in program.parameters()) == compiler.parameters(spec)


@pytest.mark.parametrize("name", specs.names())
def test_the_code_of_every_shipped_spec_is_python_with_its_sizes(name: str) -> None:
    spec = specs.load(name)
    text = str(emit(graphs(spec, [Purpose.TRAIN]).values()))
    tree = ast.parse(text)
    norms = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "layer_norm"]
    assert {ast.literal_eval(norm.args[1]) for norm in norms} == {(spec.architecture.d_model,)}
