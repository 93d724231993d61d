"""Acceptance test: a tiny model reads features instead of tokens, and learns to write the tokens that they stand for.

Each token has a random vector, which a source repeats for several frames, with noise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import specs
from compiler import TRANSLATE, PaddedBatch, Purpose, build, build_module
from specs import BOS, EOS, Spec
from tests.refusals import refused
from zoo.data.batches import Batch, BatchSize
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
from zoo.generation.translation import SearchInput
from zoo.report import Report
from zoo.training.benchmarks import benchmark_decoding, benchmark_training
from zoo.training.distributed import Processes
from zoo.training.step import TrainStep

LETTERS, WIDTH, MAX_TOKENS = range(4, 14), 8, 4
VECTORS = torch.randn(max(LETTERS) + 1, WIDTH, generator=torch.Generator().manual_seed(0))
Example = tuple[Tensor, list[int]]
"""Frames [frames, WIDTH], and the tokens that they stand for."""


UNTIED = {"tied_embeddings": "target"}
PATCHES = {**UNTIED, "positions": {"kind": "sinusoidal_2d", "rows": 4}}
EMPTY: dict[str, object] = {"train": [], "dev": [], "test": []}
RECOGNITION = {"kind": "recognition", "source": {"kind": "audio", "bins": WIDTH}}


def spec_of_features() -> Spec:
    source = {"kind": "features", "width": WIDTH, "subsampling": [{"kernel": 3, "stride": 2}]}
    sizes = {"N": 1, "d_model": 64, "d_ff": 128, "h": 4, "d_k": 16, "d_v": 16, "dropout": 0.0}
    training = {"learning_rate_factor": 0.5, "warmup_steps": 100, "label_smoothing": 0.0}
    fields = {"vocabulary.size": 16, "training": training, "compilation.backend": "eager"}
    architecture = {**sizes, "source": source, **UNTIED}
    return specs.load("tiny", {"task": RECOGNITION, "corpus": EMPTY, "architecture": architecture, **fields})


def examples(count: int, seed: int) -> list[Example]:
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        tokens = draw.sample(LETTERS, draw.randint(1, MAX_TOKENS))
        frames = torch.cat([VECTORS[token].expand(draw.randint(3, 5), -1) for token in tokens])
        found.append((frames + 0.2 * torch.randn(frames.shape, generator=generator), tokens))
    return found


def batch_of(pairs: Sequence[Example]) -> Batch:
    source = PaddedBatch.pad([frames for frames, _ in pairs])
    target = PaddedBatch.pad([[BOS, *tokens, EOS] for _, tokens in pairs])
    streams = {"source": source, "target": target}
    return Batch(streams, BatchSize.of({"source": source.lengths.numpy(), "target": target.lengths.numpy() - 1}))


@pytest.mark.integration
def test_a_tiny_model_learns_to_write_what_frames_stand_for_alone_and_in_a_batch() -> None:
    """The threshold is far below what such a model reaches."""
    spec = spec_of_features()
    program = build_module(spec, [Purpose.TRAIN, *TRANSLATE])
    train_step = TrainStep(spec, program, Processes("cpu"), Report())
    for number in range(1, 201):
        train_step(number, batch_of(examples(32, seed=number)))
    program.eval()
    held_out = examples(60, seed=0)
    sources = [SearchInput(index, {"source": frames}, MAX_TOKENS + 2) for index, (frames, _) in enumerate(held_out)]
    decoded = []
    for budget, inputs in ((512, sources), (1, sources[:8])):
        with Engine(program, max_batch_tokens=budget) as engine:
            decoded.append(engine.submit(inputs, BeamSearch(3, 0.6, 3)).result())
    outputs = [list(best.tokens) for best, *_ in decoded[0]]
    wrong = [(tokens, output) for (_, tokens), output in zip(held_out, outputs, strict=True) if tokens != output]
    assert len(wrong) <= 20, wrong
    for one, other in zip(decoded[0][:8], decoded[1], strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-4)


def test_padding_changes_nothing() -> None:
    """Whatever the values of the padding are, and whether or not a stride divides the number of frames."""
    program = build(spec_of_features(), [Purpose.SCORE])
    batch = batch_of(examples(5, seed=1))
    source, target = batch.source, batch.target.values
    expected = program.score(source, target)
    is_padding = torch.arange(source.values.shape[1]) >= source.lengths[:, None]
    other = source._replace(values=torch.where(is_padding[:, :, None], 9.0, source.values))
    torch.testing.assert_close(program.score(other, target), expected, atol=1e-6, rtol=1e-6)
    for row in range(5):
        alone = program.score(other.rows(row, row + 1), target[[row]])
        torch.testing.assert_close(alone[0], expected[row], atol=1e-5, rtol=1e-5)


def test_what_needs_text_refuses_features_by_name() -> None:
    spec = spec_of_features()
    for command in (lambda: benchmark_decoding(spec), lambda: benchmark_training(spec)):
        assert refused("the benchmark needs a model that reads text", command).hint


def test_impossible_features_are_refused() -> None:
    for architecture, problem in (
        ({}, "`architecture.tied_embeddings` is `all`, but a model that reads features has no source embedding"),
        ({**UNTIED, "source.subsampling": [{"kernel": 4, "stride": 2}]}, "must be odd, not 4"),
        ({**UNTIED, "source.subsampling": [{"kernel": 3, "stride": 0}]}, "stride` must be at least 1"),
        ({**PATCHES, "d_model": 6, "h": 2}, "needs a multiple of 4"),
        ({**PATCHES, "source.subsampling": [{"kernel": 3, "stride": 2}]}, "image patches without `subsampling`"),
        ({**UNTIED, "source": {"kind": "tokens"}}, "the `recognition` task reads audio"),
        ({**UNTIED, "source": {"kind": "features", "width": 3}}, "is 3, but `task.source` gives 8"),
    ):
        given: dict[str, object] = {"source": {"kind": "features", "width": WIDTH}, **architecture}
        fields = {f"architecture.{name}": value for name, value in given.items()}
        refused(problem, specs.load, "tiny", {"task": RECOGNITION, "corpus": EMPTY, **fields})
