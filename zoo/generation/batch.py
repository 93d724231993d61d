"""Sentences that are searched together, step by step: one finishes and leaves, others join."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Self

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from compiler.program import State, Steps
from specs import BOS, EOS, ZooError
from zoo.generation.chooser import Chooser, Chosen
from zoo.generation.constraint import Bounds
from zoo.generation.groups import padded
from zoo.generation.history import History, StepRecord
from zoo.generation.source import Source
from zoo.text.sentences import excerpt


class Batch(Generic[State]):
    """Its sentences are those that need another step."""

    def __init__(
        self,
        program: Steps[State],
        chooser: Chooser,
        histories: Sequence[History],
        state: State,
        token: Int[Tensor, " rows"],
        totals: Float32[Tensor, "sentences rows"],
        bounds: Bounds | None,
    ) -> None:
        self.program, self.chooser, self.histories = program, chooser, histories
        self._state, self._token, self._totals, self._bounds = state, token, totals, bounds
        self._under_way: deque[_Step] = deque()

    @classmethod
    def start(cls, program: Steps[State], chooser: Chooser, sources: Sequence[Source], device: torch.device) -> Self:
        """With sentences whose prefixes, already read, are of one length.

        Raises ZooError for a prefix that is not allowed, ValueError for a sentence that a constraint leaves nothing.
        """
        token = torch.full((len(sources),), BOS, device=device)
        totals = torch.zeros(len(sources), 1, device=device)
        state = program.encode(padded([source.tokens for source in sources], device))
        bounds = chooser.constraint.begun(sources, device) if chooser.constraint is not None else None
        for forced in zip(*(source.prefix for source in sources), strict=True):
            log_probabilities, state = program.decode_step(state, token)
            token = torch.tensor(forced, device=device)
            totals = totals + log_probabilities.gather(1, token.unsqueeze(1))
            if bounds is not None:
                _check_allowed(bounds, token, sources)
                bounds = bounds.after(None, token)
        return cls(program, chooser, [chooser.history(source) for source in sources], state, token, totals, bounds)

    def step(self) -> list[History]:
        """One token on; the histories that are done."""
        allowed = None if self._bounds is None else self._bounds.allowed()
        chosen, self._state = self.chooser.step(
            self.program, self._state, self._token, self._totals, self.histories, allowed
        )
        for history in self.histories:
            history.begun += 1
        step = _Step(self.histories, chosen)
        self._under_way.append(step)
        # A GPU is not waited for: that a sentence is decided is seen one step late, and what it did then is ignored.
        late = 1 if step.asynchronous and not all(history.over for history in self.histories) else 0
        done: list[History] = []
        while len(self._under_way) > late:
            done += self._under_way.popleft().reported()
        self._rearrange(chosen, step)
        if not self.histories:
            while self._under_way:
                done += self._under_way.popleft().reported()
        return done

    def joined(self, other: Batch[State]) -> Batch[State]:
        """With the sentences of another batch behind its own. Both have been stepped, and neither is of further use."""
        if not other.histories or not self.histories:
            return self if self.histories else other
        self.histories = [*self.histories, *other.histories]
        self._state = self.program.join(self._state, other._state)
        self._token, self._totals = torch.cat([self._token, other._token]), torch.cat([self._totals, other._totals])
        if self._bounds is not None and other._bounds is not None:
            self._bounds = self._bounds.joined(other._bounds)
        self._under_way += other._under_way
        return self

    def _rearrange(self, chosen: Chosen, step: _Step) -> None:
        """Rows take the places that were chosen for them, and finished sentences leave."""
        kept = [place for place, history in enumerate(self.histories) if not history.over]
        parents, totals = chosen.parents.gather(1, chosen.live), chosen.live_totals
        token = chosen.tokens.gather(1, chosen.live)
        before = self._totals.shape[1]
        there: Tensor | None
        if len(kept) < len(self.histories):
            self.histories = [self.histories[place] for place in kept]
            if not kept:
                return
            sentences = torch.tensor(kept)  # stays on the host, which a program need not wait for
            there = sentences.to(token.device, non_blocking=True)
            parents, totals, token = parents[there], totals[there], token[there]
        elif before == parents.shape[1] and not (self.chooser.moves and step.moved(parents)):
            there = None
        else:
            sentences = there = torch.arange(len(kept), device=token.device)
        if there is not None:
            self._state = self.program.select(self._state, sentences, parents)
        self._token, self._totals = token.flatten(), totals
        if self._bounds is not None:
            rows = None if there is None else parents.add(there.unsqueeze(1), alpha=before).flatten()
            self._bounds = self._bounds.after(rows, self._token)


class _Step:
    """What a step has chosen, on its way to the host."""

    def __init__(self, histories: Sequence[History], chosen: Chosen) -> None:
        self._histories = histories
        self.asynchronous = _is_asynchronous(chosen.totals)
        taken: tuple[Tensor, ...] = (chosen.totals, chosen.parents, chosen.tokens, chosen.live)
        if self.asynchronous:
            taken = tuple(tensor.to("cpu", non_blocking=True) for tensor in taken)
            self._there = torch.cuda.Event()  # type: ignore[no-untyped-call]
            # Not on the current device's stream: the program may stand on another, whose copies that does not wait for.
            self._there.record(torch.cuda.current_stream(chosen.totals.device))
        self._taken = taken

    def moved(self, parents: Int[Tensor, "sentences rows"]) -> bool:
        """Whether a row goes on from another than itself; a GPU is not asked."""
        return self.asynchronous or parents.numpy().tolist() != [list(range(parents.shape[1]))] * parents.shape[0]

    def reported(self) -> list[History]:
        """Waits for it and tells the histories; those that are done by it."""
        if self.asynchronous:
            self._there.synchronize()
        record = StepRecord(*(tensor.numpy() for tensor in self._taken))
        ends = record.tokens == EOS
        best: list[float] = np.where(ends, -np.inf, record.totals).max(1).tolist()
        ended: list[bool] = ends.any(1).tolist()
        open_before = [(row, history) for row, history in enumerate(self._histories) if not history.done]
        for row, history in open_before:
            history.add(record, row, best[row], ended[row])
        return [history for _, history in open_before if history.done]


def _check_allowed(bounds: Bounds, token: Int[Tensor, " rows"], sources: Sequence[Source]) -> None:
    """Of tokens that are given, before they are taken."""
    each = bounds.allowed().expand(len(sources), -1).gather(1, token.unsqueeze(1)).flatten().tolist()
    for source, good in zip(sources, each, strict=True):
        if not good:
            problem = f"sentence {source.line + 1:,}, {excerpt(source.text)}, is given a beginning that is not allowed"
            raise ZooError(problem, hint="leave the prefix out, or shorten it")


def _is_asynchronous(tensor: Tensor) -> bool:
    """Whether its device works on while the host goes on."""
    return tensor.is_cuda
