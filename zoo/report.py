"""What long work tells the one who waits: words, warnings, progress."""

from __future__ import annotations

import re
import sys
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from specs.notation import written_out

_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udc7f\udd00-\udfff]"
)
_EVERY = 10.0  # seconds between two plain lines of progress


class Progress:
    """One token of work under way: a context manager that is told how far it is. This one is silent."""

    def advance(self, n: int = 1, **figures: float | str) -> None:
        """`n` more units are done; `figures` are shown beside the progress, by name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Report:
    """Says nothing. What shows something overrides these three."""

    def say(self, text: str) -> None:
        """A line worth knowing."""

    def warn(self, text: str) -> None:
        """A line worth acting upon."""

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        """Progress of `label` from 0 to `total` (None where nobody knows), counted in `unit`: "steps", "bytes"."""
        return Progress()


class Plain(Report):
    """Plain lines, to stderr unless `stream` is another: for logs, pipes and terminals of no talent."""

    def __init__(self, stream: TextIO | None = None, every: float = _EVERY) -> None:
        self._stream = stream
        self._every = every

    def say(self, text: str) -> None:
        print(harmless(text), file=self._stream or sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        self.say(f"warning: {text}")

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return _Lines(self, label, total, unit, self._every)


class Library(Report):
    """What those who call us from Python hear where they give no report: warnings, as Python has them."""

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=_to_caller())


def _to_caller() -> int:
    """How many frames up from who asks the first line is that is none of ours."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_OURS):
        level, frame = level + 1, frame.f_back
    return level


_OURS = Path(__file__).parent


class Shown(Library, Plain):
    """The same, and plain lines of progress."""


class _Lines(Progress):
    """A line every so many seconds, and one at the end if there was one before that did not say it all."""

    def __init__(self, report: Report, label: str, total: int | None, unit: str, every: float) -> None:
        self._report, self._label, self._total, self._unit, self._every = report, label, total, unit, every
        self._done = self._before = 0
        self._figures: dict[str, float | str] = {}
        self._start = self._shown = time.monotonic()
        self._lines = self._told = 0

    def advance(self, n: int = 1, **figures: float | str) -> None:
        now = time.monotonic()
        if not self._done and not self._lines and now - self._start < 0.1:
            self._before = n  # resumed work starts with what was done before: that is no measure of speed
        self._done += n
        self._figures.update(figures)
        if now - self._shown >= self._every:
            self._show(now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lines and kind is None and self._told != self._done:
            self._show(time.monotonic())

    def _show(self, now: float) -> None:
        self._shown = now
        self._lines += 1
        self._told = self._done
        speed = (self._done - self._before) / max(now - self._start, 1e-9)
        words = [
            f"{amount(self._done, self._unit)} of {amount(self._total, self._unit)}"
            if self._total
            else amount(self._done, self._unit)
        ]
        if self._unit != "seconds":
            words.append(f"{amount(speed, self._unit)} a second")
        if self._total and speed > 0 and self._done < self._total:
            words.append(f"{duration((self._total - self._done) / speed)} left")
        words += [f"{name} {figure(value)}" for name, value in self._figures.items()]
        self._report.say(f"{self._label}: {', '.join(words)}")


def harmless(text: str) -> str:
    """Text for a terminal: what moves its cursor, turns its lines round or has no place in UTF-8 is spelled out.

    It is spelled as in errors. Newlines and tabs stay, and bytes of a name that is not UTF-8.
    """
    return _HARMFUL.sub(lambda found: written_out(found[0]), text)


def amount(count: float, unit: str) -> str:
    """`count` of `unit` for people: "1,200 steps", "3.4 GB"."""
    if unit == "bytes":
        return size(count)
    return f"{count:,.0f} {unit}" if count >= 10 or count == int(count) else f"{count:.2g} {unit}"


def size(count: float) -> str:
    """Bytes for people, in powers of a thousand: "34 kB", "1.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "bytes" or abs(count) >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def sizes(first: float, second: float) -> tuple[str, str]:
    """Two sizes that differ, for people: to the byte where they would read the same."""
    told = size(first), size(second)
    return told if told[0] != told[1] else (f"{first:,.0f} bytes", f"{second:,.0f} bytes")


def duration(seconds: float) -> str:
    """Seconds for people: "0:42", "3:05", "2:10:00", "19.5 days"."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def figure(value: float | str) -> str:
    """A number to four digits; text as it is."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
