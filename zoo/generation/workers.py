"""Threads that search at the same time over one program, each with a batch of its own."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal

import torch

from compiler.host import cores
from compiler.program import Scorer, State, StepwiseDecoder
from specs import ZooError
from zoo.generation.chooser import Chooser
from zoo.generation.loop import Found, search
from zoo.generation.source import Source
from zoo.generation.waiting import Stopped, Waiting


def most_workers() -> int:
    """Threads that a search may ask for: some more than there are cores do no harm, thousands do."""
    return max(64, 8 * cores())


def workers_of(program: Scorer, asked: int | Literal["auto"]) -> int:
    """How many threads search: as many as there are cores where a program computes one batch on one core, else 1.

    Raises ZooError where more are asked for than the program or the machine can have.
    """
    if asked == "auto":
        return cores() if program.concurrent else 1
    if asked > 1 and not program.concurrent:
        raise ZooError(
            f"`workers` is {asked}, and this backend takes one batch at a time, on all cores",
            hint="leave it `auto`, or take the backend `native`",
        )
    if asked > most_workers():
        raise ZooError(
            f"`workers` is {asked:,}, and for {cores()} cores it may be at most {most_workers()}",
            hint="leave it `auto`: a thread for every core",
        )
    return asked


def searched(
    program: StepwiseDecoder[State],
    windows: Iterable[Sequence[Source]],
    chooser: Chooser,
    tokens: int,
    workers: int = 1,
    device: torch.device | str = "cpu",
) -> Iterator[Found]:
    """What is found for each sentence of the windows, as soon as it is; no two sentences have the same index.

    Windows are read where sentences run out, in the thread of the caller. What a worker raises, it raises.
    """
    device = torch.device(device)
    if workers == 1:
        yield from search(program, Waiting(windows, tokens), chooser, device)
        return
    results: SimpleQueue[Any] = SimpleQueue()
    waiting = Waiting(windows, tokens, workers, wake=lambda: results.put(_MORE))
    work = (program, waiting, chooser, device, results)
    threads = [Thread(target=_work, args=work, name=f"search {number}", daemon=True) for number in range(workers)]

    def end() -> None:  # within a step
        waiting.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    # No thread may still be in C++ when Python ends: it is unwound there, and that terminates the process.
    atexit.register(end)
    try:
        waiting.read()
        _start(threads)
        yield from _received(results, waiting, workers)
    finally:  # an error, Ctrl-C, or nobody wants the rest
        end()
        atexit.unregister(end)


_MORE, _END = "more", "end"


def _start(threads: Sequence[Thread]) -> None:
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:  # the limit of processes, or of memory
            problem = f"of {len(threads)} workers only {number} could be started: {error}"
            raise ZooError(problem, hint="ask for fewer: `decoding.workers`", exit_code=1) from error


def _received(results: SimpleQueue[Any], waiting: Waiting, working: int) -> Iterator[Found]:
    while working:
        while waiting.wanting and results.empty():  # whoever writes the lines may be slow
            waiting.read()
        each = results.get()
        if isinstance(each, BaseException):
            raise each
        if each is _END:
            working -= 1
        elif each is not _MORE:
            yield each


def _work(
    program: StepwiseDecoder[State], waiting: Waiting, chooser: Chooser, device: torch.device, results: SimpleQueue[Any]
) -> None:
    try:
        for each in search(program, waiting, chooser, device):
            results.put(each)
        results.put(_END)
    except Stopped:
        pass
    except BaseException as error:  # the caller has to know, whatever it is
        results.put(error)
