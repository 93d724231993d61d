"""Benchmarks of translating and training: their numbers are consistent, and impossible settings are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from compiler import build, graphs
from compiler.assemble import initial_weights
from compiler.host import cores
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD, UNK, Learned, Spec, ZooError
from tests.examples import changed
from tests.refusals import refused
from zoo.generation.config import GenerationConfig
from zoo.system import memory
from zoo.training.benchmarks import (
    LENGTH,
    benchmark_decoding,
    benchmark_training,
    random_pairs,
    translations,
    weights_avoiding,
)

pytestmark = pytest.mark.integration
Small = Callable[..., Spec]
ONE_ROUND = {"sentences": 2, "rounds": 1, "device": "cpu"}
SEARCH = {"length_penalty": "power", "alpha": 1.0, "stopping_rule": "full"}


def test_numbers_of_decoding_are_consistent(small: Small) -> None:
    speed = benchmark_decoding(small(), batch=2, sentences=5, rounds=3, device="cpu")
    assert (speed.sentences, speed.batch, speed.rounds, speed.length) == (5, 2, 3, LENGTH)
    assert (speed.precision, speed.device) == ("float32", "cpu")
    for result in (speed.latency_seconds, speed.sentences_per_second, speed.tokens_per_second, speed.step_milliseconds):
        assert 0 < result.min <= result.median <= result.max
    assert speed.tokens_per_second.median == pytest.approx(LENGTH * speed.sentences_per_second.median)
    assert speed.step_milliseconds.median == pytest.approx(5000 / speed.sentences_per_second.median / (3 * LENGTH))
    assert min(speed.build_seconds, speed.first_seconds) > 0
    assert (speed.host.cores, speed.host.threads) == (cores(), torch.get_num_threads())
    assert speed.disagreement < 1e-4
    assert 1e-5 < benchmark_decoding(small(), **ONE_ROUND, precision="int8").disagreement < 1


ATTENTIONS = [{"kind": "self_attention"}, {"kind": "cross_attention"}]
SHAPES = [{}, {"norm": {"placement": "pre"}, "tied_embeddings": "target"}]
SHAPES += [{"tied_embeddings": "none", "decoder": ATTENTIONS}, {"decoder": [{"kind": "feed_forward"}, *ATTENTIONS]}]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_translation_ends_before_its_limit(small: Small, shape: dict[str, object]) -> None:
    """PAD, UNK, BOS and EOS are nearly impossible at every step, for any input."""
    spec = small(**shape)
    program = build(spec, weights=weights_avoiding(spec, initial_weights(spec, graphs(spec))), device="cpu")
    state = program.encode(PaddedBatch.pad([[5, 6, EOS], [7, EOS]]))
    for token in (BOS, 9, 50):
        log_probabilities, state = program.advance(state, torch.tensor([[token], [token]]))
        assert log_probabilities[..., [PAD, UNK, BOS, EOS]].max() < -15
        assert log_probabilities[..., EOS + 1 :].max() > -6
    ((first, second),) = translations(program, [[5, 6, EOS]], spec, batch=1, n_best=2, length=11)
    assert len(first.tokens) == len(second.tokens) == 10
    assert not {PAD, UNK, BOS, EOS} & set(first.tokens)


def test_search_is_that_of_the_spec(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, submit = changed(small(), "decoding", **SEARCH), Mock(side_effect=ZooError("stop here"))
    monkeypatch.setattr("zoo.training.benchmarks.Engine.submit", submit)
    refused("stop here", benchmark_decoding, spec, **ONE_ROUND)
    assert submit.call_args.args[-1] == GenerationConfig.from_spec(spec, {}).strategy()
    sampling = changed(small(), "decoding", search="sample")
    refused(r"measures beam search.*\s+hint: set `decoding\.search=beam`$", benchmark_decoding, sampling, **ONE_ROUND)


def test_impossible_decoding_is_refused(small: Small) -> None:
    wide = changed(small(), "decoding", beam=60, alpha=0.0)
    refused("a vocabulary of 101 tokens is too small for a beam of 60", benchmark_decoding, wide, **ONE_ROUND)

    def learned(rows: int) -> Spec:
        return changed(small(), "architecture", positions=Learned(kind="learned", rows=rows))

    error = refused(f"needs {LENGTH + 1} position embeddings", benchmark_decoding, learned(LENGTH), **ONE_ROUND)
    enough = int(str(error.hint).partition("positions.rows=")[2].rstrip("`"))
    assert benchmark_decoding(learned(enough), **ONE_ROUND).sentences == 2


def test_numbers_of_training_are_consistent(world: Callable[..., Spec]) -> None:
    speed = benchmark_training(world(), steps=2, rounds=3, device="cpu")
    assert (speed.name, speed.device, speed.steps, speed.rounds) == ("transformer-tiny-ende", "cpu", 2, 3)
    for result in (speed.source_tokens_per_second, speed.target_tokens_per_second, speed.step_seconds):
        assert 0 < result.min <= result.median <= result.max
    tokens = speed.target_tokens_per_second.median * speed.step_seconds.median
    assert 80 <= tokens <= 400  # at most the budget of a step
    assert 0 <= speed.padding < 0.5
    assert 0 < speed.utilisation.median < 10  # a share of the peak, which is measured too
    assert speed.memory_bytes == pytest.approx(memory.peak_memory("cpu"), rel=0.02)
    assert 3 < speed.loss < 8  # ln 200 is 5.3


def test_random_sentences_have_at_most_80_tokens_and_those_of_the_spec(world: Small, tmp_path: Path) -> None:
    """Weights of corpus parts have no effect."""
    store = random_pairs(world("corpus.max_length=100"), 1, tmp_path)
    assert {int(lengths.max()) + 1 for lengths in store.lengths.values()} == {80}
    keys = ["architecture.positions={kind: learned, rows: 12}", "corpus.max_length=11"]
    keys += ["training.source_tokens=12", "training.target_tokens=12"]
    keys += ["corpus.temperature=2", "corpus.train=[{grammar: 30, weight: 2}, {grammar: 20}]"]
    speed = benchmark_training(world(*keys), steps=1, rounds=1)
    assert speed.target_tokens_per_second.median * speed.step_seconds.median <= 12 + 1e-6
    refused(r"training\.source_tokens", world, "training.source_tokens=20")
