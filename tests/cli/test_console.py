"""Progress bars on a terminal, tables, JSON, and escaped text."""

from __future__ import annotations

import io
import json
import re
import resource
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.console import open_output, show_json, show_tables
from cli.errors import print_error
from cli.progress_bars import BarReport
from specs import ZooError
from tests.conftest import missing
from tests.refusals import refused
from zoo.report import Table


def terminal(width: int = 120) -> tuple[BarReport, Callable[[], str]]:
    stream = io.StringIO()
    clock = count()  # each look at the clock takes a twentieth of a second
    options: Any = {"force_terminal": True, "markup": False, "highlight": False, "color_system": None}
    console = Console(file=stream, width=width, get_time=lambda: next(clock) / 20, **options)
    return BarReport(console), lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def refresh(shown: BarReport) -> None:
    """Draw the bars now instead of four times per second."""
    assert shown._bars is not None
    shown._bars.refresh()


def train(shown: BarReport, **figures: float) -> None:
    """Show half of a training."""
    with shown.progress("training", 1000, "steps") as progress:
        progress.advance(0)
        for _ in range(50):
            progress.advance(10, **figures)
        refresh(shown)
        shown.info("a line [not markup] above :smile:")
        shown.warn("mind this")


def test_bar_shows_progress_speed_and_figures() -> None:
    shown, text = terminal()
    train(shown, loss=3.21, perplexity=9.5, step=7.0)
    assert not missing(text(), "500 of 1,000 steps", "left, loss 3.21, perplexity 9.5, ", "/s")
    assert not missing(text(), "a line [not markup] above :smile:\n", "warning: mind this\n")
    assert "step 7" not in text()


def test_a_bar_that_does_not_fit_is_cut_on_one_line() -> None:
    for width, shown_words, cut in ((80, ["left, loss 3.21, ", "…"], ["/s"]), (30, ["500 of", "…"], ["left"])):
        shown, text = terminal(width)
        train(shown, target_tokens_per_second=4400.0, loss=3.21, perplexity=9.5, dev_bleu=45.1)
        line = next(line for line in re.split(r"[\r\n]+", text()) if "500 of" in line)
        assert len(line.rstrip()) <= width
        assert missing(line, *shown_words, *cut) == cut


def test_nested_work_shows_two_bars() -> None:
    shown, text = terminal()
    with shown.progress("fetching", None, "bytes") as outer:
        outer.advance(2_000_000)
        with shown.progress("inner", 4, "pairs") as inner:
            inner.advance(2)
            refresh(shown)
            shown.info("now")
        outer.advance(1, part="b")
    assert not missing(text(), "2.0 MB", "2 of 4 pairs")
    with shown.progress("again", 3, "steps") as progress:
        progress.advance(3)
        refresh(shown)
    assert "3 of 3 steps" in text()


def test_failure_removes_the_bar() -> None:
    shown, _ = terminal()
    with pytest.raises(KeyboardInterrupt), shown.progress("training", 10, "steps"):
        raise KeyboardInterrupt
    assert shown._bars is None


def test_table_is_not_cut_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_tables(Table(("name", "count>", "what…"), [("a", "1", "x" * 500), ("[b]", "1,000", ":smile:")], "Title"))
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert (title, header.split()) == ("Title", ["name", "count", "what"])
    assert rows == ["a         1  " + "x" * 500, "[b]   1,000  :smile:"]


def test_text_from_others_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31mred\x1b]0;title\x07\u202e\ud800"
    show_tables(Table(["name", "description…"], [["mine", hostile]], "Published"))
    show_json({"description": hostile})
    print_error(ZooError(hostile, hint=hostile))
    captured = capsys.readouterr()
    assert (captured.out + captured.err).replace("\n", "").isprintable()
    assert json.loads(captured.out.splitlines()[-1]) == {"description": hostile}
    show_json(["\x9b1m", "\udcff"])
    assert json.loads(capsys.readouterr().out) == ["\x9b1m", "\udcff"]
    show_json("Größe")
    assert capsys.readouterr().out == '"Größe"\n'


def test_complete_lines_are_kept_when_the_file_cannot_grow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(path: Path) -> None:
        with open_output(path, ()) as write_line:
            list(map(write_line, ["first", "zweite Zeile", "größer"]))

    (tmp_path / "other.partial").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (22, hard))
    try:
        for name in ("out", "other"):
            refused("larger than the file size limit", write, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "out.partial").read_text("utf-8") == "first\nzweite Zeile\n"
    assert capsys.readouterr().err.count("contains the first 2 lines") == 1
