"""The terminal: data to stdout, words and progress to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import accumulate
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from zoo.evaluation.metrics import DEV_TITLES
from zoo.report import Plain, Progress, Report, duration, figure, harmless, size

_WIDE = 10_000  # columns of what is no terminal: nothing is cut
_REFRESH = 4  # a second; more would take time from the work that is shown
_WORDS = {
    "loss": "loss",
    **DEV_TITLES,
    "perplexity": "perplexity",
    "target_tokens_per_second": "tokens/s",
}
"""What a bar has room for of a training's figures, what matters most first, and how it calls them."""


def report() -> Report:
    """Bars that move where stderr is a terminal, else plain lines."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    return RichReport(console) if console.is_terminal and not console.is_dumb_terminal else Plain()


def show_json(value: object) -> None:
    """One JSON value on a line of its own, to stdout; in JSON's escapes where it is not harmless, or not UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    sayable = text == harmless(text) and not any("\ud800" <= letter <= "\udfff" for letter in text)
    print(text if sayable else json.dumps(value))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table to stdout. A column whose name ends in `>` is set to the right, one that ends in `…` may be folded."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.show_header = any(column.rstrip(">…") for column in columns)
    for column in columns:
        right, folds = column.endswith(">"), column.endswith("…")
        table.add_column(column.rstrip(">…"), justify="right" if right else "left", no_wrap=not folds)
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    with console.capture() as captured:
        if title is not None:
            console.print(Text(title, "bold"))
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


class RichReport(Report):
    """Bars with speed and time left; lines are said above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._running = 0

    def say(self, text: str) -> None:
        self._console.print(Text(harmless(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(Text.assemble(("warning: ", "yellow"), harmless(text)), soft_wrap=True)

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return _Bar(self, label, total, unit)

    def begin(self) -> Bars:
        """The bars on the screen: rich allows one set of them at a time, so that work within work shares it."""
        if self._bars is None:
            bar = BarColumn(bar_width=12 if self._console.width >= 80 else 6)
            columns = (TextColumn("{task.description}", markup=False), bar, _Figures())
            self._bars = Bars(*columns, console=self._console, transient=True, refresh_per_second=_REFRESH)
            self._bars.start()
        self._running += 1
        return self._bars

    def end(self) -> None:
        """Takes the bars off the screen when the last work is done."""
        self._running -= 1
        if self._bars is not None and not self._running:
            self._bars.stop()
            self._bars = None


class _Bar(Progress):
    def __init__(self, report: RichReport, label: str, total: int | None, unit: str) -> None:
        self._report, self._label, self._total, self._unit = report, label, total, unit
        self._figures: dict[str, float | str] = {}
        self._begun = False

    def __enter__(self) -> Self:
        self._bars = self._report.begin()
        self._task: TaskID = self._bars.add_task(self._label, total=self._total, unit=self._unit, figures=[])
        return self

    def advance(self, n: int = 1, **figures: float | str) -> None:
        self._figures.update(figures)
        known = {called: self._figures[name] for name, called in _WORDS.items() if name in self._figures}
        words = [f"{name} {figure(value)}" for name, value in (known or self._figures).items()]
        elapsed = next(task for task in self._bars.tasks if task.id == self._task).elapsed or 0.0
        if not self._begun and elapsed < 0.1:
            # Resumed work starts with what was done before: that is no measure of speed.
            self._bars.reset(self._task, completed=n, unit=self._unit, figures=words)
        else:
            self._bars.update(self._task, advance=n, figures=words)
        self._begun = self._begun or n > 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.remove_task(self._task)
        self._report.end()


class _Figures(ProgressColumn):
    """How much is done, how long to go, the figures of the work itself, and how fast it goes."""

    def render(self, task: Task) -> _Fitting:
        unit: str = task.fields["unit"]
        whole = f" of {_count(task.total, unit)}" if task.total else ""
        words = [f"{_count(task.completed, unit)}{whole}" + ("" if unit == "bytes" else f" {unit}")]
        if task.time_remaining:
            words.append(f"{duration(task.time_remaining)} left")
        words += task.fields["figures"]
        if task.speed and unit != "seconds":
            words.append(f"{size(task.speed) if unit == 'bytes' else figure(float(task.speed))}/s")
        return _Fitting(words)


class _Fitting:
    """Words, the most important first: as many of them as there is room for, and none cut in two."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(len(self._words[0]), len(", ".join(self._words)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = accumulate(self._words, lambda text, word: f"{text}, {word}")
        fitting = [text for text in texts if len(text) <= options.max_width]
        yield Text(fitting[-1] if fitting else self._words[0], no_wrap=True, overflow="ellipsis")


def _count(number: float, unit: str) -> str:
    return size(number) if unit == "bytes" else f"{number:,.0f}"
