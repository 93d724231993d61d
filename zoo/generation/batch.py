"""Batches of sentences that are decoded together. Finished sentences leave a batch, and new sentences join it.

The steps of a `Batch` are tensor operations. The beam search of a `ProgramBatch` runs inside the compiled model,
many steps per call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, cast

import numpy as np

from compiler.lazy import no_grad, torch
from compiler.padded_batch import PaddedBatch
from compiler.program import (
    MAX_PREFIX_TOKENS,
    BeamOptions,
    DecoderOnly,
    SearchingDecoder,
    SearchRequest,
    ShortlistDecoder,
    State,
    StepwiseDecoder,
)
from specs import BOS, EOS, ZooError
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import Constraint, ConstraintState, SuppressedTokens
from zoo.generation.hypotheses import LengthPenalty, SearchHistory, Selection, StepRecord, StopReason, length_penalty
from zoo.generation.translation import Hypothesis, SearchInput
from zoo.text.sentences import excerpt

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int64
    from torch import Tensor


class Batch(Generic[State]):
    """Batch of unfinished sentences, with the decoder state and, if the search is constrained, the constraint state.

    Attributes:
        program: The compiled model, which computes the probabilities of tokens.
        histories: The search history of each sentence.
        state: The decoder state.
        token: The last token of each row (hypothesis).
        totals: Log-probability of each row so far, [sentences, rows]. Before the first step, each sentence has one row.
    """

    @no_grad()
    def __init__(
        self, program: StepwiseDecoder[State], histories: Sequence[SearchHistory], device: torch.device | str
    ) -> None:
        """Encode the sentences, and run the decoder on their target prefixes.

        The target prefixes of all `histories` must have the same number of tokens, and their search strategies the same
        batch key.

        Raises:
            ZooError: The constraint forbids the target prefix of a sentence.
        """
        self.program, self.histories = program, histories
        self._pending: deque[_PendingStep] = deque()
        self._min_rows = _max_rows(histories)
        sources, rule = [history.source for history in histories], histories[0].strategy.constraint
        tokens = torch.tensor([(BOS, *source.prefix) for source in sources], device=device)
        self.token = tokens[:, -1]
        self.totals = torch.zeros(len(sources), 1, device=device)
        if inputs := [values for source in sources for values in source.streams.values()]:
            self.state = program.encode(PaddedBatch.pad(inputs, device))
        else:
            self.state = cast(DecoderOnly, program).begin(len(sources))
        if (lists := _shortlists(histories)) is not None:
            self.state = cast(ShortlistDecoder[State], program).restrict(self.state, lists)
        self._constraint = None if rule is None else start_constraint(rule, sources, device)
        for start in range(0, tokens.shape[1] - 1, MAX_PREFIX_TOKENS):
            read, forced = (tokens[:, first : first + MAX_PREFIX_TOKENS] for first in (start, start + 1))
            log_probabilities, self.state = program.advance(self.state, read[:, : forced.shape[1]])
            for log_probability in log_probabilities.gather(2, forced.unsqueeze(2)).unbind(1):
                self.totals = self.totals + log_probability

    @property
    def rows(self) -> int:
        """The number of rows (hypotheses) per sentence."""
        return self.totals.shape[1]

    @no_grad()
    def step(self, min_rows: int = 0) -> list[SearchHistory]:
        """Decode one more token for every sentence, and return the histories of the sentences that are done.

        Args:
            min_rows: Minimum number of rows per sentence after the step. `join` requires that both batches have the
                same number of rows.
        """
        allowed = None if self._constraint is None else self._constraint.allowed()
        selection, self.state = self.histories[0].strategy.step(self, allowed, max(self._min_rows, min_rows))
        for history in self.histories:
            history.length += 1
        step = _PendingStep(self.histories, selection)
        self._pending.append(step)
        # Do not wait for a GPU. The host learns one step late that a sentence is finished, and ignores the extra step.
        lag = 1 if step.asynchronous and not all(history.complete for history in self.histories) else 0
        done = self._report(lag)
        self._rearrange(selection, step, min_rows)
        return done if self.histories else done + self._report(0)

    def prepare_to_join(self, rows: int) -> list[SearchHistory]:
        """Run the first step, so that this batch can be joined to a batch with `rows` rows per sentence.

        Returns:
            The histories of the sentences that are done.
        """
        return self.step(rows)

    def abandon(self) -> None:
        """Discard the batch. Nothing needs to be released, because no other batch shares the decoder state."""

    @no_grad()
    def join(self, other: Batch[State]) -> Batch[State]:
        """Return a batch with the sentences of this batch, followed by the sentences of `other`.

        Call `other.prepare_to_join` first, so that both batches have the same number of `rows`. Neither batch may
        be empty. Do not use either batch afterwards.
        """
        self.histories = [*self.histories, *other.histories]
        self._min_rows = max(self._min_rows, other._min_rows)
        self.state = self.program.join(self.state, other.state)
        self.token, self.totals = torch.cat([self.token, other.token]), torch.cat([self.totals, other.totals])
        if self._constraint is not None and other._constraint is not None:
            self._constraint = self._constraint.join(other._constraint)
        self._pending += other._pending
        return self

    def _report(self, lag: int) -> list[SearchHistory]:
        """Record all pending steps except the last `lag` steps. Return the histories of the sentences that are done."""
        done: list[SearchHistory] = []
        while len(self._pending) > lag:
            done += self._pending.popleft().report()
        return done

    def _rearrange(self, selection: Selection, step: _PendingStep, min_rows: int) -> None:
        """Remove finished sentences, and reorder the rows of the decoder state as the selection specifies."""
        kept = [number for number, history in enumerate(self.histories) if not history.complete]
        is_smaller, rows_before = len(kept) < len(self.histories), self.rows
        if is_smaller:
            self.histories = [self.histories[number] for number in kept]
            if not kept:
                return
            self._min_rows = _max_rows(self.histories)
        rows = max(self._min_rows, min_rows)
        live, totals = selection.live, selection.live_totals
        if live.shape[1] > rows:
            live, totals = live[:, :rows], totals[:, :rows]  # the best rows come first
        parents, token = selection.parents.gather(1, live), selection.tokens.gather(1, live)
        reorders = rows > 1 and self.histories[0].strategy.reorders_rows
        continued = None
        if is_smaller or rows_before != rows or (reorders and step.reorders(parents)):
            # If sentences leave, pass a tensor on the host, so that the program does not wait for the device.
            sentences = torch.tensor(kept) if is_smaller else torch.arange(len(kept), device=token.device)
            on_device = sentences.to(token.device, non_blocking=True)
            if is_smaller:
                parents, totals, token = parents[on_device], totals[on_device], token[on_device]
            self.state = self.program.select(self.state, sentences, parents)
            continued = parents.add(on_device.unsqueeze(1), alpha=rows_before).flatten()
        self.token, self.totals = token.flatten(), totals
        if self._constraint is not None:
            self._constraint = self._constraint.advance(continued, self.token)


class _PendingStep:
    """Tokens selected in a decoding step, while they are being copied from the device to the host."""

    def __init__(self, histories: Sequence[SearchHistory], selection: Selection) -> None:
        self._histories = histories
        self.asynchronous = _is_asynchronous(selection.totals)
        tensors: tuple[Tensor, ...] = (selection.totals, selection.parents, selection.tokens, selection.live)
        if self.asynchronous:
            tensors = tuple(tensor.to("cpu", non_blocking=True) for tensor in tensors)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            # Use the stream of the tensors' device, which may differ from the current device.
            self._copied.record(torch.cuda.current_stream(selection.totals.device))
        self._tensors = tensors

    def reorders(self, parents: Int[Tensor, "sentences rows"]) -> bool:
        """Return whether any row continues a row with a different index. On a GPU, return True without checking."""
        # On a GPU, the check would wait for the GPU.
        return self.asynchronous or parents.numpy().tolist() != [list(range(parents.shape[1]))] * parents.shape[0]

    def report(self) -> list[SearchHistory]:
        """Wait until the selected tokens are copied to the host, and record this step in the search histories.

        Return the histories of the sentences that are now done.
        """
        if self.asynchronous:
            self._copied.synchronize()
        record = StepRecord(*(tensor.numpy() for tensor in self._tensors))
        ends = record.tokens == EOS
        best_live: list[float] = np.where(ends, -np.inf, record.totals).max(1).tolist()
        has_ended: list[bool] = ends.any(1).tolist()
        undecided = [(number, history) for number, history in enumerate(self._histories) if not history.done]
        for number, history in undecided:
            history.add(record, number, best_live[number], has_ended[number])
        return [history for _, history in undecided if history.done]


def _max_rows(histories: Sequence[SearchHistory]) -> int:
    """Return the number of rows per sentence that a batch of these sentences needs."""
    return max(history.strategy.rows for history in histories)


def start_constraint(rule: Constraint, sources: Sequence[SearchInput], device: torch.device | str) -> ConstraintState:
    """Return the state of a constraint after reading the target prefixes, which must all have the same length.

    Raises:
        ZooError: The constraint forbids the target prefix of a sentence.
    """
    constraint = rule.start(sources, device)
    for forced in zip(*(source.prefix for source in sources), strict=True):
        token = torch.tensor(forced, device=device)
        allowed = constraint.allowed().expand(len(sources), -1).gather(1, token.unsqueeze(1)).flatten().tolist()
        for source, is_allowed in zip(sources, allowed, strict=True):
            if not is_allowed:
                name = f"input {source.index + 1:,} ({excerpt(source.text)})"
                problem = f"the prefix of {name} has a token that is not allowed"
                raise ZooError(problem, hint="omit the prefix, or shorten it")
        constraint = constraint.advance(None, token)
    return constraint


def _is_asynchronous(tensor: Tensor) -> bool:
    """Return whether operations on a tensor run asynchronously, as on a GPU."""
    return tensor.is_cuda


MAX_MICROSECONDS = 5000
"""Time after which a call to the compiled model returns.

Then other sentences can join the batch, and cancelled sentences can leave it.

Many steps of a small model fit into this time. If one step takes longer, each call runs one step.
"""


def start_batch(
    program: StepwiseDecoder[State], histories: Sequence[SearchHistory], device: torch.device | str
) -> Batch[State] | ProgramBatch[State]:
    """Return a new batch. Its search runs inside the compiled model if the model and the strategy support this."""
    searcher = histories[0].strategy.searcher(program, _max_rows(histories))
    return Batch(program, histories, device) if searcher is None else ProgramBatch(searcher, histories)


class ProgramBatch(Generic[State]):
    """Batch of sentences whose beam search runs inside the compiled model.

    Its results are bitwise identical to those of `Batch`. Sentences may have different beam sizes. Each sentence has
    one row per live hypothesis.
    """

    rows = 0
    """Always 0, because batches with different numbers of rows can be joined."""

    def __init__(self, program: SearchingDecoder[State], histories: Sequence[SearchHistory]) -> None:
        """Encode the sentences, and run the decoder on their target prefixes, which must have the same length."""
        self.program, self.histories = program, histories
        sources, beam = [history.source for history in histories], cast(BeamSearch, histories[0].strategy)
        self._allowed = None if beam.suppressed is None else _allowed_tokens(beam.suppressed)
        if beam.constraint is not None and sources[0].prefix:
            start_constraint(beam.constraint, sources, "cpu")  # reject prefixes that are not allowed
        rules = None if beam.trees is None else beam.trees.rules(sources)
        self._state = program.start_search([*map(_request, histories)], _shortlists(histories), rules)

    def prepare_to_join(self, rows: int) -> list[SearchHistory]:
        """Do nothing, because batches can be joined before their first step. Return an empty list."""
        return []

    def step(self, min_rows: int = 0) -> list[SearchHistory]:
        """Run decoding steps until a quarter of the sentences are done or MAX_MICROSECONDS have passed.

        Returns:
            The histories of the sentences that are done.
        """
        kept = [number for number, history in enumerate(self.histories) if not history.done]
        if len(kept) < len(self.histories):  # the other sentences were cancelled
            self.histories = [self.histories[number] for number in kept]
            self._state = self.program.keep(self._state, kept)
        results, self._state = self.program.search(self._state, MAX_MICROSECONDS, self._allowed)
        done = [self.histories[result.sentence] for result in results]
        for history, result in zip(done, results, strict=True):
            prefix = history.source.prefix
            found = [Hypothesis((*prefix, *tokens), *scores) for tokens, *scores in result.hypotheses]
            history.set_result(found, cast(StopReason, result.stop_reason))
        self.histories = [history for history in self.histories if not history.done]
        return done

    def join(self, other: ProgramBatch[State]) -> ProgramBatch[State]:
        """Return a batch with the sentences of this batch, followed by the sentences of `other`."""
        self._state = self.program.join(self._state, other._state)
        self.histories = [*self.histories, *other.histories]
        return self

    def abandon(self) -> None:
        """Cancel the search, so that other sentences can use its memory."""
        self._state = self.program.keep(self._state, [])


def _request(history: SearchHistory) -> SearchRequest:
    beam, source = cast(BeamSearch, history.strategy), history.source
    options = BeamOptions(
        size=beam.size,
        candidates=beam.candidates,
        n_best=beam.n_best,
        full=beam.stopping_rule == "full",
        shrinking=beam.stopping_rule == "shrinking",
        min_length=min(beam.suppressed.min_length, source.max_length) if beam.suppressed else 0,
        max_length=source.max_length,
    )
    # The table covers all possible lengths of a translation.
    penalties = _penalty_table(beam.alpha, beam.length_penalty, 1 << (source.max_length + 1).bit_length())
    return SearchRequest(source.tokens, source.prefix, options, penalties)


def _shortlists(histories: Sequence[SearchHistory]) -> list[Int64[np.ndarray, " listed"]] | None:
    """Return the tokens that the translation of each sentence may contain, or None if all tokens are allowed."""
    if (shortlist := histories[0].strategy.shortlist) is None:
        return None
    return [shortlist.tokens_of(history.source.tokens, history.source.prefix) for history in histories]


@lru_cache(maxsize=256)
def _penalty_table(alpha: float, kind: LengthPenalty, count: int) -> tuple[float, ...]:
    """Return the length penalties for lengths below `count`. Length 0 does not occur, because EOS counts as a token."""
    return (0.0, *(length_penalty(length, alpha, kind) for length in range(1, count)))


@lru_cache(maxsize=16)
def _allowed_tokens(rule: SuppressedTokens) -> Bool[np.ndarray, "2 V"]:
    """Return two masks of the allowed tokens.

    Row 0 excludes EOS and applies until the minimum length is reached. Row 1 applies afterwards.
    """
    allowed = np.ones((2, rule.vocabulary_size), bool)
    allowed[:, list(rule.tokens)] = False
    allowed[0, EOS] = False
    return allowed
