"""Who searches: our own search, in one thread or in several, or a program that brings its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch

from zoo.decoding.request import Request
from zoo.decoding.search import Found
from zoo.decoding.source import Source
from zoo.decoding.steps import Steps
from zoo.decoding.whole import Searching, searched_whole
from zoo.decoding.workers import searched, workers_of


def dispatched(
    program: Steps[Any] | Searching,
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
    if hasattr(program, "hypotheses"):
        return searched_whole(cast(Searching, program), windows, request, device)
    workers = workers if most is None else max(1, min(workers, most))
    return searched(program, windows, request.chooser(), request.tokens, workers, device)
