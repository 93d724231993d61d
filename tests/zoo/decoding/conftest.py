"""A toy program: log-probabilities drawn from a hash of the source and the whole prefix."""

import random

import pytest
import torch

from specs import PAD

Row = tuple[tuple[int, ...], tuple[int, ...]]


class ToyProgram:
    """Knows the three verbs (and `score`); a state is a list of (source, prefix), BOS included.

    Log-probabilities are multiples of 1/64, so that sums of them are exact in any order; few `levels` make
    many ties. `overriding` maps a prefix (without BOS) to a row of log-probabilities.
    """

    def __init__(self, vocabulary=7, seed=0, levels=200, overriding=None):
        self.vocabulary, self.seed, self.levels = vocabulary, seed, levels
        self.overriding = overriding or {}
        self.read: list[int] = []  # rows of each decode_step
        self.selected: list[bool] = []  # within_sentences of each select

    def row(self, source, prefix):
        if prefix in self.overriding:
            return list(self.overriding[prefix])
        draw = random.Random(repr((self.seed, source, prefix)))
        return [-draw.randrange(1, self.levels + 1) / 64 for _ in range(self.vocabulary)]

    def encode(self, source):
        return [(tuple(piece for piece in row if piece != PAD), ()) for row in source.tolist()]

    def decode_step(self, state, token):
        assert token.shape == (len(state),)
        self.read.append(len(state))
        read = zip(state, token.tolist(), strict=True)
        after = [(source, (*prefix, piece)) for (source, prefix), piece in read]
        rows = [self.row(source, prefix[1:]) for source, prefix in after]
        return torch.tensor(rows, dtype=torch.float32), after

    def select(self, state, rows, *, within_sentences=False):
        self.selected.append(within_sentences)
        chosen = [state[row] for row in rows.tolist()]
        if within_sentences:
            assert [source for source, _ in chosen] == [source for source, _ in state]
        return chosen

    def score(self, source, target):
        scores = torch.zeros(target.shape[0], target.shape[1] - 1)
        for i, (given, row) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            pieces = tuple(piece for piece in row if piece != PAD)
            known = tuple(piece for piece in given if piece != PAD)
            for place in range(1, len(pieces)):
                scores[i, place - 1] = self.row(known, pieces[1:place])[pieces[place]]
        return scores


@pytest.fixture(scope="session")
def toy():
    return ToyProgram
