"""Progress on a terminal: bars that move, lines above them, nothing left behind."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from itertools import count

import pytest
from rich.console import Console

from cli.console import RichReport, report, show_json, show_table
from cli.errors import tell
from specs import ZooError
from zoo.report import PlainReport


def terminal(width: int = 120) -> tuple[RichReport, Callable[[], str]]:
    stream = io.StringIO()
    clock = count()  # looks at it take a twentieth of a second each
    console = Console(
        file=stream,
        force_terminal=True,
        width=width,
        markup=False,
        highlight=False,
        color_system=None,
        get_time=lambda: next(clock) / 20,
    )
    return RichReport(console), lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def refresh(shown: RichReport) -> None:
    """Now, and not four times a second."""
    assert shown._bars is not None
    shown._bars.refresh()


def test_without_a_terminal_there_are_plain_lines() -> None:
    assert isinstance(report(), PlainReport)


def test_a_bar_tells_how_far_how_fast_and_the_figures() -> None:
    shown, text = terminal()
    with shown.progress("training", 1000, "steps") as progress:
        progress.advance(0)
        for _ in range(50):
            progress.advance(10, loss=3.21, perplexity=9.5, step=7.0)
        refresh(shown)
        shown.info("a line [not markup] above :smile:")
        shown.warn("mind this")
    assert "500 of 1,000 steps" in text()
    assert "left, loss 3.21, perplexity 9.5, " in text()
    assert "/s" in text()
    assert "step 7" not in text()
    assert "a line [not markup] above :smile:\n" in text()
    assert "warning: mind this\n" in text()


@pytest.mark.parametrize(
    ("width", "there", "gone"),
    [
        (120, ("left", "loss 3.21", "dev BLEU 45.1", "perplexity 9.5", "tokens/s 4,400"), ()),
        (80, ("left", "loss 3.21", "dev BLEU 45.1"), ("tokens/s",)),
        (60, ("left", "loss 3.21"), ("dev BLEU", "perplexity")),
        (30, ("500 of",), ("left", "loss")),
    ],
)
def test_a_bar_is_cut_between_its_words_and_what_matters_most_stays(
    width: int, there: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    shown, text = terminal(width)
    with shown.progress("training", 1000, "steps") as progress:
        progress.advance(0)
        for _ in range(50):
            progress.advance(10, target_tokens_per_second=4400.0, loss=3.21, perplexity=9.5, dev_bleu=45.1)
        refresh(shown)
    line = next(line for line in re.split(r"[\r\n]+", text()) if "500 of" in line)
    assert len(line.rstrip()) <= width
    assert all(word in line for word in there)
    assert not any(word in line for word in gone)
    assert width < 60 or "…" not in line


def test_work_within_work_shows_two_bars() -> None:
    shown, text = terminal()
    with shown.progress("fetching", None, "bytes") as outer:
        outer.advance(2_000_000)
        with shown.progress("inner", 4, "pairs") as inner:
            inner.advance(2)
            refresh(shown)
            shown.info("now")
        outer.advance(1, part="b")
    assert "2.0 MB" in text()
    assert "2 of 4 pairs" in text()
    with shown.progress("again", 3, "steps") as progress:
        progress.advance(3)
        refresh(shown)
    assert "3 of 3 steps" in text()


def test_a_failure_takes_the_bar_away() -> None:
    shown, _ = terminal()
    with pytest.raises(KeyboardInterrupt), shown.progress("training", 10, "steps"):
        raise KeyboardInterrupt
    assert shown._bars is None


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "count>", "what…"), [("a", "1", "x" * 500), ("[b]", "1,000", ":smile:")], title="Title")
    title, header, first, second = capsys.readouterr().out.splitlines()
    assert title == "Title"
    assert header.split() == ["name", "count", "what"]
    assert first == "a         1  " + "x" * 500
    assert second == "[b]   1,000  :smile:"


def test_what_others_wrote_moves_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31mred\x1b]0;title\x07\u202e\ud800"
    show_table(["name", "description…"], [["mine", hostile]], title="Published")
    show_json({"description": hostile})
    tell(ZooError(hostile, hint=hostile))
    told = capsys.readouterr()
    assert (told.out + told.err).replace("\n", "").isprintable()
    assert json.loads(told.out.splitlines()[-1]) == {"description": hostile}
    show_json({"harmless": "Größe", "else": ["\x9b1m", "\udcff"]})
    assert json.loads(capsys.readouterr().out) == {"harmless": "Größe", "else": ["\x9b1m", "\udcff"]}
    show_json("Größe")
    assert capsys.readouterr().out == '"Größe"\n'
