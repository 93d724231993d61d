"""Lines as they arrive, through a pipe of our own."""

import os
import threading

import pytest

from specs import ZooError
from zoo.text import arriving
from zoo.text.lines import LineStream, available_chunks, never_paused


@pytest.fixture
def pipe(monkeypatch):
    """What is read, and what writes to it."""
    monkeypatch.setattr(arriving, "_CHUNK", 4)  # so that lines come in tokens
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as other:
        yield LineStream(stream, "pipe"), other


def test_lines_that_are_there_do_not_pause(pipe):
    lines, writer = pipe
    assert lines.paused()
    writer.write(b"one\ntwo three\n\nfo")
    for text in ("one", "two three", ""):
        assert not lines.paused()
        assert next(lines) == text
    assert lines.paused(), "a line that has only begun"
    writer.write("ür\r\nlast".encode())
    assert next(lines) == "foür"
    assert lines.paused()
    writer.close()
    assert not lines.paused(), "the end is no pause"
    assert list(lines) == ["last"]
    assert not lines.paused()


def test_errors_name_the_line(pipe):
    lines, writer = pipe
    writer.write(b"one\n\xff\n")
    assert next(lines) == "one"
    with pytest.raises(ZooError, match="pipe:2"):
        next(lines)


def test_files_and_streams_of_python_alone_never_pause(tmp_path):
    text = "".join(f"{number} \n" for number in range(40_000))
    path = tmp_path / "text"
    path.write_text(text)
    with path.open("rb") as stream:
        lines = LineStream(stream, "text")
        found = [line for line in lines if not lines.paused()]
    assert "".join(f"{line}\n" for line in found) == text
    lines = LineStream([b"a\n", b"b\n"], "list")
    assert [line for line in lines if not lines.paused()] == ["a", "b"]


def test_what_has_come_is_taken_together():
    pauses = iter([False, True, False, False])
    found = available_chunks(iter(range(8)), 3, lambda: next(pauses, False))
    assert list(found) == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert list(available_chunks(iter(range(5)), 100, never_paused)) == [[0, 1, 2, 3, 4]]
    assert list(available_chunks(iter([]), 3, never_paused)) == []


def test_an_error_comes_behind_what_came_before_it():
    def items():
        yield from (1, 2, 3)
        raise ZooError("the cause")

    found = available_chunks(items(), 2, never_paused)
    assert [next(found), next(found)] == [[1, 2], [3]]
    with pytest.raises(ZooError, match="the cause"):
        next(found)


def test_a_stream_that_answers_at_once_is_waited_for(monkeypatch):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as other:
        lines = LineStream(stream, "pipe")
        later = threading.Timer(0.1, lambda: (other.write(b"one\n"), other.close()))
        later.start()
        assert list(lines) == ["one"]
        later.join()
