"""Cases, their outcomes, and the rules that they must keep: time, memory, kinds of errors, and files they may touch."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType

from specs import ZooError

SECONDS = 10
"""Time limit of a case."""
BYTES = 2 << 30
"""Memory limit of a case."""
_SPARE_ADDRESS_SPACE = 1 << 30
_MAX_ERROR_LENGTH = 20_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Case:
    """A hostile case. The same kind and seed make the same case, everywhere and in any order."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"

    @property
    def random(self) -> Random:
        """The random numbers that the case is generated from."""
        return Random(str(self))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case. `failure` is None if all is well; its first line says what is wrong."""

    case: Case
    failure: str | None
    seconds: float
    answered: int = 0
    """Number of calls that returned a result."""
    refused: int = 0
    """Number of calls that ended with an error."""

    @property
    def summary(self) -> str:
        return f"{self.case}: {(self.failure or 'good').splitlines()[0]}"


class WrongResult(AssertionError):
    """A wrong result, or a command that does not end as commands should."""


class TooLong(BaseException):
    """The time limit is exceeded. No `except Exception` catches it."""


class Escaped(BaseException):
    """A write outside the case's folder."""


def check(condition: object, problem: str) -> None:
    """Raise WrongResult unless the condition holds."""
    if not condition:
        raise WrongResult(problem)


class Clock:
    """Seconds since it was created, without the time that the process waited for a processor."""

    def __init__(self, process: int | str = "self") -> None:
        self._file = Path(f"/proc/{process}/schedstat")
        self._start, self._waited_before = time.monotonic(), self._waited()

    def seconds(self) -> float:
        return time.monotonic() - self._start - (self._waited() - self._waited_before)

    def _waited(self) -> float:
        with suppress(OSError, ValueError, IndexError):
            return int(self._file.read_text().split()[1]) / 1e9
        return 0.0  # the system does not report it


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TooLong in a block that exceeds the limit, repeatedly until the block ends."""
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


def limit_memory() -> None:
    """Limit the address space, to protect the machine; `peak_memory` finds smaller excesses."""
    size = Path("/proc/self/statm")
    if size.exists():
        current = int(size.read_text().split()[0]) * resource.getpagesize()
        limit = current + BYTES + _SPARE_ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def check_error(error: ZooError) -> None:
    """Check that an error says what is wrong, briefly, and has a valid exit code."""
    check(isinstance(error.problem, str) and error.problem.strip(), "an error without a problem")
    check(error.exit_code in (1, 2), f"an error with the exit code {error.exit_code}")
    text = f"{error}\n\nhint: {error.hint}"
    check(len(text) <= _MAX_ERROR_LENGTH, f"an error of {len(text):,} characters: {text[:200]}")
    check("not enough memory" not in text, f"it took too much memory: {text[:200]}")


def check_command(status: object, err: str) -> None:
    """Check exit status and stderr of a command: no traceback, and an error if and only if the status is 1 or 2."""
    check(isinstance(status, int) and status in (0, 1, 2), f"the exit status is {status!r}: {err[-500:]}")
    forbidden = ("internal error in zoo", "Traceback (most recent call last)", "not enough memory")
    for line in err.splitlines():
        check(not any(each in line for each in forbidden), line[:500])
    check(len(err) <= _MAX_ERROR_LENGTH, f"{len(err):,} characters on stderr: {err[:200]}")
    check_printable(err, "stderr")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]  # a spec may have several
    check(bool(errors) == (status in (1, 2)), f"exit status {status} with {len(errors)} errors: {err[-500:]}")


def check_printable(text: str, stream: str = "stdout") -> None:
    """Check that output has no characters that control a terminal."""
    if match := _CONTROL.search(text):
        raise WrongResult(f"a control character on {stream}: {text[max(0, match.start() - 60) : match.end() + 20]!r}")


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATH_ARGUMENTS = {  # for each audit event: indices of a path and of the folder descriptor that it is relative to
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}
_DEVICES = ("/dev/null", "/dev/full", "/dev/tty", "/dev/stdout", "/dev/stderr")


class FileGuard:
    """Audits the files that this process opens and writes. Audit hooks cannot be removed, so there is one guard."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._opened: list[str] = []
        sys.addaudithook(self._audit)

    @contextmanager
    def inside(self, folder: Path, *others: Path) -> Iterator[None]:
        """Raise Escaped if Python writes outside `folder`, WrongResult if anything in `others` has changed."""
        before = _state(others)
        self._folder, self._opened = os.path.realpath(folder), []
        try:
            yield
        finally:
            self._folder = None
        if (after := _state(others)) != before:
            raise WrongResult(f"written outside its folder: {sorted(set(after.items()) ^ set(before.items()))[:4]}")

    def forget(self) -> None:
        """Forget which files were opened so far."""
        self._opened = []

    def was_opened(self, path: Path) -> bool:
        """Return whether a file was opened, under any name."""
        return os.path.realpath(path) in {os.path.realpath(each) for each in self._opened if "\0" not in each}

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes):
                self._opened.append(os.fsdecode(path))
                if isinstance(flags, int) and flags & _WRITES:
                    self._require_inside(event, os.path.realpath(os.fsdecode(path)))
            return
        for index, folder in _PATH_ARGUMENTS.get(event, ()):
            path, descriptor = arguments[index], -1 if folder is None else arguments[folder]
            if isinstance(path, str | bytes | os.PathLike):
                self._require_inside(event, _location(os.fsdecode(path), descriptor))

    def _require_inside(self, event: str, path: str) -> None:
        inside = path == self._folder or path.startswith(f"{self._folder}{os.sep}")
        if not inside and not (event == "open" and path.startswith(_DEVICES)):
            raise Escaped(f"{event} of {path}, outside its folder")


def _location(path: str, descriptor: object) -> str:
    """Return where a path is, without following it if it is a link itself."""
    if isinstance(descriptor, int) and descriptor >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _state(folders: tuple[Path, ...]) -> dict[str, tuple[int, int]]:
    statuses = {path: path.lstat() for folder in folders for path in (folder, *folder.rglob("*"))}
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in statuses.items()}
