"""Report messages, warnings and progress, and format tables and numbers for display."""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from specs.notation import escape

_UNSAFE_IN_TERMINALS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udc7f\udd00-\udfff]"
)
_PACKAGE = Path(__file__).parent
_INTERVAL_SECONDS = 10.0


class Progress(AbstractContextManager["Progress"]):
    """Progress of one task, as a context manager. This base class displays nothing."""

    def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
        """Report that `n` more units of work are done.

        Args:
            n: Number of units, such as training steps or bytes.
            total: New estimate of the total number of units, if the estimate has changed.
            figures: Named values to show with the progress, such as `loss=2.3`.
        """

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pass


class Report:
    """Interface for messages, warnings and progress. This base class shows nothing. Subclasses override its methods."""

    ask: Callable[[str, str, str], bool] | None = None
    """Function that asks the user a yes-no question, such as `cli.console.confirm`. If None, all answers are yes."""

    def info(self, text: str) -> None:
        """Report a message that needs no action."""

    def warn(self, text: str) -> None:
        """Warn about a problem that may need action. The command continues."""

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        """Return a context manager that shows the progress of a task.

        Args:
            label: Short name of the task.
            total: Total number of units, or None if it is unknown.
            unit: Name of the units, in the plural: "steps", "bytes".
        """
        return Progress()


SILENT = Report()
"""Report that discards everything."""


class PlainReport(Report):
    """Report that prints lines of plain text to stderr, for logs, pipes and simple terminals."""

    def __init__(self, ask: Callable[[str, str, str], bool] | None = None) -> None:
        self.ask = ask

    def info(self, text: str) -> None:
        """Print a message to stderr."""
        print(escape_control_characters(text), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print a warning to stderr, after the word "warning:"."""
        self.info(f"warning: {text}")

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        """Return a context manager that prints the progress of a task as lines of text."""
        return _PrintedProgress(self, label, total, unit)


class WarningsReport(Report):
    """Report that issues warnings through Python's `warnings` module and discards everything else."""

    def warn(self, text: str) -> None:
        """Issue a Python warning that points to the user's line of code, not to a line of zoo."""
        warnings.warn(text, stacklevel=_caller_stack_level())


WARNINGS = WarningsReport()


class LibraryReport(WarningsReport, PlainReport):
    """Report that issues Python warnings, and prints messages and progress as plain lines to stderr."""


def _caller_stack_level() -> int:
    """Return the `stacklevel` with which `warnings.warn` points to the first caller outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


class _PrintedProgress(Progress):
    """Progress that prints a line of text at most every ten seconds.

    When the work ends, it prints a last line if an earlier line was printed and the progress has changed since then.
    """

    def __init__(self, report: PlainReport, label: str, total: int | None, unit: str) -> None:
        self._report, self._label, self._total, self._unit = report, label, total, unit
        self._done = self._done_before = 0
        self._figures: dict[str, float | str] = {}
        self._start = self._last_time = time.monotonic()
        self._printed: int | None = None

    def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
        self._total = total or self._total
        now = time.monotonic()
        if not self._done and self._printed is None and now - self._start < 0.1:
            self._done_before = n  # a resumed run reports its earlier work first, which must not affect the speed
        self._done += n
        self._figures.update(figures)
        if now - self._last_time >= _INTERVAL_SECONDS:
            self._print(now)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._printed not in (None, self._done):
            self._print(time.monotonic())

    def _print(self, now: float) -> None:
        self._last_time, self._printed = now, self._done
        speed = (self._done - self._done_before) / max(now - self._start, 1e-9)
        words = [amount(self._done, self._unit)]
        if self._total:
            done = size(self._done) if self._unit == "bytes" else f"{self._done:,}"
            words = [f"{done} of {amount(self._total, self._unit)}"]
        if self._unit != "seconds":
            words.append(f"{amount(speed, self._unit)} per second")
        if self._total and speed > 0 and self._done < self._total:
            words.append(f"{duration((self._total - self._done) / speed)} left")
        words += [f"{name} {figure(value)}" for name, value in self._figures.items()]
        self._report.info(f"{self._label}: {', '.join(words)}")


@dataclass(frozen=True)
class Table:
    """Table whose cells contain text.

    Columns whose names end in `>` are right-aligned. Cells may be wrapped in columns whose names end in `…`. These
    suffixes are not shown.
    """

    columns: Sequence[str]
    """Column headings. If all headings are empty, they are not shown."""
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()


def escape_control_characters(text: str) -> str:
    """Escape all characters that move the cursor of a terminal, change the text direction or have no UTF-8 encoding.

    Keep newlines and tabs, and also the surrogates with which Python represents undecodable bytes in file names.
    """
    return _UNSAFE_IN_TERMINALS.sub(lambda match: escape(match[0]), text)


def amount(count: float, unit: str) -> str:
    """Format a number with its unit for display, such as "1,200 steps" or "3.4 GB". `unit` must be plural."""
    if unit == "bytes":
        return size(count)
    unit = unit.removesuffix("s") if count == 1 else unit
    return f"{count:,.0f} {unit}" if count >= 10 or count == int(count) else f"{count:.2g} {unit}"


def size(count: float) -> str:
    """Format a number of bytes for display, with decimal prefixes, such as "34 kB" or "1.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "bytes" or abs(count) >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def sizes(first: float, second: float) -> tuple[str, str]:
    """Format two different byte counts. If rounding would make them look the same, format the exact numbers."""
    texts = size(first), size(second)
    return texts if texts[0] != texts[1] else (f"{first:,.0f} bytes", f"{second:,.0f} bytes")


def duration(seconds: float) -> str:
    """Format a duration for display, such as "0:42", "3:05", "2:10:00" or "19.5 days"."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def figure(value: float | str) -> str:
    """Format a number with four significant digits, or without decimals if it is 1,000 or more. Keep text unchanged."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
