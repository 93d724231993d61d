"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from zoo.evaluation.metrics import DEV_TITLES
from zoo.report import Progress, Report, duration, escape_control_characters, figure, size

_REFRESHES_PER_SECOND = 4  # more would slow down the work
_FIGURE_NAMES = {"loss": "loss", **DEV_TITLES, "perplexity": "perplexity", "target_tokens_per_second": "tokens/s"}
"""Names of training metrics in a progress bar, keyed by metric. The most important metrics come first."""


class BarReport(Report):
    """Report that shows progress bars with speed and time left, and prints messages above them."""

    def __init__(self, console: Console, ask: Callable[[str, str, str], bool] | None = None) -> None:
        self.ask = ask
        self._console = console
        self._bars: RichProgress | None = None

    def info(self, text: str) -> None:
        """Print a message above the progress bars."""
        self._console.print(Text(escape_control_characters(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line that begins with "warning:"."""
        line = Text.assemble(("warning: ", "yellow"), escape_control_characters(text))
        self._console.print(line, soft_wrap=True)

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        """Return a context manager that shows the progress of a task as a bar."""
        return _Bar(self, label, total, unit)

    def start(self) -> RichProgress:
        """Begin a task, and return the display to which its progress bar is added. All tasks share this display."""
        if self._bars is None:
            bar = BarColumn(bar_width=12 if self._console.width >= 80 else 6)
            columns = (TextColumn("{task.description}", markup=False), bar, _FiguresColumn())
            self._bars = RichProgress(
                *columns, console=self._console, transient=True, refresh_per_second=_REFRESHES_PER_SECOND
            )
            self._bars.start()
        return self._bars

    def stop(self) -> None:
        """Remove the display from the screen if it has no bars left."""
        if self._bars is not None and not self._bars.tasks:
            self._bars.stop()
            self._bars = None


class _Bar(Progress):
    """Progress of one task, shown as a bar in a `BarReport`."""

    def __init__(self, report: BarReport, label: str, total: int | None, unit: str) -> None:
        self._report, self._label, self._total, self._unit = report, label, total, unit
        self._figures: dict[str, float | str] = {}
        self._has_advanced = False

    def __enter__(self) -> Self:
        self._bars = self._report.start()
        self._task: TaskID = self._bars.add_task(self._label, total=self._total, unit=self._unit, figures=[])
        return self

    def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
        self._total = total or self._total
        self._figures.update(figures)
        named = {name: self._figures[key] for key, name in _FIGURE_NAMES.items() if key in self._figures}
        words = [f"{name} {figure(value)}" for name, value in (named or self._figures).items()]
        elapsed = next(task for task in self._bars.tasks if task.id == self._task).elapsed or 0.0
        if not self._has_advanced and elapsed < 0.1:
            # A resumed run first reports the earlier work, which must not affect the speed.
            self._bars.reset(self._task, completed=n, total=self._total, unit=self._unit, figures=words)
        else:
            self._bars.update(self._task, advance=n, total=self._total, figures=words)
        self._has_advanced = self._has_advanced or n > 0

    def __exit__(self, *_: object) -> None:
        self._bars.remove_task(self._task)
        self._report.stop()


class _FiguresColumn(ProgressColumn):
    """Progress bar column that shows the completed work, the time left, the metrics and the speed.

    The most important values come first, because the console truncates long lines.
    """

    def render(self, task: Task) -> Text:
        unit: str = task.fields["unit"]
        total = f" of {_format_count(task.total, unit)}" if task.total else ""
        words = [f"{_format_count(task.completed, unit)}{total}" + ("" if unit == "bytes" else f" {unit}")]
        if task.time_remaining:
            words.append(f"{duration(task.time_remaining)} left")
        words += task.fields["figures"]
        if task.speed and unit != "seconds":
            words.append(f"{size(task.speed) if unit == 'bytes' else figure(float(task.speed))}/s")
        return Text(", ".join(words), no_wrap=True, overflow="ellipsis")


def _format_count(number: float, unit: str) -> str:
    return size(number) if unit == "bytes" else f"{number:,.0f}"
