"""`training.guided_alignment`: the loss, the alignments of batches, and a head that learns to align."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

import compiler
import specs
from specs import EOS, Spec
from tests.examples import changed, rows
from tests.refusals import refused
from zoo.data.batches import Batch
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import BatchAligner
from zoo.training.distributed import Processes
from zoo.training.step import TrainStep

WEIGHT = 0.5


class PairStore:
    """Pairs in which each source token is translated to the token 20 higher, in reverse order."""

    def __init__(self) -> None:
        draw = random.Random(3)
        self.sources = [draw.sample(range(10, 30), draw.randint(2, 6)) for _ in range(400)]

    def __len__(self) -> int:
        return len(self.sources)

    def row(self, stream: str, index: int):
        source = np.array(self.sources[index], np.int32)
        return source if stream == "source" else source[::-1] + 20

    def rows(self, stream: str, indices: npt.NDArray[np.int64]):
        return [self.row(stream, index) for index in indices.tolist()]

    def batch(self, count: int) -> Batch:
        sides = ([self.row(side, index) for index in range(count)] for side in ("source", "target"))
        return rows(*sides).to_batch()


@pytest.fixture
def store() -> PairStore:
    return PairStore()


@pytest.fixture
def program(small: Callable[..., Spec]) -> compiler.EmittedProgram:
    return compiler.build_module(changed(small(), "training", guided_alignment=WEIGHT))


def guided_attention(program: compiler.EmittedProgram, batch: Batch) -> torch.Tensor:
    """Return the weights of the first head in the layer that learns to align."""
    attend = compiler.build(program.spec, [compiler.Purpose.ATTEND], weights=program.weights(), backend="eager")
    _, weights = attend.attend(batch.source, batch.target.values)
    return weights[f"decoder.{program.spec.guided_layer}.cross_attention"][:, 0]


def test_the_loss_is_the_cross_entropy_of_the_first_head(program, store: PairStore) -> None:
    batch = store.batch(3)
    program.eval()
    alignment = torch.zeros(3, batch.target.values.shape[1] - 1, batch.source.values.shape[1])
    alignment[0, 0, 1], alignment[2, 1, 0] = 1.0, 0.25
    without = program(batch.source, batch.target.values)
    loss = program(batch.source, batch.target.values, alignment)
    weights = guided_attention(program, batch)
    expected = -(weights[0, 0, 1].log() + 0.25 * weights[2, 1, 0].log())
    torch.testing.assert_close(loss.smoothed - without.smoothed, WEIGHT * expected, atol=1e-3, rtol=1e-3)
    assert loss.plain == without.plain


def test_batches_are_aligned_word_by_word(store: PairStore, tokens: Vocabulary) -> None:
    batch = store.batch(50)
    alignment = BatchAligner(store, tokens)(batch)
    assert alignment.shape == (50, batch.target.values.shape[1] - 1, batch.source.values.shape[1])
    right: list[bool] = []
    for row, source, target in zip(alignment, batch.source.values, batch.target.values[:, 1:], strict=True):
        assert not row[target <= EOS].any()
        assert not row[:, source <= EOS].any()
        right += (source[row.argmax(1)] + 20 == target)[target > EOS].tolist()
    assert np.mean(right) > 0.95


def test_a_head_learns_to_align(program, store: PairStore, tokens: Vocabulary) -> None:
    batch, aligner = store.batch(40), BatchAligner(store, tokens)
    train_step = TrainStep(program.spec, program, Processes("cpu"), Report(), aligner=aligner)
    before = (aligner(batch) * guided_attention(program, batch)).sum()
    for number in range(300, 420):
        train_step(number, batch)
    assert (aligner(batch) * guided_attention(program, batch)).sum() > 1.5 * before


def test_layers_with_two_cross_attentions_are_refused() -> None:
    fields = {"architecture.decoder": [{"kind": "cross_attention"}] * 2, "training.guided_alignment": 1.0}
    refused("guided_alignment", specs.load, "tiny", fields)
