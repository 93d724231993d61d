"""What training and search rely on: exact caching, selection of rows, weights that are checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from compiler import TRANSLATE, Purpose, build
from compiler.agree import disagreement
from compiler.backends import BACKENDS
from specs import Spec, ZooError


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


def test_selected_rows_go_on_as_themselves(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    source, tokens = torch.randint(4, 101, (3, 5)), torch.tensor([5, 6, 7])
    rows = torch.tensor([2, 0, 0, 1])
    _, state = program.decode_step(program.encode(source), torch.full((3,), 2))
    before, _ = program.decode_step(state, tokens)
    after, _ = program.decode_step(program.select(state, rows), tokens[rows])
    torch.testing.assert_close(after, before[rows], atol=1e-6, rtol=0)


def test_within_sentences_only_the_caches_move(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    source = torch.randint(4, 101, (2, 5)).repeat_interleave(2, 0)
    _, state = program.decode_step(program.encode(source), torch.tensor([5, 6, 7, 8]))
    rows = torch.tensor([1, 1, 2, 2])
    within = program.select(state, rows, within_sentences=True)
    assert within.source is state.source
    a, _ = program.decode_step(within, torch.tensor([9, 10, 11, 12]))
    b, _ = program.decode_step(program.select(state, rows), torch.tensor([9, 10, 11, 12]))
    torch.testing.assert_close(a, b)


def test_a_step_leaves_the_state_it_came_from_alone(small: Callable[..., Spec]) -> None:
    program = build(small(), TRANSLATE)
    state = program.encode(torch.randint(4, 101, (2, 5)))
    first, _ = program.decode_step(state, torch.tensor([2, 2]))
    again, _ = program.decode_step(state, torch.tensor([2, 2]))
    assert torch.equal(first, again)


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


def test_the_same_seed_gives_the_same_weights_whichever_passes_run(small: Callable[..., Spec]) -> None:
    spec = small()
    bare = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"without": ("fuse_projections",)})}
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
    program = build(small())
    weights = program.weights()
    change(weights)
    with pytest.raises(ZooError, match=problem):
        program.load(weights)


@pytest.mark.parametrize("device", ["cdua", "meta", pytest.param("cuda", marks=pytest.mark.skipif(
    torch.cuda.is_available(), reason="this machine has a GPU, so asking for one is no mistake"))])  # fmt: skip
def test_a_device_that_is_not_there_is_refused(small: Callable[..., Spec], device: str) -> None:
    with pytest.raises(ZooError) as caught:
        build(small(), device=device)
    assert caught.value.hint


def test_an_unknown_backend_is_refused(small: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError, match="`egaer` is not a backend"):
        build(small(), backend="egaer")


class TestConformance:
    """Every backend computes what the interpreter does."""

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_every_backend_agrees_with_the_interpreter(self, small: Callable[..., Spec], backend: str) -> None:
        program = build(small(), [Purpose.TRAIN, *TRANSLATE], backend=backend)
        found = disagreement(program)
        assert set(found) == {Purpose.TRAIN, Purpose.SCORE, Purpose.DECODE_STEP}
        assert all(error < 1e-5 for error in found.values()), found

    def test_bfloat16_is_near(self, small: Callable[..., Spec]) -> None:
        found = disagreement(build(small(), TRANSLATE, precision="bfloat16"))
        assert all(1e-5 < error < 0.05 for error in found.values()), found
