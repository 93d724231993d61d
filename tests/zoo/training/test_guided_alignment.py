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
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, Spec
from zoo.data.batches import Batch
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import BatchAligner
from zoo.training.distributed import Processes
from zoo.training.step import TrainStep

WEIGHT = 0.5


class PairStore:
    """Pairs in which each source token is translated to the token 20 higher, in reverse order."""

    def __init__(self, count: int) -> None:
        draw = random.Random(3)
        self.sources = [draw.sample(range(10, 30), draw.randint(2, 6)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.sources)

    def row(self, stream: str, index: int):
        source = torch.tensor(self.sources[index], dtype=torch.int32).numpy()
        return source if stream == "source" else source[::-1] + 20

    def rows(self, stream: str, indices: npt.NDArray[np.int64]):
        return [self.row(stream, index) for index in indices.tolist()]

    def batch(self, count: int) -> Batch:
        sources = [[*self.row("source", index).tolist(), EOS] for index in range(count)]
        targets = [[BOS, *self.row("target", index).tolist(), EOS] for index in range(count)]
        return Batch.of({"source": PaddedBatch.pad(sources), "target": PaddedBatch.pad(targets)})


@pytest.fixture
def store() -> PairStore:
    return PairStore(400)


def guided(small: Callable[..., Spec]) -> Spec:
    spec = small()
    return spec.model_copy(update={"training": spec.training.model_copy(update={"guided_alignment": WEIGHT})})


def test_the_loss_is_the_cross_entropy_of_the_first_head(small, store: PairStore) -> None:
    batch, spec = store.batch(3), guided(small)
    torch.manual_seed(1)
    program = compiler.build_module(spec)
    program.eval()
    alignment = torch.zeros(3, batch.target.values.shape[1] - 1, batch.source.values.shape[1])
    alignment[0, 0, 1], alignment[2, 1, 0] = 1.0, 0.25
    without = program(batch.source, batch.target.values)
    loss = program(batch.source, batch.target.values, alignment)
    attend = compiler.build(spec, [compiler.Purpose.ATTEND], weights=program.weights(), backend="eager")
    weights = attend.attend(batch.source, batch.target.values)[1][f"decoder.{spec.guided_layer}.cross_attention"]
    expected = -(weights[0, 0, 0, 1].log() + 0.25 * weights[2, 0, 1, 0].log())
    torch.testing.assert_close(loss.smoothed - without.smoothed, WEIGHT * expected, atol=1e-3, rtol=1e-3)
    assert loss.plain == without.plain


def test_batches_are_aligned_word_by_word(store: PairStore, tokens: Vocabulary) -> None:
    batch = store.batch(50)
    alignment = BatchAligner(store, tokens)(batch)
    assert alignment.shape == (50, batch.target.values.shape[1] - 1, batch.source.values.shape[1])
    right = total = 0
    for row, source, target in zip(alignment, batch.source.values, batch.target.values[:, 1:], strict=True):
        assert not row[target <= EOS].any()
        assert not row[:, source <= EOS].any()
        for position in (target > EOS).nonzero().flatten():
            total += 1
            right += source[row[position].argmax()] + 20 == target[position]
    assert right > 0.95 * total


def test_a_head_learns_to_align(small, store: PairStore, tokens: Vocabulary) -> None:
    spec = guided(small)
    torch.manual_seed(1)
    program = compiler.build_module(spec)
    batch, aligner = store.batch(40), BatchAligner(store, tokens)
    train_step = TrainStep(spec, program, Processes("cpu"), Report(), aligner=aligner)

    def attention() -> float:
        attend = compiler.build(spec, [compiler.Purpose.ATTEND], weights=program.weights(), backend="eager")
        weights = attend.attend(batch.source, batch.target.values)[1][f"decoder.{spec.guided_layer}.cross_attention"]
        alignment = aligner(batch)
        return float((alignment * weights[:, 0]).sum() / alignment.sum())

    before = attention()
    for number in range(300, 420):
        train_step(number, batch)
    assert attention() > 1.5 * before


def test_layers_with_two_cross_attentions_are_refused() -> None:
    decoder = [{"kind": "cross_attention"}, {"kind": "cross_attention"}]
    with pytest.raises(specs.ZooError, match="guided_alignment"):
        specs.load("tiny", {"architecture": {"decoder": decoder}, "training": {"guided_alignment": 1.0}})
