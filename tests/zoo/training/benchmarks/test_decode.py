"""The figures are those of a search that takes as many steps as they say."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from compiler import Purpose, build, graphs, interpret, lower
from compiler.host import cores
from compiler.initialization import initial_weights
from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.generation.config import GenerationConfig
from zoo.system.clock import Spread, spread
from zoo.training.benchmarks import (
    LENGTH,
    DecodingWork,
    benchmark_decoding,
    random_sources,
    translations,
    weights_avoiding,
)

ROOT = Path(__file__).parents[3]
ATTENTIONS = ("self_attention", "cross_attention")


def test_the_figures_belong_together(small: Callable[..., Spec]) -> None:
    begun = time.perf_counter()
    speed = benchmark_decoding(small(), DecodingWork(batch=2, sentences=5, rounds=3), device="cpu")
    whole = time.perf_counter() - begun
    assert (speed.sentences, speed.batch, speed.rounds, speed.length) == (5, 2, 3, LENGTH)
    assert (speed.precision, speed.device) == ("float32", "cpu")
    for each in (speed.latency_seconds, speed.sentences_per_second, speed.tokens_per_second, speed.step_milliseconds):
        assert 0 < each.least <= each.median <= each.most
    assert speed.tokens_per_second.median == pytest.approx(LENGTH * speed.sentences_per_second.median)
    assert speed.step_milliseconds.median == pytest.approx(5000 / speed.sentences_per_second.median / (3 * LENGTH))
    assert min(speed.build_seconds, speed.first_seconds) > 0
    rounds = 3 * 5 / speed.sentences_per_second.most
    assert speed.build_seconds + speed.first_seconds + rounds < whole  # parts of it, and in seconds
    assert (speed.host.cores, speed.host.threads) == (cores(), torch.get_num_threads())
    assert speed.disagreement < 1e-5


def test_8_bits_disagree_and_say_how_much(small: Callable[..., Spec]) -> None:
    assert 1e-5 < benchmark_decoding(small(), DecodingWork(sentences=2, rounds=1), precision="int8").disagreement < 1


@pytest.mark.parametrize(
    "shape",
    [
        *({"norm": norm, "tied_embeddings": tied} for norm in ("post", "pre") for tied in ("all", "target", "none")),
        *({"decoder": [{"kind": kind} for kind in kinds]} for kinds in (ATTENTIONS, ("feed_forward", *ATTENTIONS))),
    ],
    ids=str,
)
def test_no_translation_ends_before_its_limit(small: Callable[..., Spec], shape: dict[str, object]) -> None:
    """PAD, UNK, BOS and EOS are as good as impossible at every step, whatever was read."""
    spec = small(**shape)
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    program = build(spec, weights=weights, device="cpu")
    state = program.encode(torch.tensor([[5, 6, EOS], [7, EOS, PAD]]))
    for token in (BOS, 9, 50):
        log_probabilities, state = program.decode_step(state, torch.tensor([token, token]))
        assert log_probabilities[:, [PAD, UNK, BOS, EOS]].max() < -15
        assert log_probabilities[:, EOS + 1 :].max() > -6
    (found,) = translations(program, [[5, 6, EOS]], spec, batch=1, n_best=2, length=11)
    assert [len(each.tokens) for each in found] == [10, 10]
    assert not {PAD, UNK, BOS, EOS} & set(found[0].tokens)


def test_the_search_is_the_specs(small: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    def searching(**how: object) -> Spec:
        spec = small()
        return spec.model_copy(update={"decoding": spec.decoding.model_copy(update=how)})

    spec = searching(length_penalty="power", alpha=1.0, stopping_rule="full")
    asked: list[object] = []

    def searched(program: object, windows: object, chooser: object, **how: object) -> None:
        asked.append(chooser)
        raise ZooError("asked")

    monkeypatch.setattr("zoo.training.benchmarks.decode.searched", searched)
    with pytest.raises(ZooError, match="asked"):
        benchmark_decoding(spec, DecodingWork(sentences=2, rounds=1), device="cpu")
    assert asked == [GenerationConfig.from_spec(spec, {}).strategy()]
    with pytest.raises(ZooError, match="beam search is measured") as caught:
        benchmark_decoding(searching(search="sample"), DecodingWork(sentences=2, rounds=1), device="cpu")
    assert caught.value.hint == "set `decoding.search=beam`"


def test_what_batch_a_sentence_is_in_changes_nothing(small: Callable[..., Spec]) -> None:
    spec = small()
    program = build(spec, weights=weights_avoiding(spec, initial_weights(spec, graphs(spec))), device="cpu")
    sources = random_sources(spec, 5)
    assert [len(source) for source in sources] == [len(source) for source in random_sources(spec, 7)[:5]]
    one, many = (translations(program, sources, spec, batch=batch) for batch in (1, 4))
    assert [found[0].tokens for found in one] == [found[0].tokens for found in many]
    inputs = {"source": torch.tensor([sources[0]]), "target": torch.tensor([[BOS, *one[0][0].tokens, EOS]])}
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    scores = interpret(lower(spec, Purpose.SCORE), weights, inputs)["log_probabilities"]
    assert one[0][0].log_probability == pytest.approx(float(scores.sum()), rel=1e-5)


def test_counts_and_vocabularies_that_make_no_sense_are_refused(small: Callable[..., Spec]) -> None:
    for name in ("batch", "sentences", "rounds"):
        with pytest.raises(ZooError, match=f"`{name}` is 0"):
            DecodingWork(**{name: 0})
    spec = small()
    wide = spec.model_copy(update={"decoding": spec.decoding.model_copy(update={"beam": 60, "alpha": 0.0})})
    with pytest.raises(ZooError, match="a vocabulary of 101 tokens is too small for a beam of 60"):
        benchmark_decoding(wide, DecodingWork(sentences=2, rounds=1))


def test_learned_positions_are_as_many_as_a_source_takes(small: Callable[..., Spec]) -> None:
    def learned(positions: int) -> Spec:
        spec = small()
        given = {"positional_encoding": "learned", "max_positions": positions}
        return spec.model_copy(update={"architecture": spec.architecture.model_copy(update=given)})

    with pytest.raises(ZooError, match="has learned fewer positions") as caught:
        benchmark_decoding(learned(LENGTH), DecodingWork(sentences=2, rounds=1), device="cpu")
    least = int(str(caught.value.hint).partition("max_positions=")[2].rstrip("`"))
    assert benchmark_decoding(learned(least), DecodingWork(sentences=8, rounds=1), device="cpu").sentences == 8


def test_a_spread_has_the_median_the_least_and_the_most() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([4.0]) == Spread(4.0, 4.0, 4.0)


@pytest.mark.slow
def test_the_measurement_beside_the_peers_runs() -> None:
    """All have the same weights, and those in float32 find the same translations."""
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    script = ROOT / "tests" / "benchmarks" / "decode.py"
    sizes = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 4, "d_v": 4}
    small = [f"architecture.{field}={size}" for field, size in sizes.items()]
    for work in ("b32", "b1", "latency"):
        options = ["--work", work, "--systems", "eager-float32,marian-float32", "--rounds", "2", "--sentences", "4"]
        command = [sys.executable, str(script), "base", *small, "vocabulary.size=500", *options, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        systems = json.loads(done.stdout)["systems"]
        assert len(systems) == 4
        assert all(each["same_tokens"] == each["same_sentences"] == 1 for each in systems.values())
