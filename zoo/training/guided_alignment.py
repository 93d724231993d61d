"""Word alignments of training batches, which `training.guided_alignment` trains an attention head to reproduce."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from specs import EOS
from zoo.data.batches import Batch
from zoo.data.store import Store
from zoo.text.vocabulary import Vocabulary
from zoo.training.lexical_model import LexicalModel, mutual_links

MAX_PAIRS = 50_000
"""Number of pairs from which the lexical models are estimated. More take longer, and change little."""


class Aligner:
    """Aligns the tokens of batches with two lexical models, which are estimated from the training text.

    The same training text gives the same alignments, so a resumed run equals one that was never stopped.
    """

    def __init__(self, store: Store, vocabulary: Vocabulary) -> None:
        """Estimate the models from pairs that are spread evenly over the training text."""
        indices = np.linspace(0, len(store) - 1, min(len(store), MAX_PAIRS)).astype(int)
        self._ignored = np.array(sorted(vocabulary.control_tokens("source")))
        sources, targets = ([self._words(store.row(name, index)) for index in indices] for name in ("source", "target"))
        pairs = list(zip(sources, targets, strict=True))
        self._to_target = LexicalModel(pairs)
        self._to_source = LexicalModel([(target, source) for source, target in pairs])

    def _words(self, tokens: np.ndarray) -> np.ndarray:
        return tokens[~np.isin(tokens, self._ignored)]

    def __call__(self, batch: Batch) -> Float32[Tensor, "batch target source"]:
        """Return the alignment of a batch: in each row of a linked token, equal weights of its source tokens."""
        source, target = batch.source.values.cpu().numpy(), batch.target.values[:, 1:].cpu().numpy()
        alignment = np.zeros((*target.shape, source.shape[1]), dtype=np.float32)
        for row, sources, targets in zip(alignment, source, target, strict=True):
            columns = np.flatnonzero((sources > EOS) & ~np.isin(sources, self._ignored))
            rows = np.flatnonzero((targets > EOS) & ~np.isin(targets, self._ignored))
            if len(rows) and len(columns):
                forward = self._to_target.link_probabilities(sources[columns], targets[rows])
                backward = self._to_source.link_probabilities(targets[rows], sources[columns]).T
                row[np.ix_(rows, columns)] = mutual_links(forward, backward)
        return torch.from_numpy(alignment / np.maximum(alignment.sum(2, keepdims=True), 1.0))
