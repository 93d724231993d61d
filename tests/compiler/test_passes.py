"""Exact passes do not change results, and their changes to the weight map can be undone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import PASSES, TRANSLATE, Purpose, build, graphs, interpret
from compiler.backends import BuildRequest
from compiler.backends.conformance import disagreement
from compiler.backends.eager import eager
from compiler.graph import Graphs
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout
from compiler.operations.projection import Logits
from compiler.padded_batch import PaddedBatch
from tests.compiler.conftest import shaken
from tests.compiler.test_conformance import FEED_FORWARD, SUBLAYERS
from tests.examples import changed, small
from tests.refusals import refused

OTHERS = [each for each in SUBLAYERS.values() if "kv_heads" not in each]  # additive attention has no grouped heads
MIXING = ({"kind": "self_attention"}, *OTHERS, FEED_FORWARD)


def sublayers(*required: dict[str, object]) -> st.SearchStrategy[list[dict[str, object]]]:
    """Draw some kinds, each at most once, and the required ones, in any order."""
    some = st.lists(st.sampled_from(MIXING), min_size=1, max_size=3, unique_by=lambda each: each["kind"])
    return some.flatmap(lambda found: st.permutations([*found, *required]))


def attentions(lowered: Graphs) -> list[Attention]:
    return [n.operation for graph in lowered.values() for n in graph.nodes if isinstance(n.operation, Attention)]


FIELDS = yaml.safe_load("""
  {N: [1, 2, 3], d_model: [8, 12], d_ff: [8, 20], h: [1, 3], d_k: [1, 2, 3, 4, 5], d_v: [1, 2, 3, 4, 5],
   norm: [{placement: post}, {kind: rms_norm, placement: pre}], tied_embeddings: [all, target, none],
   positions: [{kind: sinusoidal}, {kind: learned, rows: 128}], projection_bias: [false, true],
   output_bias: [false, true], activation: [relu, silu, gelu], attention_dropout: [0.0, 0.2],
   activation_dropout: [0.0, 0.2], attention_score: [scaled_dot_product, dot_product, additive]}
""")
layers = {"encoder": sublayers(), "decoder": sublayers({"kind": "cross_attention"})}
architectures = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in FIELDS.items()} | layers)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures, st.sets(st.sampled_from([p.name for p in PASSES])), st.booleans(), st.integers(0, 99))
def test_programs_agree_with_the_interpreter(fields: Any, without: set[str], train: bool, seed: int) -> None:
    """They do so with any passes. Programs for training return the weights that they are built from."""
    spec = changed(small(**fields), disabled_passes=tuple(without))
    weights = shaken(spec)
    program = build(spec, [Purpose.TRAIN, *TRANSLATE] if train else TRANSLATE, weights=weights)
    if train:
        returned = program.weights()
        assert returned.keys() == weights.keys()
        assert all(torch.equal(returned[name], weights[name]) for name in weights)
    assert all(error < 1e-5 for error in disagreement(program, seed).values())


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_emitted_code_rounds_like_the_interpreter(precision: str) -> None:
    """Approximate passes differ from the paper, but emitted code does not differ from its graph."""
    spec = small(output_bias=True, activation="silu")
    weights = shaken(spec)
    program = build(spec, [Purpose.SCORE], weights=weights, precision=precision)
    source, target = PaddedBatch.full(torch.randint(4, 101, (3, 7))), torch.randint(4, 101, (3, 6))
    expected = interpret(program.graphs[Purpose.SCORE], weights, {**source.inputs, "target": target})
    tolerance, found = 1e-5 if precision == "int8" else 1e-2, program.score(source, target)
    torch.testing.assert_close(found, expected["log_probabilities"], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_dropout_remains_in_training_only_and_attention_without_it_is_fused_on_a_gpu(dropout: float) -> None:
    lowered = graphs(small(attention_dropout=dropout), [Purpose.TRAIN, *TRANSLATE], "cuda:0")
    for purpose, graph in lowered.items():
        expected = dropout if purpose is Purpose.TRAIN else 0.0
        found = {(each.dropout, each.one_kernel) for each in attentions({purpose: graph})}
        assert found == {(expected, not expected)}
        assert any(isinstance(n.operation, Dropout) for n in graph.nodes) == (purpose is Purpose.TRAIN)


def test_fused_attention_agrees_with_the_interpreter() -> None:
    order = BuildRequest(small(), graphs(small(), TRANSLATE, "cuda"), build(small()).weights())
    assert all(error < 1e-5 for error in disagreement(eager.build(order)).values())


def test_programs_can_be_built_from_weights_that_require_gradients() -> None:
    weights = {name: t.clone().requires_grad_() for name, t in build(small()).weights().items()}
    program = build(small(), weights=weights)
    assert all(torch.equal(program.weights()[name], tensor) for name, tensor in weights.items())


def test_the_vocabulary_is_padded_and_the_log_probabilities_are_not() -> None:
    lowered = graphs(small())
    assert {graph.parameters["embedding"].origin.shape[0] for graph in lowered.values()} == {104}
    logits = [n for n in lowered[Purpose.SCORE].nodes if isinstance(n.operation, Logits)]
    assert [n.type.shape[-1].constant for n in logits] == [104]
    program = build(small())
    log_probabilities, _ = program.advance(program.encode(PaddedBatch.pad([[5, 3]])), torch.tensor([[2]]))
    assert log_probabilities.shape == (1, 1, 101)
    torch.testing.assert_close(log_probabilities.exp().sum(), torch.tensor(1.0))


def test_an_unknown_pass_name_is_an_error() -> None:
    error = refused("`hoist_memroy`", graphs, changed(small(), disabled_passes=("hoist_memroy",)))
    assert error.hint == "did you mean `hoist_memory`?"
