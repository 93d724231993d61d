"""CTranslate2 as an oracle: what it scores and what it finds, against the interpreter and our own search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import specs
from compiler import TRANSLATE, Purpose, build, graphs, interpret, lower
from compiler.agree import disagreement
from compiler.backends.backend import Order
from compiler.backends.ctranslate2 import ctranslate2
from compiler.backends.ctranslate2_format import POSITIONS
from compiler.initial import initial_weights
from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.generation.dispatch import dispatched
from zoo.generation.hypothesis import Hypothesis
from zoo.generation.request import Choice, Request
from zoo.generation.source import Source
from zoo.training.benchmarks import weights_avoiding

pytest.importorskip("ctranslate2")

architectures = st.fixed_dictionaries(
    {
        "N": st.integers(1, 2),
        "d_model": st.sampled_from([8, 12]),
        "h": st.sampled_from([1, 3]),
        "d_k": st.integers(1, 5),
        "d_v": st.integers(1, 5),
        "norm": st.sampled_from(["post", "pre"]),
        "norm_epsilon": st.sampled_from([1e-6, 1e-3]),
        "positional_encoding": st.sampled_from(["sinusoidal", "learned"]),
        "tied_embeddings": st.sampled_from(["all", "target", "none"]),
        "projection_bias": st.booleans(),
        "output_bias": st.booleans(),
        "activation": st.sampled_from(["relu", "silu", "gelu"]),
    }
)
CPU = torch.device("cpu")
SOURCE = torch.tensor([[7, 8, 9, 10, 11, EOS], [5, EOS, PAD, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD, PAD]])
TARGET = torch.tensor([[BOS, 9, EOS, PAD, PAD], [BOS, 4, 5, 6, EOS], [BOS, EOS, PAD, PAD, PAD]])


def _order(spec: Spec, weights: dict[str, Tensor] | None = None, folder: Path | None = None) -> Order:
    lowered = graphs(spec)
    weights = initial_weights(spec, lowered) if weights is None else weights
    return Order(spec, lowered, weights, precision=spec.compilation.precision, folder=folder)


def _shaken(spec: Spec) -> dict[str, Tensor]:
    """Weights of before training with gains that are not 1 and biases that are not 0."""
    weights = initial_weights(spec, graphs(spec))
    return {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in weights.items()}


def _expected(spec: Spec, weights: dict[str, Tensor]) -> Tensor:
    inputs = {"source": SOURCE, "target": TARGET}
    return interpret(lower(spec, Purpose.SCORE), weights, inputs)["log_probabilities"]


def _in(precision: str, spec: Spec) -> Spec:
    return spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"precision": precision})})


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(architectures)
def test_it_scores_as_the_interpreter_does(small: Callable[..., Spec], architecture: dict[str, object]) -> None:
    spec = small(**architecture)
    order = _order(spec, _shaken(spec))
    assert ctranslate2.refuses(order) is None
    found = ctranslate2.build(order).score(SOURCE, TARGET)
    torch.testing.assert_close(found, _expected(spec, dict(order.weights)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", specs.names())
def test_its_format_has_a_place_for_every_shipped_spec(name: str) -> None:
    """With all that makes it what it is, but smaller."""
    a = specs.load(name).architecture
    sizes = {"N": 1, "d_model": 16, "d_ff": 24, "d_k": max(1, a.d_k // 32), "d_v": max(1, a.d_v // 32)}
    changed = {field: size for field, size in sizes.items() if size != getattr(a, field)}
    spec = specs.load(name, {"architecture": changed, "vocabulary": {"size": 101}})
    order = _order(spec, _shaken(spec))
    kinds = {each.kind for each in (*spec.architecture.encoder, *spec.architecture.decoder)}
    if strange := kinds - {"self_attention", "cross_attention", "feed_forward"}:
        assert f"has layers of {strange.pop()}" in str(ctranslate2.refuses(order))
        return
    assert ctranslate2.refuses(order) is None
    found = ctranslate2.build(order).score(SOURCE, TARGET)
    torch.testing.assert_close(found, _expected(spec, dict(order.weights)), atol=1e-5, rtol=1e-5)


def test_it_is_held_to_the_interpreter_as_every_backend(small: Callable[..., Spec]) -> None:
    found = disagreement(ctranslate2.build(_order(small())))
    assert set(found) == {Purpose.SCORE}
    assert found[Purpose.SCORE] < 1e-5


@pytest.mark.parametrize("encoding", ["sinusoidal", "sinusoidal_halves"])
def test_positions_begin_where_the_spec_says(small: Callable[..., Spec], encoding: str) -> None:
    spec = small(positional_encoding=encoding, first_position=2)
    found = ctranslate2.build(_order(spec)).score(SOURCE, TARGET)
    torch.testing.assert_close(found, _expected(spec, initial_weights(spec, graphs(spec))), atol=1e-5, rtol=1e-5)


def test_it_gives_out_no_attention_weights_and_says_so(small: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError, match="the backend `ctranslate2` cannot run this") as refused:
        build(small(), [Purpose.ATTEND], backend="ctranslate2")
    assert refused.value.hint == "it gives out no attention weights: take the backend `eager`"


def test_the_threads_of_torch_are_left_alone(small: Callable[..., Spec]) -> None:
    """It sets OpenMP's; the order of torch's sums, and so every later bit of a training, depends on them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        engine = ctranslate2.build(_order(small()))
        engine.score(SOURCE, TARGET)
        engine.hypotheses(SOURCE, [3, 3, 3], beam=2, alpha=0.6)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_a_target_without_an_end_is_scored_to_where_it_is(small: Callable[..., Spec]) -> None:
    program = ctranslate2.build(_order(small()))
    target = torch.tensor([[BOS, 4, 5, 6]])
    torch.testing.assert_close(program.score(SOURCE[:1], target), program.score(SOURCE[:1], TARGET[1:2])[:, :3])


def test_8_bits_are_near_and_leave_the_weights_alone(small: Callable[..., Spec]) -> None:
    spec = small()
    weights = _shaken(spec)
    before = {name: tensor.clone() for name, tensor in weights.items()}
    found = ctranslate2.build(_order(_in("int8", spec), weights)).score(SOURCE, TARGET)
    error = (found - _expected(spec, weights)).abs().max()
    assert 1e-5 < error < 0.5  # 0.32 on a Zen 3, which has no dot products of 8 bits, and 0.03 by our own int8
    assert all(torch.equal(weights[name], before[name]) for name in weights)


class TestSearch:
    """What it finds, and what ours finds in the same model."""

    def both(self, spec: Spec, seed: int, choice: Choice) -> list[tuple[Hypothesis, Hypothesis]]:
        """Ours and its best for some sources. PAD and BOS are impossible: its search leaves them out."""
        weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)), (PAD, BOS))
        program = build(spec, TRANSLATE, weights=weights, backend="eager")
        draw = torch.Generator().manual_seed(seed)
        rows = [(*torch.randint(4, 101, (length,), generator=draw).tolist(), EOS) for length in range(1, 9)]
        limits = [(3 * number) % 11 for number in range(len(rows))]
        sources = [Source(number, row, limit) for number, (row, limit) in enumerate(zip(rows, limits, strict=True))]
        request, engine = Request.of(spec, choice), ctranslate2.build(_order(spec, weights))
        found = [dict(dispatched(each, [sources], request, device=CPU)) for each in (program, engine)]
        return [(found[0][number][0], found[1][number][0]) for number in range(len(rows))]

    @pytest.mark.parametrize("norm", ["post", "pre"])
    @pytest.mark.parametrize(("alpha", "kind"), [(0.0, "gnmt"), (0.6, "gnmt"), (0.6, "power")])
    def test_ours_finds_what_it_finds_or_what_is_better(
        self, small: Callable[..., Spec], norm: str, alpha: float, kind: str
    ) -> None:
        """It ends only what is among the first `beam` continuations, ours what is among twice as many."""
        same = 0
        spec = small(norm=norm)
        decoding = spec.decoding.model_copy(update={"length_penalty": kind})
        for seed in range(5):
            training = spec.training.model_copy(update={"seed": seed})
            seeded = spec.model_copy(update={"training": training, "decoding": decoding})
            for ours, theirs in self.both(seeded, seed, {"beam": 4, "alpha": alpha}):
                if ours.tokens == theirs.tokens:
                    same += 1
                    assert ours.log_probability == pytest.approx(theirs.log_probability, abs=2e-5, rel=1e-5)
                    assert ours.score == pytest.approx(theirs.score, abs=2e-5, rel=1e-5)
                else:
                    assert ours.score > theirs.score - 1e-5
        assert same >= 36, "of 40"

    def test_what_is_found_is_worth_what_it_says(self, small: Callable[..., Spec]) -> None:
        """Those that reached the limit and had to end there, too."""
        spec = small()
        weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)), (PAD, BOS))
        program = ctranslate2.build(_order(spec, weights))
        for found, row in zip(program.hypotheses(SOURCE, [0, 3, 7], beam=4, alpha=0.6), SOURCE, strict=True):
            for each in found:
                target = torch.tensor([[BOS, *each.tokens, EOS]])
                assert float(program.score(row[None], target).sum()) == pytest.approx(each.log_probability, abs=1e-4)

    def test_pad_and_bos_have_their_share_of_what_it_says(self, small: Callable[..., Spec]) -> None:
        """Though neither is ever chosen. What its decoder gives is always the same here, and mostly EOS follows."""
        spec = small(N=1)
        weights = initial_weights(spec, graphs(spec))
        toward = weights["embedding"][EOS]
        weights["decoder.0.feed_forward.norm_gain"] = torch.zeros_like(toward)
        weights["decoder.0.feed_forward.norm_bias"] = 3 * toward / toward.square().sum()
        program = ctranslate2.build(_order(spec, weights))
        ours = build(spec, TRANSLATE, weights=weights, backend="eager")
        for found, row in zip(program.hypotheses(SOURCE, [20] * 3, beam=2, alpha=0.6), SOURCE, strict=True):
            target = torch.tensor([[BOS, *found[0].tokens, EOS]])
            assert float(ours.score(row[None], target).sum()) == pytest.approx(found[0].log_probability, abs=1e-4)

    def test_limits_are_kept_and_pad_and_bos_never_come(self, small: Callable[..., Spec]) -> None:
        """Nor what is suppressed, be it the unknown token."""
        program = ctranslate2.build(_order(small()))
        rows, limits = SOURCE[[0, 1] * 5], list(range(10))
        free = program.hypotheses(rows, limits, beam=3, alpha=0.6)
        suppressed_tokens = {UNK, *(token for several in free for each in several for token in each.tokens[:1])}
        for bars, never in (((), {PAD, BOS, EOS}), (tuple(suppressed), {PAD, BOS, EOS, *suppressed})):
            for found, limit in zip(
                program.hypotheses(rows, limits, beam=3, alpha=0.6, suppressed_tokens=bars), limits, strict=True
            ):
                assert found
                assert all(len(each.tokens) <= limit and not never & set(each.tokens) for each in found)


def test_a_sentence_longer_than_its_positions_is_refused(small: Callable[..., Spec]) -> None:
    program = ctranslate2.build(_order(small(positional_encoding="learned", max_positions=300)))
    with pytest.raises(ZooError, match="takes 301 positions, and this model has 300"):
        program.hypotheses(torch.full((1, 301), 5), [4], beam=2, alpha=0.0)
    with pytest.raises(ZooError, match="takes 4,097 positions"):
        ctranslate2.build(_order(small())).hypotheses(SOURCE[:1], [POSITIONS], beam=2, alpha=0.0)


def test_what_it_cannot_do_it_refuses_aloud(small: Callable[..., Spec]) -> None:
    import ctranslate2 as engine

    spec, lowered = small(), graphs(small())
    if "bfloat16" not in engine.get_supported_compute_types("cpu"):
        assert "does not compute in bfloat16" in str(ctranslate2.refuses(_order(_in("bfloat16", spec))))
    train = Order(spec, {Purpose.TRAIN: lower(spec, Purpose.TRAIN)}, {})
    assert "only translates" in str(ctranslate2.refuses(train))
    step = lowered[Purpose.DECODE_STEP]
    some = next(p for p in step.parameters.values() if p.name.endswith("w1"))
    other = replace(some, origin=replace(some.origin, name="decoder.0.gate.w1"))
    stranger = {**lowered, Purpose.DECODE_STEP: replace(step, parameters={**step.parameters, some.name: other})}
    assert "no place for `decoder.0.gate.w1`" in str(ctranslate2.refuses(Order(spec, stranger, {})))
    if not engine.get_cuda_device_count():
        assert "--device cpu" in str(ctranslate2.refuses(replace(_order(spec), device="cuda")))


def test_a_model_is_written_once_and_again_where_weights_or_precision_differ(
    small: Callable[..., Spec], tmp_path: Path
) -> None:
    def folders() -> dict[str, float]:
        return {file.parent.name: file.stat().st_mtime_ns for file in tmp_path.rglob("model.bin")}

    order = _order(small(), folder=tmp_path)
    first = ctranslate2.build(order).score(SOURCE, TARGET)
    written = folders()
    assert torch.equal(ctranslate2.build(order).score(SOURCE, TARGET), first)
    assert folders() == written
    ctranslate2.build(replace(order, precision="int8"))
    ctranslate2.build(replace(order, weights={n: t * 1.5 for n, t in order.weights.items()}))
    assert len(folders()) == 3


def test_a_damaged_model_is_written_again(small: Callable[..., Spec], tmp_path: Path) -> None:
    order = _order(small(), folder=tmp_path)
    first = ctranslate2.build(order).score(SOURCE, TARGET)
    (file,) = tmp_path.rglob("model.bin")
    content = file.read_bytes()
    file.write_bytes(content[:-100] + bytes(100))
    assert torch.equal(ctranslate2.build(order).score(SOURCE, TARGET), first)
    assert file.read_bytes() == content


def test_where_it_is_not_installed_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ctranslate2.absent() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install -e '.[ctranslate2]'" in str(ctranslate2.absent())
