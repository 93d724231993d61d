"""Properties of programs that training and search rely on: caching, selection of rows, top-k, and checked weights."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from compiler import TRANSLATE, Purpose, build, build_module, decoder, graphs
from compiler.assemble import find_device
from compiler.backends.conformance import disagreement
from compiler.decoder import top_k
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD
from tests.examples import changed, small
from tests.refusals import refused

DISABLED = [(), ("plan_cache",), ("beams_as_queries",), ("plan_cache", "beams_as_queries", "hoist_memory")]


def _steps(program: Any, state: Any, *tokens: list[int]) -> tuple[torch.Tensor, Any]:
    for token in tokens:
        log_probabilities, state = program.advance(state, torch.tensor(token)[:, None])
    return log_probabilities[:, 0], state


@pytest.mark.parametrize("disabled", DISABLED, ids="-".join)
def test_selected_rows_continue_their_own_past(disabled: tuple[str, ...]) -> None:
    program = build(changed(small(), disabled_passes=disabled), TRANSLATE)
    sources = [[7, 8, 9, 3], [5, 3], [9, 6, 3]]
    _, state = _steps(program, program.encode(PaddedBatch.pad(sources)), [2, 2, 2])
    state = program.select(state, torch.tensor([0, 2]), torch.tensor([[0, 0], [0, 0]]))
    _, state = _steps(program, state, [11, 12, 13, 14])
    state = program.select(state, torch.tensor([0, 1]), torch.tensor([[1, 0], [1, 1]]))
    actual, _ = _steps(program, state, [21, 22, 23, 24])
    stream = PaddedBatch.pad([sources[row] for row in (0, 0, 2, 2)])
    expected, _ = _steps(program, program.encode(stream), [2, 2, 2, 2], [12, 11, 14, 14], [21, 22, 23, 24])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("levels", [1, 5, 10**6])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_top_k_sorts_by_value_and_id(monkeypatch: pytest.MonkeyPatch, levels: int, asynchronous: bool) -> None:
    """Allowed tokens keep their values. If there are too few, -inf fills up the row."""
    monkeypatch.setattr("compiler.decoder._is_asynchronous", lambda tensor: asynchronous)
    generator = torch.Generator().manual_seed(levels)
    assert top_k(torch.full((1, 12), torch.nan), 8).values.isnan().all()
    for vocabulary, count in product((12, 300), (1, 8)):
        rows = -torch.randint(levels, (40, vocabulary), generator=generator).float()
        before = rows.clone()
        masks = [torch.rand(rows.shape, generator=generator) < share for share in (0.0, 0.05, 0.5)]
        for allowed in (None, *masks):
            best, everything = top_k(rows, count, allowed), torch.ones_like(rows) if allowed is None else allowed
            for row, mask, values, tokens, end in zip(rows.tolist(), everything.tolist(), *best, strict=True):
                possible = [token for token in range(vocabulary) if mask[token] and token not in (PAD, BOS)]
                expected = sorted(possible, key=lambda token: (-row[token], token))[:count]
                assert values.tolist() == [row[token] for token in expected] + [-torch.inf] * (count - len(expected))
                assert tokens[: len(expected)].tolist() == expected
                assert end == (row[EOS] if mask[EOS] else -torch.inf)
        shared = masks[-1][:1]
        assert all(map(torch.equal, top_k(rows, count, shared), top_k(rows, count, shared.expand(40, -1))))
        assert torch.equal(rows, before)


def test_only_rows_with_ties_are_searched_again_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16, most steps have a tie, but few rows do."""
    searched = Mock(side_effect=decoder._lowest_ids)
    monkeypatch.setattr(decoder, "_lowest_ids", searched)
    rows = -torch.arange(24.0).repeat(9, 1)
    rows[4] = -1.0
    assert top_k(rows, 8).tokens[4].tolist() == [token for token in range(10) if token not in (PAD, BOS)]
    assert len(searched.call_args.args[0]) == 1


def test_initial_weights_have_the_variance_of_the_spec() -> None:
    weights = build(small(d_model=64, d_ff=128, h=4, d_k=16, d_v=16), [Purpose.TRAIN]).weights()
    assert weights["embedding"].std() == pytest.approx(64**-0.5, rel=0.1)
    matrix, bound = weights["encoder.0.feed_forward.w1"], (6 / (64 + 128)) ** 0.5
    assert matrix.abs().max() <= bound
    assert matrix.std() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert torch.equal(weights["encoder.0.feed_forward.norm_gain"], torch.ones(64))
    assert not torch.equal(weights["encoder.0.self_attention.query"], weights["encoder.0.self_attention.key"])
    normal = build(small(initial_weights="glorot_normal", d_ff=256), [Purpose.TRAIN]).weights()
    assert normal["encoder.0.feed_forward.w1"].std() == pytest.approx((2 / (16 + 256)) ** 0.5, rel=0.1)


def test_the_initial_variance_of_a_convolution_counts_all_positions_of_its_kernel() -> None:
    encoder = [{"kind": "convolution", "kernel": 5, "gated": False, "dilated": False}, {"kind": "feed_forward"}]
    weights = build(small(d_model=64, encoder=encoder, N={"encoder": 1, "decoder": 1}), [Purpose.TRAIN]).weights()
    (kernel,) = (each for each in weights.values() if each.shape == (5, 64, 64))
    assert kernel.std() == pytest.approx((2 / (5 * (64 + 64))) ** 0.5, rel=0.05)


def test_half_qkv_initialisation_halves_the_variance_of_queries_keys_and_values() -> None:
    """This is Xavier's gain of 1 / sqrt(2), as in fairseq, with the same random numbers."""
    kinds = ("glorot_uniform", "glorot_uniform_half_qkv")
    plain, narrow = (build(small(initial_weights=kind), [Purpose.TRAIN]).weights() for kind in kinds)
    for name, tensor in plain.items():
        gain = 0.5**0.5 if name.rpartition(".")[2] in ("query", "key", "value") else 1.0
        torch.testing.assert_close(narrow[name], gain * tensor, rtol=1e-6, atol=1e-7, msg=name)


def test_the_same_seed_gives_the_same_weights_whichever_passes_run() -> None:
    other = changed(small(), disabled_passes=("fuse_projections",))
    a, b = (build(spec, [Purpose.TRAIN]).weights() for spec in (small(), other))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_weights_of_another_spec_are_refused() -> None:
    weights = build(small()).weights()
    for given, problem in (
        ({name: tensor for name, tensor in weights.items() if name != "embedding"}, "`embedding`"),
        (weights | {"embedding": torch.zeros(5, 16)}, r"\[5, 16\].*\[101, 16\]"),
        (weights | {"embeding": torch.zeros(1)}, "`embeding`.*`embedding`"),
    ):
        refused(problem, build, small(), weights=given)


UNKNOWN = [
    ("cdua", "`cdua` is not a device", "`cpu`"),
    (None, "`None` is not a device", "`cpu`"),
    ("meta", "the device `meta` is not supported", "`cpu`"),
    ("cuda", "this machine has no GPU", "`--device cpu`"),
]


@pytest.mark.parametrize(("device", "problem", "hint"), UNKNOWN)
def test_unknown_devices_are_refused(device: str | None, problem: str, hint: str) -> None:
    assert hint in str(refused(problem, build, small(), device=device).hint)
    assert find_device("cpu:0") == "cpu"


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_bfloat16_weights_are_computed_in_float32(backend: str) -> None:
    weights = {name: tensor.bfloat16() for name, tensor in build(small()).weights().items()}
    assert max(disagreement(build(small(), weights=weights, backend=backend), weights=weights).values()) < 1e-5


def test_a_program_refuses_a_purpose_that_it_was_not_built_for() -> None:
    spec = changed(small(), backend="auto")
    source, target = PaddedBatch.pad([[7, 8, EOS]]), torch.tensor([[BOS, 9, EOS]])
    assert build(spec, [Purpose.SCORE]).score(source, target).shape == (1, 2)
    with pytest.raises(ValueError, match="not built for the purpose `score`"):
        build(spec, [Purpose.ENCODE, Purpose.DECODE_STEP]).score(source, target)
    with pytest.raises(ValueError, match="do not include `train`"):
        build_module(spec, [Purpose.SCORE])
    with pytest.raises(TypeError, match="`bakend` is not an option"):
        build(spec, bakend="eager")  # type: ignore[call-arg]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_conformance_can_be_checked_with_few_learned_positions(backend: str) -> None:
    spec = small(positions={"kind": "learned", "rows": 128})
    spec = changed(spec, "architecture", positions=spec.architecture.positions.model_copy(update={"rows": 5}))
    assert max(disagreement(build(spec, backend=backend)).values()) < 1e-5


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_weights_are_trained_in_float32_whatever_precision_the_spec_translates_in(precision: str) -> None:
    spec = changed(small(), precision=precision)
    program = build_module(spec)
    assert (program.precision, program.backend, program.spec) == ("float32", "eager", spec)
    assert {parameter.dtype for parameter in program.parameters()} == {torch.float32}
    assert graphs(spec, [Purpose.TRAIN]) == graphs(small(), [Purpose.TRAIN])
    assert build(spec).precision == precision
    refused(f"trained in float32, not in {precision}", build, small(), [Purpose.TRAIN], precision=precision)
