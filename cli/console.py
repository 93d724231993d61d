"""Output of the commands: tables and JSON to stdout, messages to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specs import ZooError
from zoo.report import PlainReport, Report, escape_control_characters

if TYPE_CHECKING:
    from rich.text import Text

    from zoo.system.processors import Spread

_UNLIMITED_WIDTH = 10_000  # columns, if stdout is not a terminal
_TERMINAL_VARIABLES = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Environment variables by which rich treats a file as a terminal."""


def report(*, yes: bool = False) -> Report:
    """Return a report that shows progress bars if stderr is a terminal, and plain lines otherwise.

    Args:
        yes: Whether the answer to all questions is yes, without asking.
    """
    chosen = _report()
    chosen.ask = None if yes else confirm
    return chosen


def _report() -> Report:
    if not sys.stderr.isatty() and not _TERMINAL_VARIABLES & os.environ.keys():
        return PlainReport()  # without importing rich
    from rich.console import Console

    from cli.progress_bars import BarReport

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    return BarReport(console) if console.is_terminal and not console.is_dumb_terminal else PlainReport()


def confirm(question: str, otherwise: str, hint: str = "add `--yes` to skip the confirmation") -> bool:
    """Ask a question that can be answered with yes or no.

    Args:
        question: The question, without its choices.
        otherwise: Beginning of the error message if stdin is not a terminal, such as "nothing was removed".
        hint: How to do it without a question, for this error message.

    Returns:
        Whether the answer is yes.

    Raises:
        ZooError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ZooError(f"{otherwise}, because stdin is not a terminal", hint=hint)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_json(value: object) -> None:
    """Print a value as one line of JSON. Text that is unsafe in terminals or not valid UTF-8 is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    is_safe = text == escape_control_characters(text) and not any("\ud800" <= char <= "\udfff" for char in text)
    print(text if is_safe else json.dumps(value))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], title: str | None = None) -> None:
    """Print a table to stdout.

    Args:
        columns: Column headings. The suffix `>` right-aligns a column, and `…` wraps it. Suffixes are not printed.
        rows: The cells of each row. A `Text` has colours, and must be safe in terminals.
        title: Heading of the table.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.show_header = any(column.rstrip(">…") for column in columns)
    for column in columns:
        justify, wraps = "right" if column.endswith(">") else "left", column.endswith("…")
        table.add_column(column.rstrip(">…"), justify=justify, no_wrap=not wraps)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(escape_control_characters(cell)) if isinstance(cell, str) else cell for cell in row))
    width = None if sys.stdout.isatty() else _UNLIMITED_WIDTH
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    with console.capture() as capture:
        if title is not None:
            console.print(Text(title, "bold"))
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def spread_cells(spread: Spread, factor: float = 1.0) -> tuple[str, str]:
    """Return two table cells for a spread, multiplied by `factor`: the median, and the range "MIN to MAX"."""
    return f"{factor * spread.median:,.2f}", f"{factor * spread.min:,.2f} to {factor * spread.max:,.2f}"
