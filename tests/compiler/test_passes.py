"""Every pass is exact, and its edit of the weight map can be undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import PASSES, TRANSLATE, Purpose, build, graphs, lower
from compiler.agree import disagreement
from compiler.operation import Attention, Dropout, Linear, Logits
from specs import Spec, ZooError

architectures = st.fixed_dictionaries(
    {
        "N": st.integers(1, 3),
        "d_model": st.sampled_from([8, 12]),
        "d_ff": st.sampled_from([8, 20]),
        "h": st.sampled_from([1, 3]),
        "d_k": st.integers(1, 5),
        "d_v": st.integers(1, 5),
        "norm": st.sampled_from(["post", "pre"]),
        "positional_encoding": st.sampled_from(["sinusoidal", "learned"]),
        "tied_embeddings": st.sampled_from(["all", "target", "none"]),
        "projection_bias": st.booleans(),
        "attention_dropout": st.sampled_from([0.0, 0.2]),
    }
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures, st.sets(st.sampled_from([p.name for p in PASSES])), st.integers(0, 99))
def test_programs_agree_with_the_interpreter_whichever_passes_run(
    small: Callable[..., Spec], architecture: dict[str, object], without: set[str], seed: int
) -> None:
    program = build(_without(small(**architecture), *without), [Purpose.TRAIN, *TRANSLATE])
    for purpose, error in disagreement(program, seed).items():
        assert error < 1e-5, purpose


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures)
def test_weights_go_into_the_program_and_come_back(small: Callable[..., Spec], architecture: dict[str, object]) -> None:
    program = build(small(**architecture), [Purpose.TRAIN])
    file = {name: torch.randn(tensor.shape) for name, tensor in program.weights().items()}
    program.load(file)
    back = program.weights()
    assert back.keys() == file.keys()
    assert all(torch.equal(back[name], file[name]) for name in file)


def test_dropout_is_left_in_training_alone(small: Callable[..., Spec]) -> None:
    lowered = graphs(small(attention_dropout=0.3), [Purpose.TRAIN, *TRANSLATE])
    for purpose, graph in lowered.items():
        dropped = [n for n in graph.nodes if isinstance(n.operation, Dropout)]
        attention = [n.operation.dropout for n in graph.nodes if isinstance(n.operation, Attention)]
        assert bool(dropped) == (purpose is Purpose.TRAIN)
        assert set(attention) == ({0.3} if purpose is Purpose.TRAIN else {0.0})


def test_dropout_changes_what_training_computes(small: Callable[..., Spec]) -> None:
    program = build(small(dropout=0.5), [Purpose.TRAIN])
    source, target = torch.randint(4, 101, (3, 7)), torch.randint(4, 101, (3, 6))
    program.train()
    assert program(source, target).smoothed != program(source, target).smoothed
    program.eval()
    assert program(source, target).smoothed == program(source, target).smoothed


def test_a_layer_projects_each_value_once(small: Callable[..., Spec]) -> None:
    step = graphs(small())[Purpose.DECODE_STEP]
    names = [n.parameters[0] for n in step.nodes if isinstance(n.operation, Linear) and n.layer == "decoder.0"]
    assert [name.removeprefix("decoder.0.") for name in names] == [
        "self_attention.query_key_value",
        "self_attention.output",
        "memory_attention.query",
        "memory_attention.output",
        "feed_forward.w1",
        "feed_forward.w2",
    ]


def test_the_step_no_longer_sees_the_memory(small: Callable[..., Spec]) -> None:
    spec = small()
    assert "memory" in lower(spec, Purpose.DECODE_STEP).inputs
    lowered = graphs(spec)
    assert "memory" not in lowered[Purpose.DECODE_STEP].inputs
    assert len(lowered[Purpose.ENCODE].outputs) == 2 * spec.architecture.N


def test_the_vocabulary_is_padded_and_the_log_probabilities_are_not(small: Callable[..., Spec]) -> None:
    lowered = graphs(small())
    for graph in lowered.values():
        assert graph.parameters["embedding"].origin.shape[0] == 104
    logits = [n for n in lowered[Purpose.SCORE].nodes if isinstance(n.operation, Logits)]
    assert [n.type.shape[-1].constant for n in logits] == [104]
    program = build(small())
    state = program.encode(torch.tensor([[5, 3]]))
    log_probabilities, _ = program.decode_step(state, torch.tensor([2]))
    assert log_probabilities.shape == (1, 101)
    torch.testing.assert_close(log_probabilities.exp().sum(), torch.tensor(1.0))


def test_an_unknown_pass_is_refused(small: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError) as caught:
        graphs(_without(small(), "hoist_memroy"))
    assert "`hoist_memroy`" in str(caught.value)
    assert caught.value.hint == "did you mean `hoist_memory`?"


def _without(spec: Spec, *names: str) -> Spec:
    return spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"without": names})})
