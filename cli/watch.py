"""`zoo watch` and `zoo curves`: follow a run in the terminal, and draw the learning curves of runs."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, option
from zoo.report import figure

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from zoo.training.run_status import LogEntry, RunStatus

INTERVAL = 1.0
"""Time between two readings of the log. Unit: seconds."""
_PLOT_HEIGHT, _MAX_PLOT_WIDTH = 9, 100
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of each dot of a braille character: left and right column, from top to bottom."""
_BLANK = 0x2800
_NAMES = {"loss": "loss", "perplexity": "perplexity"}
_RUNS = argument(
    "RUN",
    "Runs: their folders, or the names of their specs (`tiny` stands for `runs/tiny`).",
    complete=options.complete_run,
)
_OUTPUT = option(
    "FILE.html|FILE.svg",
    "Write a page, or a drawing if the name ends in .svg, to this file. It needs no other files and no network.",
    "--output",
    "-o",
)


def watch(run: options.Run) -> None:
    """Show the progress of a run while another process trains it.

    The display shows the step, the loss and a plot of it, the perplexity, the scores on the dev set, the learning rate,
    the speed and the time left. It changes when the run writes an entry to its log, every `training.log_steps` steps.
    The command ends when the training ends. Ctrl-C ends the command earlier; the training continues.

    If stdout is not a terminal, each entry of the log is printed as one line.

    Examples:
        zoo watch tiny
        zoo watch runs/big > progress.txt
    """
    from rich.console import Console

    from zoo.models import find
    from zoo.training.run_status import RunStatus

    folder = find.run(run)
    console = Console(markup=False, emoji=False, highlight=False)
    try:
        if console.is_terminal and not console.is_dumb_terminal:
            status = _watch_live(folder, console)
        else:
            status = _print_entries(folder)
    except KeyboardInterrupt:
        status = RunStatus.read(folder)
        if status.trainer is not None:
            print(f"\n`{status.name}` continues to train ({status.trainer})")
            return
    print(_describe_end(status))


def _statuses(folder: Path) -> Iterator[RunStatus]:
    """Yield the status of a run every second, until no process trains it."""
    from zoo.training.run_status import RunStatus

    while True:
        status = RunStatus.read(folder)
        yield status
        if status.trainer is None:
            return
        time.sleep(INTERVAL)


def _watch_live(folder: Path, console: Console) -> RunStatus:
    """Show the status of a run in the terminal until its training ends. Return the last status."""
    from rich.live import Live

    status = None
    with Live(console=console, auto_refresh=False) as live:
        for status in _statuses(folder):
            live.update(_view(status, console.width), refresh=True)
    assert status is not None
    return status


def _print_entries(folder: Path) -> RunStatus:
    """Print the last entry of the log, and then each new one. Return the last status."""
    known: list[LogEntry] | None = None
    for status in _statuses(folder):
        entries = list(status.entries)
        if known is None:
            known = entries[:-1]
            if not entries and status.trainer is not None:
                print(_describe_waiting(status), file=sys.stderr, flush=True)
        # If the run was resumed meanwhile, entries of the steps to be repeated have been removed.
        common = next((i for i, (old, new) in enumerate(zip(known, entries, strict=False)) if old != new), None)
        for entry in entries[min(len(known), len(entries)) if common is None else common :]:
            left = status.seconds_left if entry is entries[-1] else None
            print(", ".join(_words(status, entry, left)), flush=True)
        known = entries
    return status


def _words(status: RunStatus, entry: LogEntry, left: float | None) -> Iterator[str]:
    """Yield the parts of the line that describes an entry of the log."""
    yield f"step {entry['step']:,} of {status.spec.training.steps:,}"
    for name, value in _figures(entry):
        yield f"{name} {value}"
    if left and status.trainer is not None:
        yield _time_left(left)


def _figures(entry: LogEntry) -> Iterator[tuple[str, str]]:
    """Yield the name and the formatted value of each metric of an entry that is shown."""
    from zoo.evaluation.metrics import DEV_TITLES
    from zoo.training.run_status import metric_value

    for key, name in {**_NAMES, **DEV_TITLES, "learning_rate": "learning rate"}.items():
        if key in entry:
            value = metric_value(entry, key)
            yield name, figure(value) if math.isfinite(value) else "not finite"
    yield "tokens/s", figure(metric_value(entry, "target_tokens_per_second"))
    if entry.get("skipped"):
        yield "skipped steps", f"{entry['skipped']:,}"


def _time_left(seconds: float) -> str:
    from zoo.report import duration

    return f"about {duration(seconds)} left"


def _describe_waiting(status: RunStatus) -> str:
    every = status.spec.training.log_steps
    return f"waiting for the first entry of the log, which is written after {every:,} steps"


def _view(status: RunStatus, width: int) -> RenderableType:
    """Return the display of a status, for a terminal with this many columns."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from zoo.evaluation.metrics import DEV_TITLES
    from zoo.report import duration, escape_control_characters
    from zoo.training.run_status import metric_value

    name = escape_control_characters(status.name)
    title = Text.assemble((name, "bold"), f": {status.description}", no_wrap=True, overflow="ellipsis")
    plot_width = min(width, _MAX_PLOT_WIDTH)
    bar = Table.grid()
    bar.add_row(ProgressBar(total=1.0, completed=status.fraction, width=plot_width))
    if not status.entries:
        return Group(title, bar, Text(_describe_waiting(status) if status.trainer else "the log has no entry yet"))
    last = dict(status.entries[-1])
    for key in DEV_TITLES:  # only the entries of checkpoints have dev scores
        scored = [entry for entry in status.entries if key in entry]
        last.update({key: scored[-1][key]} if scored else {})
    table = Table.grid(padding=(0, 3, 0, 0))
    rows = [*_figures(last), ("training time", duration(status.progress[-1].seconds))]
    if status.trainer is not None:
        if status.seconds_left:
            rows.append(("time left", f"about {duration(status.seconds_left)}"))
        rows.append(("last entry", f"{duration(status.age)} ago"))
    half = -(-len(rows) // 2)
    for number in range(half):
        right = rows[number + half] if number + half < len(rows) else ("", "")
        cells = (*rows[number], *right)
        table.add_row(*(Text(cell, "dim" if index % 2 == 0 else "") for index, cell in enumerate(cells)))
    points = [(float(entry["step"]), metric_value(entry, "loss")) for entry in status.entries]
    plot = line_plot(points, plot_width, _PLOT_HEIGHT, "step")
    heading = [Text("\nloss", "dim")] if plot else []
    return Group(title, bar, table, *heading, *(Text(line, no_wrap=True) for line in plot))


def _describe_end(status: RunStatus) -> str:
    """Return a message that explains why a run is not training now."""
    from zoo.report import escape_control_characters

    steps = f"at step {status.step:,} of {status.spec.training.steps:,}"
    if status.end_reason is not None:
        return f"`{status.name}` is not training now: it has ended {steps}, because {status.end_reason}"
    command = escape_control_characters(quote(str(status.run.spec_file)))
    return f"`{status.name}` is not training now: it was stopped {steps}; `zoo train {command}` resumes it"


def line_plot(points: Sequence[tuple[float, float]], width: int, height: int, x_name: str) -> list[str]:
    """Return the lines of a plot.

    Args:
        points: The points, in the order of their x values. A y value that is not finite interrupts the line.
        width: Width of the plot in characters, with its labels.
        height: Height of the plot in lines, without the labels of the x-axis.
        x_name: Name of the x-axis.

    Returns:
        The lines of text. Empty if no point has a finite y value.
    """
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return []
    (first, last), (low, high) = (
        (min(values), max(values)) for values in ([x for x, _ in finite], [y for _, y in finite])
    )
    labels = figure(high), figure(low)
    margin = max(map(len, labels))
    columns, rows = 2 * max(2, width - margin - 2), 4 * height

    def dot(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        across = (x - first) / (last - first) if last > first else 0.5
        down = (high - y) / (high - low) if high > low else 0.5
        return across * (columns - 1), down * (rows - 1)

    cells = [[0] * (columns // 2) for _ in range(height)]
    for x, y in _dots([dot(point) if math.isfinite(point[1]) else None for point in points]):
        cells[y // 4][x // 2] |= _BITS[x % 2][y % 4]
    lines = []
    for number, row in enumerate(cells):
        label = {0: labels[0], height - 1: labels[1]}.get(number, "")
        lines.append(f"{label:>{margin}} ┤" + "".join(chr(_BLANK + bits) for bits in row))
    start, end = f"{x_name} {figure(first)}", figure(last)
    gap = " " * max(1, columns // 2 - len(start) - len(end))
    return [*lines, f"{'':{margin}} └{'─' * (columns // 2)}", f"{'':{margin}}  {start}{gap}{end}"]


def _dots(points: Sequence[tuple[float, float] | None]) -> Iterator[tuple[int, int]]:
    """Yield the dots of a line through points. None interrupts the line."""
    for point in points:
        if point is not None:
            yield round(point[0]), round(point[1])
    for one, other in pairwise(points):
        if one is not None and other is not None:
            (x, y), (to_x, to_y) = one, other
            count = math.ceil(max(abs(to_x - x), abs(to_y - y), 1))
            yield from (
                (round(x + (to_x - x) * step / count), round(y + (to_y - y) * step / count)) for step in range(count)
            )


def curves(run: Annotated[list[str], _RUNS], output: Annotated[Path, _OUTPUT] = Path("curves.html")) -> None:
    """Draw the learning curves of one or several runs.

    The page shows loss and perplexity on the training set, the scores on the dev set, the learning rate and the speed:
    by step, and by training time. Several runs share each plot. A run can still be training; its log is read once.

    Examples:
        zoo curves tiny
        zoo curves runs/one runs/two -o curves.html
        zoo curves table3/base table3/big -o curves.svg
    """
    from cli.console import report
    from zoo.files.output import open_output, require_html
    from zoo.models import find
    from zoo.training.run_status import learning_curves
    from zoo.visualization.curves_page import curves_page, curves_svg

    draws_svg = output.suffix.lower() == ".svg"
    if not draws_svg:
        require_html(output)
    messages = report()
    metrics, runs = learning_curves([find.run(each) for each in run], messages)
    draw = curves_svg if draws_svg else curves_page
    with open_output(output) as file:
        file.write(draw(metrics, runs))
    messages.info(f"{', '.join(metric.title for metric in metrics)}: written to {output}")
