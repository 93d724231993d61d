"""Search over a program: finished sentences leave the batch, and waiting ones take their place."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from compiler.program import State, Steps
from zoo.generation.batch import Batch
from zoo.generation.chooser import Chooser
from zoo.generation.history import History
from zoo.generation.hypothesis import Hypothesis
from zoo.generation.source import Source
from zoo.generation.waiting import Waiting
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory

Found = tuple[int, list[Hypothesis]]
"""The index of a sentence and its hypotheses."""


@torch.no_grad()
def search(program: Steps[State], waiting: Waiting, chooser: Chooser, device: torch.device) -> Iterator[Found]:
    """What is found for each sentence, as soon as it is.

    BOS and PAD are never produced. What is found for a sentence depends on no other sentence, ties included. Fewer
    hypotheses come back than are wanted only where no more were met. A batch too large for the memory is split.

    Raises ZooError for a sentence that does not fit the memory alone, and for a program whose probabilities are not
    usable; Stopped where `waiting` was stopped.
    """
    batch: Batch[State] | None = None
    held: list[Source] = []
    while True:
        entering = waiting.take(held)
        held += entering
        if not held:
            return
        done: list[History] | None = None
        try:
            batch, done = _advanced(program, chooser, batch, entering, device)
        except MEMORY_ERRORS as error:
            if not is_out_of_memory(error):
                raise
        if done is None:  # and the memory of what failed is free again
            batch = None
            if not waiting.take_back(held, len(held) * max(len(source.tokens) for source in held)):
                return
            held = []
            continue
        for history in done:
            yield history.source.index, history.hypotheses()
        if done:
            gone = {history.source.index for history in done}
            held = [source for source in held if source.index not in gone]


def _advanced(
    program: Steps[State],
    chooser: Chooser,
    batch: Batch[State] | None,
    entering: list[Source],
    device: torch.device,
) -> tuple[Batch[State] | None, list[History]]:
    """A step of the batch, or the first one of those that enter, which then join it."""
    done: list[History] = []
    if batch is not None:
        done = batch.step()
    if entering:
        new = Batch.start(program, chooser, entering, device)
        done += new.step()
        batch = new if batch is None else batch.joined(new)
    return batch if batch is not None and batch.histories else None, done
