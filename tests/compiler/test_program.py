"""What training and search rely on: exact caching, selection of rows, weights that are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from compiler import TRANSLATE, EmittedProgram, Purpose, build, graphs, lower, trainable
from compiler.backends import BACKENDS
from compiler.backends.conformance import disagreement
from compiler.decoder import CACHE_BLOCK
from specs import BOS, EOS, PAD, Spec, ZooError


def test_cached_decoding_equals_the_full_pass(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    source, target = torch.randint(4, 101, (5, 9)), torch.randint(4, 101, (5, 40))
    state = program.encode(source)
    steps = []
    for token in target[:, :-1].unbind(1):
        log_probabilities, state = program.decode_step(state, token)
        steps.append(log_probabilities)
    cached = torch.stack(steps, 1).gather(-1, target[:, 1:, None])[..., 0]
    torch.testing.assert_close(cached, program.score(source, target), atol=1e-5, rtol=0)


def test_padding_changes_nothing(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    alone = program.score(torch.tensor([[7, 8, 3]]), torch.tensor([[2, 9, 3]]))
    padded = program.score(torch.tensor([[7, 8, 3, 0, 0], [4, 5, 6, 7, 3]]), torch.tensor([[2, 9, 3, 0], [2, 5, 6, 3]]))
    torch.testing.assert_close(padded[:1, :2], alone, atol=1e-6, rtol=0)
    assert padded[0, 2] == 0


def _steps(program, state, *tokens):
    for token in tokens:
        log_probabilities, state = program.decode_step(state, torch.tensor(token))
    return log_probabilities, state


WITHOUT = [(), ("plan_cache",), ("beams_as_queries",), ("plan_cache", "beams_as_queries", "hoist_memory")]


@pytest.fixture(params=WITHOUT, ids="-".join)
def program(request, small: Callable[..., Spec]):
    spec = small()
    without = spec.compilation.model_copy(update={"disabled_passes": request.param})
    return build(spec.model_copy(update={"compilation": without}), TRANSLATE)


def test_selected_rows_go_on_as_themselves(program) -> None:
    """What each row has read decides what comes next, however sentences and beams were moved about."""
    source = torch.tensor([[7, 8, 9, 3], [5, 3, 0, 0], [9, 6, 3, 0]])
    _, state = _steps(program, program.encode(source), [2, 2, 2])
    state = program.select(state, torch.tensor([0, 2]), torch.tensor([[0, 0], [0, 0]]))
    _, state = _steps(program, state, [11, 12, 13, 14])
    state = program.select(state, torch.tensor([0, 1]), torch.tensor([[1, 0], [1, 1]]))
    found, _ = _steps(program, state, [21, 22, 23, 24])
    read = torch.tensor([[2, 12, 21], [2, 11, 22], [2, 14, 23], [2, 14, 24]])
    rows = program.encode(source[[0, 0, 2, 2]])
    expected, _ = _steps(program, rows, *read.T.tolist())
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_joined_sentences_go_on_as_themselves(program) -> None:
    """At positions of their own, and beside sources of other lengths; past the room that a cache has at first."""
    first, second = torch.tensor([[7, 8, 9, 10, 3]]), torch.tensor([[5, 3], [6, 3]])
    long = [[token] for token in range(4, 4 + CACHE_BLOCK + 3)]
    _, a = _steps(program, program.encode(first), [2], *long[:-5])
    _, b = _steps(program, program.encode(second), [2, 2], [31, 32])
    joined = program.join(a, b)
    found, joined = _steps(program, joined, *([*token, 41, 42] for token in long[-5:-1]))
    joined = program.select(joined, torch.tensor([0, 2]), torch.tensor([[0], [0]]))
    found, joined = _steps(program, joined, [*long[-1], 51])
    alone, _ = _steps(program, program.encode(first), [2], *long)
    torch.testing.assert_close(found[:1], alone, atol=1e-5, rtol=0)
    other, _ = _steps(program, program.encode(second[1:]), [2], [32], *([42],) * 4, [51])
    torch.testing.assert_close(found[1:], other, atol=1e-5, rtol=0)
    only = program.select(joined, torch.tensor([1]), torch.tensor([[0]]))
    assert max(value.shape[2] for value in only.carried.values()) <= CACHE_BLOCK


def test_the_likeliest_are_those_of_all(program) -> None:
    source = torch.tensor([[7, 8, 3], [5, 6, 3]])
    every, _ = program.decode_step(program.encode(source), torch.tensor([2, 2]))
    some, _ = program.top_k(program.encode(source), torch.tensor([2, 2]), 5)
    without = every.clone()
    without[:, [PAD, BOS]] = -torch.inf
    torch.testing.assert_close(some.values, without.topk(5).values)
    assert torch.equal(some.tokens, without.topk(5).indices)
    assert torch.equal(some.ends, every[:, EOS])


def test_initial_weights_are_those_of_the_spec(small: Callable[..., Spec]) -> None:
    spec = small(d_model=64, d_ff=128, h=4, d_k=16, d_v=16)
    weights = build(spec, [Purpose.TRAIN]).weights()
    assert weights["embedding"].std() == pytest.approx(64**-0.5, rel=0.1)
    matrix = weights["encoder.0.feed_forward.w1"]
    bound = (6 / (64 + 128)) ** 0.5
    assert matrix.abs().max() <= bound
    assert matrix.std() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert torch.equal(weights["encoder.0.feed_forward.norm_gain"], torch.ones(64))
    assert not torch.equal(weights["encoder.0.self_attention.query"], weights["encoder.0.self_attention.key"])
    normal = build(small(initial_weights="glorot_normal", d_ff=256), [Purpose.TRAIN]).weights()
    assert normal["encoder.0.feed_forward.w1"].std() == pytest.approx((2 / (16 + 256)) ** 0.5, rel=0.1)


def test_half_the_variance_is_that_of_queries_keys_and_values(small: Callable[..., Spec]) -> None:
    """Xavier's gain of 1 / sqrt(2), as fairseq has it, and the same random numbers."""
    sizes = {"d_model": 64, "d_k": 16, "d_v": 16, "h": 4}
    plain, narrow = (
        build(small(initial_weights=way, **sizes), [Purpose.TRAIN]).weights()
        for way in ("glorot_uniform", "glorot_uniform_half_qkv")
    )
    for name, tensor in plain.items():
        gain = 0.5**0.5 if name.rpartition(".")[2] in ("query", "key", "value") else 1.0
        assert torch.allclose(narrow[name], gain * tensor, rtol=1e-6), name


def test_the_same_seed_gives_the_same_weights_whichever_passes_run(small: Callable[..., Spec]) -> None:
    spec = small()
    bare = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"disabled_passes": ("fuse_projections",)})}
    )
    a, b = build(spec, [Purpose.TRAIN]).weights(), build(bare, [Purpose.TRAIN]).weights()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w.pop("embedding"), "no tensor `embedding`"),
        (lambda w: w.update(embedding=torch.zeros(5, 16)), r"`embedding` is \[5, 16\], not \[101, 16\]"),
        (lambda w: w.update(embeding=torch.zeros(1)), "`embeding` is not one of this spec .*`embedding`"),
    ],
)
def test_weights_of_another_spec_are_refused(
    small: Callable[..., Spec], change: Callable[[dict[str, torch.Tensor]], object], problem: str
) -> None:
    weights = build(small()).weights()
    change(weights)
    with pytest.raises(ZooError, match=problem):
        build(small(), weights=weights)


@pytest.mark.parametrize("device", ["cdua", "meta", pytest.param("cuda", marks=pytest.mark.skipif(
    torch.cuda.is_available(), reason="this machine has a GPU, so asking for one is no mistake"))])  # fmt: skip
def test_a_device_that_is_not_there_is_refused(small: Callable[..., Spec], device: str) -> None:
    with pytest.raises(
        ZooError, match="this machine has no GPU" if device == "cuda" else f"`{device}` is not a device"
    ) as caught:
        build(small(), device=device)
    assert "`cpu`" in str(caught.value.hint)


def test_an_unknown_backend_is_refused(small: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError, match="`egaer` is not a backend"):
        build(small(), backend="egaer")


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_weights_of_another_type_are_taken_as_the_spec_computes(small: Callable[..., Spec], backend: str) -> None:
    spec = small()
    weights = {name: tensor.bfloat16() for name, tensor in build(spec).weights().items()}
    source, target = torch.tensor([[7, 8, EOS]]), torch.tensor([[BOS, 9, EOS]])
    wide = build(spec, weights={name: tensor.float() for name, tensor in weights.items()})
    narrow = build(spec, weights=weights, backend=backend)
    assert torch.equal(narrow.score(source, target), wide.score(source, target))
    assert max(disagreement(narrow, weights=weights).values()) < 1e-5


def test_a_program_for_one_purpose_alone(small: Callable[..., Spec]) -> None:
    """Whatever `auto` takes; what it was not built for it says."""
    spec, source, target = small(), torch.tensor([[7, 8, EOS]]), torch.tensor([[BOS, 9, EOS]])
    spec = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"backend": "auto"})})
    assert build(spec, [Purpose.SCORE]).score(source, target).shape == (1, 2)
    with pytest.raises(ValueError, match="not built to"):
        build(spec, [Purpose.ENCODE, Purpose.DECODE_STEP]).score(source, target)


@pytest.mark.parametrize("name", ["train", "feed_forward.half", "eval.w1"])
def test_a_parameter_called_as_what_every_module_has_is_refused(small: Callable[..., Spec], name: str) -> None:
    graph = lower(small(), Purpose.SCORE)
    old, new = "encoder.0.feed_forward.w1", f"encoder.0.{name}"
    nodes = tuple(
        replace(node, parameters=tuple(new if each == old else each for each in node.parameters))
        for node in graph.nodes
    )
    parameters = {**graph.parameters, new: replace(graph.parameters[old], name=new)}
    of = {Purpose.SCORE: replace(graph, nodes=nodes, parameters=parameters)}
    with pytest.raises(ValueError, match=f"`{new}` cannot be named so|`{new.rpartition('.')[0]}` cannot be named so"):
        EmittedProgram(small(), of, {}, "")


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_few_learned_positions_are_enough_to_compare(small: Callable[..., Spec], backend: str) -> None:
    spec = small(positional_encoding="learned")
    spec = spec.model_copy(update={"architecture": spec.architecture.model_copy(update={"max_positions": 5})})
    assert max(disagreement(build(spec, backend=backend)).values()) < 1e-5


def test_the_native_step_refuses_what_is_no_piece(small: Callable[..., Spec]) -> None:
    program = build(small(), backend="native")
    with pytest.raises(IndexError):
        program.encode(torch.tensor([[10**9, EOS]]))
    state = program.encode(torch.tensor([[7, EOS]], dtype=torch.int32))
    with pytest.raises(IndexError):
        program.decode_step(state, torch.tensor([-1]))


class TestConformance:
    """Every backend computes what the interpreter does."""

    @pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.trainable])
    def test_every_backend_that_trains_agrees_with_the_interpreter(
        self, small: Callable[..., Spec], backend: str
    ) -> None:
        program = build(small(), [Purpose.TRAIN, *TRANSLATE], backend=backend)
        found = disagreement(program)
        assert set(found) == {Purpose.TRAIN, Purpose.SCORE, Purpose.DECODE_STEP}
        assert all(error < 1e-5 for error in found.values()), found

    @pytest.mark.parametrize("precision", ["bfloat16", "int8"])
    def test_approximate_precisions_are_near(self, small: Callable[..., Spec], precision: str) -> None:
        weights = build(small()).weights()
        found = disagreement(build(small(), TRANSLATE, weights=weights, precision=precision), weights=weights)
        assert all(1e-5 < error < 0.05 for error in found.values()), found

    @pytest.mark.parametrize("precision", ["bfloat16", "int8"])
    def test_what_is_trained_is_so_in_float32_whatever_translates(
        self, small: Callable[..., Spec], precision: str
    ) -> None:
        """`compilation.precision` is for translating: plan, forecast and training know nothing of it."""
        asked = small().compilation.model_copy(update={"precision": precision})
        spec = small().model_copy(update={"compilation": asked})
        program = trainable(spec)
        assert (program.precision, program.backend) == ("float32", "eager")
        assert {parameter.dtype for parameter in program.parameters()} == {torch.float32}
        assert graphs(spec, [Purpose.TRAIN]) == graphs(small(), [Purpose.TRAIN])
        assert build(spec).precision == precision
        assert program.spec == spec

    def test_nothing_is_trained_in_rounded_weights(self, small: Callable[..., Spec]) -> None:
        with pytest.raises(ZooError, match="trained in float32, not in int8"):
            build(small(), [Purpose.TRAIN], precision="int8")
