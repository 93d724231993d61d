"""Exact passes do not change results, and their changes to the weight map can be undone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import PASSES, TRANSLATE, Purpose, build, build_module, graphs, interpret, lower, passes
from compiler.backends import BuildRequest
from compiler.backends.conformance import disagreement
from compiler.backends.eager import eager
from compiler.graph import Graphs
from compiler.operations.attention import Attention
from compiler.operations.elementwise import Dropout
from compiler.operations.operation import GraphError
from compiler.operations.projection import Embedding, Logits
from compiler.options import CompileOptions
from compiler.padded_batch import PaddedBatch
from specs import Spec, ZooError
from tests.compiler.conftest import shaken
from tests.compiler.test_conformance import FEED_FORWARD, SUBLAYERS
from tests.examples import changed, small

OTHERS = [each for each in SUBLAYERS.values() if "kv_heads" not in each]  # additive attention has no grouped heads
MIXING = ({"kind": "self_attention"}, *OTHERS, FEED_FORWARD)


def sublayers(*required: dict[str, object]) -> st.SearchStrategy[list[dict[str, object]]]:
    """Draw some kinds, each at most once, and the required ones, in any order."""
    some = st.lists(st.sampled_from(MIXING), min_size=1, max_size=3, unique_by=lambda each: each["kind"])
    return some.flatmap(lambda found: st.permutations([*found, *required]))


architectures = st.fixed_dictionaries(
    {
        "N": st.integers(1, 3),
        "encoder": sublayers(),
        "decoder": sublayers({"kind": "cross_attention"}),
        "d_model": st.sampled_from([8, 12]),
        "d_ff": st.sampled_from([8, 20]),
        "h": st.sampled_from([1, 3]),
        "d_k": st.integers(1, 5),
        "d_v": st.integers(1, 5),
        "norm": st.sampled_from([{"placement": "post"}, {"kind": "rms_norm", "placement": "pre"}]),
        "positions": st.sampled_from([{"kind": "sinusoidal"}, {"kind": "learned", "rows": 128}]),
        "tied_embeddings": st.sampled_from(["all", "target", "none"]),
        "projection_bias": st.booleans(),
        "output_bias": st.booleans(),
        "activation": st.sampled_from(["relu", "silu", "gelu"]),
        "attention_dropout": st.sampled_from([0.0, 0.2]),
        "activation_dropout": st.sampled_from([0.0, 0.2]),
        "attention_score": st.sampled_from(["scaled_dot_product", "dot_product", "additive"]),
    }
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures, st.sets(st.sampled_from([p.name for p in PASSES])), st.booleans(), st.integers(0, 99))
def test_programs_agree_with_the_interpreter_with_any_passes(
    architecture: dict[str, object], without: set[str], train: bool, seed: int
) -> None:
    purposes = [Purpose.TRAIN, *TRANSLATE] if train else TRANSLATE
    spec = changed(small(**architecture), disabled_passes=tuple(without))
    program = build(spec, purposes, weights=shaken(spec))
    for purpose, error in disagreement(program, seed).items():
        assert error < 1e-5, purpose


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_emitted_code_rounds_like_the_interpreter(precision: str) -> None:
    """Approximate passes differ from the paper, but emitted code does not differ from its graph."""
    spec = small(output_bias=True, activation="silu")
    weights = shaken(spec)
    program = build(spec, [Purpose.SCORE], weights=weights, precision=precision)
    source, target = PaddedBatch.full(torch.randint(4, 101, (3, 7))), torch.randint(4, 101, (3, 6))
    inputs = {**source.inputs, "target": target}
    expected = interpret(program.graphs[Purpose.SCORE], weights, inputs)["log_probabilities"]
    tolerance = 1e-5 if precision == "int8" else 1e-2
    torch.testing.assert_close(program.score(source, target), expected, atol=tolerance, rtol=tolerance)


def test_scales_are_folded_into_weights_without_other_readers() -> None:
    for tied, embeddings in (("all", 4.0), ("target", 1.0), ("none", 1.0)):
        lowered = graphs(small(tied_embeddings=tied))
        scales = [n.operation.scale for n in lowered[Purpose.ENCODE].nodes if isinstance(n.operation, Embedding)]
        assert scales == [embeddings], tied
        attention = [n.operation for g in lowered.values() for n in g.nodes if isinstance(n.operation, Attention)]
        assert {a.scale for a in attention} == {1.0}
    training = graphs(small(), [Purpose.TRAIN, Purpose.SCORE])
    attention = [n.operation for g in training.values() for n in g.nodes if isinstance(n.operation, Attention)]
    assert {a.scale for a in attention} == {6**-0.5}


def test_attention_without_dropout_is_fused_on_a_gpu() -> None:
    for attention_dropout in (0.0, 0.2):
        lowered = graphs(small(attention_dropout=attention_dropout), [Purpose.TRAIN, *TRANSLATE], "cuda:0")
        for purpose, graph in lowered.items():
            kernels = {n.operation.one_kernel for n in graph.nodes if isinstance(n.operation, Attention)}
            dropped = purpose is Purpose.TRAIN and attention_dropout
            assert kernels == {not dropped}


def test_fused_attention_agrees_with_the_interpreter() -> None:
    spec = small()
    weights = build(spec).weights()
    order = BuildRequest(spec, graphs(spec, TRANSLATE, "cuda"), weights)
    for purpose, error in disagreement(eager.build(order)).items():
        assert error < 1e-5, purpose


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures)
def test_weights_are_loaded_and_returned_unchanged(architecture: dict[str, object]) -> None:
    program = build_module(small(**architecture))
    file = {name: torch.randn(tensor.shape) for name, tensor in program.weights().items()}
    program.load(file)
    back = program.weights()
    assert back.keys() == file.keys()
    assert all(torch.equal(back[name], file[name]) for name in file)


def test_gradients_flow_through_concatenated_weights() -> None:
    spec = small()
    weights = {name: t.clone().requires_grad_() for name, t in build(spec, [Purpose.TRAIN]).weights().items()}
    tokens = {**PaddedBatch.pad([[5, 6, 3]]).inputs, "target": torch.tensor([[2, 5, 3]])}
    gradients = []
    for graph in (lower(spec, Purpose.SCORE), graphs(spec, [Purpose.SCORE])[Purpose.SCORE]):
        total = interpret(graph, weights, tokens)["log_probabilities"].sum()
        gradients.append(torch.autograd.grad(total, tuple(weights.values())))
    for expected, actual in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected)


def test_programs_can_be_built_from_weights_that_require_gradients() -> None:
    weights = {name: t.clone().requires_grad_() for name, t in build(small()).weights().items()}
    program = build(small(), weights=weights)
    assert all(torch.equal(program.weights()[name], tensor) for name, tensor in weights.items())


def test_dropout_remains_in_training_only() -> None:
    lowered = graphs(small(attention_dropout=0.3), [Purpose.TRAIN, *TRANSLATE])
    for purpose, graph in lowered.items():
        dropped = [n for n in graph.nodes if isinstance(n.operation, Dropout)]
        attention = [n.operation.dropout for n in graph.nodes if isinstance(n.operation, Attention)]
        assert bool(dropped) == (purpose is Purpose.TRAIN)
        assert set(attention) == ({0.3} if purpose is Purpose.TRAIN else {0.0})


def test_the_vocabulary_is_padded_and_the_log_probabilities_are_not() -> None:
    lowered = graphs(small())
    for graph in lowered.values():
        assert graph.parameters["embedding"].origin.shape[0] == 104
    logits = [n for n in lowered[Purpose.SCORE].nodes if isinstance(n.operation, Logits)]
    assert [n.type.shape[-1].constant for n in logits] == [104]
    program = build(small())
    state = program.encode(PaddedBatch.pad([[5, 3]]))
    log_probabilities, _ = program.advance(state, torch.tensor([[2]]))
    assert log_probabilities.shape == (1, 1, 101)
    torch.testing.assert_close(log_probabilities.exp().sum(), torch.tensor(1.0))


def test_an_unknown_pass_name_is_an_error() -> None:
    with pytest.raises(ZooError) as caught:
        graphs(changed(small(), disabled_passes=("hoist_memroy",)))
    assert "`hoist_memroy`" in str(caught.value)
    assert caught.value.hint == "did you mean `hoist_memory`?"


def test_a_pass_that_breaks_a_graph_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(graphs: Graphs, spec: Spec, options: CompileOptions) -> Graphs:
        return {purpose: replace(graph, nodes=graph.nodes[1:]) for purpose, graph in graphs.items()}

    monkeypatch.setattr(passes, "PASSES", (passes.Pass(breaking),))
    with pytest.raises(GraphError, match="no earlier node computes"):
        graphs(small())
