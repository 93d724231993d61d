"""IBM model 1: how probable each token is as the translation of another one, estimated from sentence pairs alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

ITERATIONS = 10
Tokens = Sequence[int] | np.ndarray
LinkProbabilities = Float64[np.ndarray, "target source"]


class LexicalModel:
    """Probability of each target token, given a source token.

    Brown et al., 1993, "The mathematics of statistical machine translation". The empty word is left out.
    """

    def __init__(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> None:
        """Estimate the probabilities with the EM algorithm.

        Args:
            pairs: Token IDs of sources and targets, without special tokens.
        """
        pairs = [(source, target) for source, target in pairs if len(source) and len(target)]
        sources = _joined([np.tile(source, len(target)) for source, target in pairs])
        targets = _joined([np.repeat(target, len(source)) for source, target in pairs])
        lengths = _joined([np.full(len(target), len(source)) for source, target in pairs])
        occurrence = np.repeat(np.arange(len(lengths)), lengths)
        self._targets = int(targets.max(initial=0)) + 1
        """Number of target tokens. A key is the source token times this number, plus the target token."""
        self._keys, entry = np.unique(sources * self._targets + targets, return_inverse=True)
        source_of_key = self._keys // self._targets
        self._probabilities: np.ndarray = np.ones(len(self._keys))
        self._counts: np.ndarray = self._probabilities
        for _ in range(ITERATIONS):
            share = self._probabilities[entry]
            share /= np.bincount(occurrence, share)[occurrence]
            self._counts = np.bincount(entry, share, minlength=len(self._keys))
            self._probabilities = self._counts / np.bincount(source_of_key, self._counts)[source_of_key]
        if not pairs:
            self._keys, self._probabilities, self._counts = np.array([-1]), np.zeros(1), np.zeros(1)

    def expected_links(
        self, min_count: float
    ) -> tuple[Int64[np.ndarray, " links"], Int64[np.ndarray, " links"], Float64[np.ndarray, " links"]]:
        """Return pairs of source and target tokens, and how often the one is expected to be translated as the other.

        Args:
            min_count: Smallest expected number to return.
        """
        kept = self._counts >= min_count
        return *np.divmod(self._keys[kept], self._targets), self._counts[kept]

    def link_probabilities(self, source: Tokens, target: Tokens) -> LinkProbabilities:
        """Return the probability that each target token comes from each source token of a pair.

        The row of a token that never occurred together with any of the source tokens is 0.
        """
        sources, targets = np.asarray(source, np.int64), np.asarray(target, np.int64)
        wanted = sources[None] * self._targets + targets[:, None]
        places = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        is_known = (self._keys[places] == wanted) & (targets[:, None] < self._targets)
        found: LinkProbabilities = np.where(is_known, self._probabilities[places], 0.0)
        total = found.sum(1, keepdims=True)
        return found / np.where(total > 0, total, 1.0)


def mutual_links(to_target: LinkProbabilities, to_source: LinkProbabilities) -> Bool[np.ndarray, "target source"]:
    """Return the links on which two models agree: each token is the most probable origin of the other one.

    Args:
        to_target: Probability that each target token comes from each source token.
        to_source: Probability that each source token comes from each target token.
    """
    best_source, best_target = to_target.max(1, keepdims=True), to_source.max(0, keepdims=True)
    links: Bool[np.ndarray, "target source"] = (to_target == best_source) & (to_source == best_target)
    return links & (to_target > 0) & (to_source > 0)


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([*arrays, np.zeros(0, np.int64)]).astype(np.int64)
