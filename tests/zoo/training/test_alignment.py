"""The statistical alignment finds a dictionary, and the attention head that agrees with it is found and stored."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

import zoo
from tests.examples import PAIRS, write_pairs
from zoo.generation.alignment import AlignmentHead
from zoo.training import alignment
from zoo.training.alignment import LexicalModel, StatisticalAligner, find_alignment_head
from zoo.training.averaging import average
from zoo.training.run import Run


def test_the_models_agree_on_the_dictionary() -> None:
    """Each word is translated to the word + 100, in another order."""
    draw = random.Random(1)
    sources = [draw.sample(range(10, 30), draw.randint(1, 6)) for _ in range(300)]
    corpus = [(source, draw.sample([word + 100 for word in source], len(source))) for source in sources]
    aligner = StatisticalAligner(corpus)
    translations = [np.array(target)[:, None] == np.array(source) + 100 for source, target in corpus]
    links = [aligner.links(source, target) for source, target in corpus]
    right = [(one == other).ravel() for one, other in zip(translations, links, strict=True)]
    assert np.concatenate(right).mean() > 0.99


def test_unknown_tokens_have_no_links() -> None:
    model = LexicalModel([([10, 11], [20, 21]), ([10], [20])])
    found = model.link_probabilities([10, 11, 12], [20, 22, 9_999])
    assert found[0, 0] > 0.9 > 0.1 > found[0, 1] > found[0, 2] == 0
    assert not found[1:].any()
    assert LexicalModel([([], [20]), ([10], [])]).link_probabilities([], [20]).shape == (1, 0)


@pytest.mark.parametrize("best", [AlignmentHead(0, 1, False), AlignmentHead(1, 0, True)], ids=str)
def test_the_head_that_agrees_most_is_found(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, best) -> None:
    run = trained()
    model = zoo.load(run.folder, device="cpu")
    links = [torch.from_numpy(np.random.default_rng(index).permutation(np.eye(8))[:, :8] > 0) for index in range(9)]

    def batches(program, preprocessor, sentences, tokens):
        for sentence in sentences:
            layers = {layer: torch.rand(1, 2, 9, 9) for layer in range(2)}
            rows = slice(1, None) if best.reads else slice(None, -1)
            layers[best.layer][0, best.head, rows, :8] += 2.0 * links[sentence.number]
            yield [sentence], layers

    known = iter(links)
    monkeypatch.setattr(alignment, "attention_batches", batches)
    monkeypatch.setattr(StatisticalAligner, "links", lambda *_: next(known).numpy())
    assert find_alignment_head(run.spec, model.vocabulary, model.program.weights()) == best


def test_the_head_is_stored_with_the_averaged_weights(finished_run: Run) -> None:
    average(finished_run, 1)
    assert zoo.load(finished_run.folder, device="cpu").alignment_head.layer in range(2)


def test_pairs_of_invisible_characters_are_left_out(trained: Callable[..., Run]) -> None:
    run = trained()
    write_pairs([("\u200b", "ein Hund"), ("a dog", "\u200b"), *PAIRS])
    model = zoo.load(run.folder, device="cpu")
    assert find_alignment_head(run.spec, model.vocabulary, model.program.weights()) is not None
