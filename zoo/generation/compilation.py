"""Functions that build programs, and tell the user if it takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TypedDict

import compiler
from specs import Spec
from zoo.files import storage
from zoo.report import Report

if TYPE_CHECKING:
    from torch import Tensor

    from compiler import Program, Purpose
    from compiler.kernels.program import PackedModel

QUIET_SECONDS = 2.0
"""Seconds before a message tells the user that compilation is running."""
LAZY_BACKEND = "inductor"
"""The backend that compiles when a program first runs, not when it is built."""
LAZY_MESSAGE = (
    "torch.compile compiles the layers when they first run; this takes up to a minute, but less in later runs, because "
    "the result is cached"
)


class BackendOptions(TypedDict, total=False):
    """Options that select device, precision and backend.

    If `precision` or `backend` is missing or None, the value in the spec is used. The default of `device` is auto.
    `device` is auto, cpu, cuda or cuda:N; `precision` is float32, bfloat16 or int8; `backend` is auto or a name that
    `zoo doctor` lists.
    """

    device: str
    precision: str | None
    backend: str | None


def build_with_message(
    spec: Spec,
    purposes: Iterable[Purpose],
    weights: Mapping[str, Tensor],
    report: Report,
    *,
    device: str,
    precision: str | None = None,
    backend: str | None = None,
    packed: PackedModel | None = None,
) -> Program:
    """Return the program that `compiler.build` builds. Show a message if compilation takes long.

    Compiled artefacts are stored in `storage.compiled()`.
    """
    folder = storage.compiled()
    message = f"compiling the program; this is done once on this machine, and the result is stored in {folder}"
    options = {"device": device, "precision": precision, "backend": backend}
    with message_if_slow(report, message):
        program = compiler.build(spec, purposes, weights=weights, folder=folder, packed=packed, **options)  # type: ignore[arg-type]
    if program.backend == LAZY_BACKEND:
        report.info(LAZY_MESSAGE)
    return program


@contextmanager
def message_if_slow(report: Report, message: str) -> Iterator[None]:
    """Show a message and count the seconds if the `with` block takes longer than `QUIET_SECONDS`."""
    finished = Event()

    def count_seconds() -> None:
        if finished.wait(QUIET_SECONDS):
            return
        report.info(message)
        with report.progress("compiling", None, "seconds") as progress:
            progress.advance(round(QUIET_SECONDS))
            while not finished.wait(1):
                progress.advance(1)

    thread = Thread(target=count_seconds, name="message", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
