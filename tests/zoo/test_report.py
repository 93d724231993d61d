"""What long work tells."""

import io

import pytest

from specs import ZooError
from zoo import report
from zoo.report import PlainReport, Report, sizes


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(report.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_a_silent_report_takes_everything(capfd):
    silent = Report()
    silent.info("a")
    silent.warn("b")
    with silent.progress("c", None, "steps") as progress:
        progress.advance(3, loss=1.5)
    assert capfd.readouterr() == ("", "")


def test_plain_words_go_to_stderr(capsys):
    PlainReport().info("hello")
    PlainReport().warn("look")
    assert capsys.readouterr() == ("", "hello\nwarning: look\n")


def test_plain_progress_is_a_line_now_and_then(clock):
    stream = io.StringIO()
    with PlainReport(stream, every=10).progress("training", 1000, "steps") as progress:
        for _ in range(40):
            clock.now += 1
            progress.advance(10, loss=3.21987, device="cpu")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "training: 100 steps of 1,000 steps, 10 steps a second, 1:30 left, loss 3.22, device cpu"
    assert len(lines) == 4
    assert lines[-1].startswith("training: 400 steps of 1,000 steps")


def test_the_last_line_is_not_said_again_at_the_end(clock):
    stream = io.StringIO()
    with PlainReport(stream, every=10).progress("training", 20, "steps") as progress:
        for _ in range(2):
            clock.now += 10
            progress.advance(10)
        progress.advance(0, loss=3.0)
    assert [line.split(",")[0] for line in stream.getvalue().splitlines()] == [
        "training: 10 steps of 20 steps",
        "training: 20 steps of 20 steps",
    ]


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ((1500, 1501), ("1,500 bytes", "1,501 bytes")),
        ((1500, 1600), ("1.5 kB", "1.6 kB")),
        ((10**9, 10**9 + 1), ("1,000,000,000 bytes", "1,000,000,001 bytes")),
    ],
)
def test_two_sizes_never_read_the_same(pair, told):
    assert sizes(*pair) == told


def test_short_work_is_no_line(clock):
    stream = io.StringIO()
    with PlainReport(stream).progress("reading", None, "pairs") as progress:
        clock.now += 9
        progress.advance(1)
    assert stream.getvalue() == ""


def test_what_was_done_before_is_no_measure_of_speed(clock):
    stream = io.StringIO()
    with PlainReport(stream, every=10).progress("fetching", 2_000_000, "bytes") as progress:
        progress.advance(1_000_000)
        clock.now += 10
        progress.advance(100_000)
    assert stream.getvalue().startswith("fetching: 1.1 MB of 2.0 MB, 10 kB a second, 1:30 left")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (34_000, "34 kB"),
        (999_499, "999 kB"),
        (999_600, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (5e15, "5,000.0 TB"),
    ],
)
def test_sizes(count, words):
    assert report.size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0:00"), (42.4, "0:42"), (59.6, "1:00"), (185, "3:05"), (7800, "2:10:00"), (1_684_800, "19.5 days")],
)
def test_durations(seconds, words):
    assert report.duration(seconds) == words


@pytest.mark.parametrize(("value", "words"), [(12345.6, "12,346"), (0.00025, "0.00025"), (3.14159, "3.142"), (7, "7")])
def test_figures(value, words):
    assert report.figure(value) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Größe ß\t1\n2", "plain Größe ß\t1\n2"),
        ("\x1b[2J\x1b]0;x\x07", r"\x1b[2J\x1b]0;x\x07"),
        ("a\rb\x7f\x9b1m", r"a\x0db\x7f\x9b1m"),
        ("\u202eabc\u2028", r"\u202eabc\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_would_move_a_terminal_is_spelled_out(capsys, text, shown):
    assert report.escape_control_characters(text) == shown
    assert report.escape_control_characters(text).replace("\t", r"\x09") == ZooError(text).summary, (
        "an error spells it alike"
    )
    PlainReport().warn(text)
    assert capsys.readouterr().err == f"warning: {shown}\n"
