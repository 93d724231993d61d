"""A program made ready, with a word for whoever waits: what is compiled is compiled once on a machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

from torch import Tensor

from compiler import Program, Purpose, build
from specs import Spec
from zoo.files import storage
from zoo.report import Report

PATIENCE = 2.0
"""Seconds that nobody is told of."""
LAZY = "inductor"
"""The backend that compiles when its program is first run, and not when it is built."""
FIRST_RUN = "torch.compile compiles the layers in the first run: up to a minute, and less once this machine has done it"


def built(
    spec: Spec,
    purposes: Iterable[Purpose],
    weights: Mapping[str, Tensor],
    report: Report,
    *,
    device: str,
    precision: str | None = None,
    backend: str | None = None,
) -> Program:
    """As `compiler.build`, with what is compiled kept in `storage.compiled()`; `report` hears why it takes long."""
    folder = storage.compiled()
    words = f"making the program ready: what has to be compiled is compiled once on this machine, and kept in {folder}"
    how = {"device": device, "precision": precision, "backend": backend}
    with waiting(report, words):
        program = build(spec, purposes, weights=weights, folder=folder, **how)  # type: ignore[arg-type]
    if program.backend == LAZY:
        report.say(FIRST_RUN)
    return program


@contextmanager
def waiting(report: Report, words: str) -> Iterator[None]:
    """Says the words, and then counts the seconds, while what is inside takes longer than PATIENCE."""
    over = Event()

    def tell() -> None:
        if over.wait(PATIENCE):
            return
        report.say(words)
        with report.progress("compiling", None, "seconds") as shown:
            shown.advance(round(PATIENCE))
            while not over.wait(1):
                shown.advance(1)

    thread = Thread(target=tell, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
