"""Who searches: our own search, in one thread or in several, or a program that brings its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from compiler.program import TranslationModel
from zoo.generation.loop import Found
from zoo.generation.request import Request
from zoo.generation.source import Source
from zoo.generation.workers import searched, workers_of


def dispatched(
    program: TranslationModel,
    windows: Iterable[Sequence[Source]],
    request: Request,
    *,
    device: torch.device,
    most: int | None = None,
) -> Iterator[Found]:
    """What is found for each sentence of the windows, as soon as it is; `most` is their number, if it is known.

    Raises ZooError for what is wanted and the program cannot do.
    """
    workers = workers_of(program, request.workers)
    workers = workers if most is None else max(1, min(workers, most))
    return searched(program, windows, request.chooser(), request.tokens, workers, device)
