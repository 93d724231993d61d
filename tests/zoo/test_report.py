"""Messages, warnings and progress as plain lines, and numbers formatted for people."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from specs import ZooError
from zoo import report
from zoo.report import LibraryReport, PlainReport, Report, WarningsReport


def test_silent_plain_and_library_reports(capsys: pytest.CaptureFixture[str]) -> None:
    Report().info("a")
    Report().warn("b")
    with Report().progress("c", None, "steps") as progress:
        progress.advance(3, loss=1.5)
    PlainReport().info("hello")
    PlainReport().warn("look")
    assert capsys.readouterr() == ("", "hello\nwarning: look\n")
    for library in (WarningsReport(), LibraryReport()):
        library.info("hello")
        with pytest.warns(UserWarning, match="look") as caught:
            library.warn("look")
        assert caught[0].filename == __file__
    assert capsys.readouterr() == ("", "hello\n")


def printed(clock: SimpleNamespace, task: tuple[str, int, str], *steps: tuple[int, int]) -> list[str]:
    """Return the lines that a task prints. Each step has its duration in seconds, and how far it advances."""
    stream = io.StringIO()
    with redirect_stderr(stream), PlainReport().progress(*task) as progress:
        for seconds, count in steps:
            clock.now += seconds
            progress.advance(count, loss=3.21987, device="cpu")
    return stream.getvalue().splitlines()


def test_progress_prints_a_line_per_interval(clock: SimpleNamespace) -> None:
    lines = printed(clock, ("training", 1000, "steps"), *[(1, 10)] * 40)
    assert lines[0] == "training: 100 of 1,000 steps, 10 steps per second, 1:30 left, loss 3.22, device cpu"
    assert len(lines) == 4
    assert lines[-1].startswith("training: 400 of 1,000 steps")


def test_last_line_is_printed_once(clock: SimpleNamespace) -> None:
    for last, count in ((0, 2), (5, 3)):
        lines = printed(clock, ("training", 25, "steps"), (10, 10), (10, 10), (0, last))
        assert len(lines) == count
        assert lines[-1].startswith(f"training: {20 + last} of 25 steps")


def test_work_of_an_earlier_run_does_not_count_for_the_speed(clock: SimpleNamespace) -> None:
    (line, *_) = printed(clock, ("fetching", 2_000_000, "bytes"), (0, 1_000_000), (10, 100_000))
    assert line.startswith("fetching: 1.1 MB of 2.0 MB, 10 kB per second, 1:30 left")


def test_numbers_for_people() -> None:
    for count, text in (
        *((0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (34_000, "34 kB"), (999_499, "999 kB")),
        *((999_600, "1.0 MB"), (1_234_567_890, "1.2 GB"), (5e15, "5,000.0 TB")),
    ):
        assert report.size(count) == text
    for pair, texts in (
        ((1500, 1501), ("1,500 bytes", "1,501 bytes")),
        ((1500, 1600), ("1.5 kB", "1.6 kB")),
        ((10**9, 10**9 + 1), ("1,000,000,000 bytes", "1,000,000,001 bytes")),
    ):
        assert report.sizes(*pair) == texts
    for seconds, text in (
        *((0, "0:00"), (42.4, "0:42"), (59.6, "1:00"), (185, "3:05")),
        *((7800, "2:10:00"), (172_799, "47:59:59"), (172_800, "2.0 days"), (1_684_800, "19.5 days")),
    ):
        assert report.duration(seconds) == text
    for value, text in ((12345.6, "12,346"), (0.00025, "0.00025"), (3.14159, "3.142"), (7, "7"), ("cpu", "cpu")):
        assert report.figure(value) == text


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    for text, escaped in (
        *(("plain Größe ß\t1\n2", "plain Größe ß\t1\n2"), ("\x1b[2J\x1b]0;x\x07", r"\x1b[2J\x1b]0;x\x07")),
        *(("a\rb\x7f\x9b1m", r"a\x0db\x7f\x9b1m"), ("\u202eabc\u2028", r"\u202eabc\u2028"), ("\ud800", r"\ud800")),
    ):
        assert report.escape_control_characters(text) == escaped
        assert escaped.replace("\t", r"\x09") == ZooError(text).summary, "errors use the same escapes"
        PlainReport().warn(text)
        assert capsys.readouterr().err == f"warning: {escaped}\n"
