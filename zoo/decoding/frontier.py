"""What a beam search holds between two steps: live and finished hypotheses of the sentences still open."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor
from torch.nn.functional import pad

from specs import EOS
from zoo.decoding.continuations import best, continuations
from zoo.decoding.hypothesis import Hypothesis, length_penalty


class Frontier:
    """The open sentences of a batch, as tensors whose first axis is the sentence.

    At first a sentence has one live hypothesis, the empty one; later `beam` of them (fewer only where the
    vocabulary is too small), likeliest first. A score of -inf marks a place where there is no hypothesis.
    """

    def __init__(self, limits: Sequence[int], *, beam: int, alpha: float, n_best: int, device: torch.device) -> None:
        sentences = len(limits)
        self.beam, self.n_best = beam, n_best
        self.length = 0
        self.sentences = list(range(sentences))
        self.limits = torch.tensor(limits, device=device)
        # Division by a tensor is correctly rounded, so that the bound below holds in float32 as well.
        penalties = [length_penalty(length, alpha) for length in range(max(limits) + 2)]
        self.penalties = torch.tensor(penalties, dtype=torch.float32, device=device)
        self.pieces = torch.empty(sentences, 1, 0, dtype=torch.long, device=device)
        self.totals = torch.zeros(sentences, 1, device=device)
        self.finished_pieces = torch.empty(sentences, n_best, 0, dtype=torch.long, device=device)
        self.finished_totals = torch.full((sentences, n_best), -torch.inf, device=device)
        self.finished_scores = self.finished_totals

    def advance(
        self, log_probabilities: Float32[Tensor, "sentences*live vocabulary"]
    ) -> tuple[Int[Tensor, "sentences live"], Bool[Tensor, " sentences"]]:
        """One piece on: the row that each live hypothesis continues, and which sentences are done."""
        sentences, live = self.totals.shape
        must_end = self.limits == self.length
        count = 2 * self.beam if self.beam > 1 else 1
        totals, parents, pieces = continuations(log_probabilities, self.totals, must_end, count)
        prefixes = torch.cat([_choose(self.pieces, parents), pieces.unsqueeze(2)], dim=2)
        self.length += 1
        ends = pieces == EOS
        self._finish(totals.masked_fill(~ends, -torch.inf), prefixes)
        self.totals, order = best(totals.masked_fill(ends, -torch.inf), self.beam)
        self.pieces = _choose(prefixes, order)
        first_row = torch.arange(sentences, device=totals.device).unsqueeze(1) * live
        return first_row + parents.gather(1, order), must_end | self._decided()

    def _finish(self, totals: Float32[Tensor, "sentences ends"], pieces: Int[Tensor, "sentences ends length"]) -> None:
        """Ranks what has just ended among what ended before; the earlier one wins a tie."""
        scores = torch.cat([self.finished_scores, totals / self.penalties[self.length]], dim=1)
        self.finished_scores, order = best(scores, self.n_best)
        self.finished_totals = torch.cat([self.finished_totals, totals], dim=1).gather(1, order)
        before = pad(self.finished_pieces, (0, 1), value=EOS)
        self.finished_pieces = _choose(torch.cat([before, pieces], dim=1), order)

    def _decided(self) -> Bool[Tensor, " sentences"]:
        """Where no live hypothesis can still enter the n-best list.

        A log-probability only falls, and is divided by at most the penalty of the longest translation.
        """
        bound = self.totals[:, 0] / self.penalties[self.limits + 1]
        return self.finished_scores[:, -1] >= bound

    def token(self) -> Int[Tensor, " rows"]:
        """The last piece of every live hypothesis."""
        return self.pieces[:, :, -1].flatten()

    def finished(self, chosen: Sequence[bool]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The chosen sentences (their places in the batch searched) with their hypotheses, best first."""
        for row in [row for row, is_chosen in enumerate(chosen) if is_chosen]:
            scores: list[float] = self.finished_scores[row].tolist()
            totals: list[float] = self.finished_totals[row].tolist()
            pieces: list[list[int]] = self.finished_pieces[row].tolist()
            hypotheses = [
                Hypothesis(tuple(ids[: ids.index(EOS)]), total, score)
                for ids, total, score in zip(pieces, totals, scores, strict=True)
                if score != -torch.inf
            ]
            yield self.sentences[row], hypotheses

    def leave(self, parents: Int[Tensor, "sentences live"], gone: Sequence[bool]) -> Int[Tensor, "remaining live"]:
        """Drops these sentences here; the parents of those that remain."""
        rows = [row for row, is_gone in enumerate(gone) if not is_gone]
        self.sentences = [self.sentences[row] for row in rows]
        keep = torch.tensor(rows, device=parents.device)
        self.limits = self.limits[keep]
        self.pieces, self.totals = self.pieces[keep], self.totals[keep]
        self.finished_pieces, self.finished_totals = self.finished_pieces[keep], self.finished_totals[keep]
        self.finished_scores = self.finished_scores[keep]
        return parents[keep]


def _choose(
    pieces: Int[Tensor, "sentences some length"], order: Int[Tensor, "sentences chosen"]
) -> Int[Tensor, "sentences chosen length"]:
    return pieces.gather(1, order.unsqueeze(2).expand(-1, -1, pieces.shape[2]))
