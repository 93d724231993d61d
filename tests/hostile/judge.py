"""What a case may do: end in time, within memory, rightly or in an error of the house."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from hostile.clock import Clock
from specs import ZooError
from zoo.system.device_memory import peak_memory

SECONDS = 10
BYTES = 2 << 30
_SPARE = 1 << 30
"""More address space than memory: it is reserved here and there, and not used."""
_SHOWN = 20_000
"""Characters of an error that somebody will read."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Wrong(AssertionError):
    """A result that is not the right one, or an end that is none."""


class TooLong(BaseException):
    """No `except Exception` holds it up."""


def right(condition: object, otherwise: str) -> None:
    """Raises Wrong unless the condition holds."""
    if not condition:
        raise Wrong(otherwise)


@contextmanager
def in_time() -> Iterator[None]:
    """Raises TooLong in what takes longer, again and again until it ends."""
    clock = Clock()

    def ring(number: int, frame: FrameType | None) -> None:
        if clock.seconds() >= SECONDS:
            raise TooLong(f"it takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bound_memory() -> None:
    """So that the machine survives what asks for too much; `used` tells of what stayed below."""
    size = Path("/proc/self/statm")
    if not size.exists():
        return  # no Linux: what is used is told afterwards all the same
    there = int(size.read_text().split()[0]) * resource.getpagesize()
    most = there + BYTES + _SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def used() -> int:
    """The most memory that this process ever had, in bytes; not what its parent had, which getrusage may count."""
    return peak_memory(torch.device("cpu"))


def of_the_house(error: ZooError) -> None:
    """Raises Wrong unless the error says something, briefly, and whose fault it was."""
    right(isinstance(error.problem, str) and error.problem.strip(), "an error without a problem")
    right(error.exit_code in (1, 2), f"an error with the exit code {error.exit_code}")
    text = f"{error}\n\nhint: {error.hint}"
    right(len(text) <= _SHOWN, f"an error of {len(text):,} characters: {text[:200]}")
    right("the memory does not suffice" not in text, f"it took too much memory: {text[:200]}")


def ended(status: object, out: str, err: str, allowed: tuple[int, ...] = (0, 1, 2)) -> None:
    """Raises Wrong unless a command ended as commands of the house do."""
    right(isinstance(status, int) and status in allowed, f"the exit status is {status!r}: {err[-500:]}")
    faults = [line for line in err.splitlines() if "this is a fault of zoo" in line]
    right(not faults, faults[0][:500] if faults else "")
    right("Traceback (most recent call last)" not in err, f"a traceback: {err[-500:]}")
    right("the memory does not suffice" not in err, f"it took too much memory: {err[:300]}")
    right(len(err) <= _SHOWN, f"{len(err):,} characters on stderr: {err[:200]}")
    if found := _CONTROL.search(err):
        at = max(0, found.start() - 60)
        raise Wrong(f"a control character on stderr: {err[at : found.end() + 20]!r}")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]  # of a spec, each that it has
    right(bool(errors) == (status in (1, 2)), f"exit status {status} with {len(errors)} errors: {err[-500:]}")


def printable(out: str) -> None:
    """Raises Wrong where a terminal would obey what is printed."""
    if found := _CONTROL.search(out):
        at = max(0, found.start() - 60)
        raise Wrong(f"a control character on stdout: {out[at : found.end() + 20]!r}")
