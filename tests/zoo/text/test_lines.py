"""Lines of files, and of streams whose lines arrive over time."""

import io
import os
import threading

import pytest

from specs import ZooError
from tests.refusals import refused
from zoo.text import lines as lines_module
from zoo.text.lines import LineStream, available_chunks, clean, clean_with_positions, never_paused, read_lines


@pytest.mark.parametrize(("beginning", "hint"), [
    (b"PK\x03\x04\n\xff", "Office document or a ZIP archive"),
    (b"RIFF\x24\xff\0\0\0\0\0WAVE", "use a model with the `recognition` task"),
    (bytes.fromhex("1f8b08ff"), "in a corpus, its name must end in `.gz`"),
    ("Hund".encode("utf-16"), "iconv -f utf-16"),
    (b"sch\xf6n", "iconv -f latin1"),
    (b"Tom\x92s house", "iconv -f cp1252"),
    ("schön\n".encode() + b"sch\xf6n", "iconv -c -f utf-8"),
    ("Hunde für dich".encode("utf-16-le"), "iconv -f utf-16le"),
])  # fmt: skip
def test_files_that_are_not_plain_text_are_recognised(tmp_path, beginning, hint):
    (tmp_path / "file").write_bytes(beginning)
    assert hint in refused("is not UTF-8|NUL characters", read_lines, tmp_path / "file").hint


@pytest.mark.parametrize(("written", "lines"), [
    (b"", []), (b"a\nb\n", ["a", "b"]), (b"a\n\nb", ["a", "", "b"]),
    (b"a\r\nb\r\n", ["a", "b"]), (b"a\rb\n", ["a\rb"]),
    ("eins\u2028zwei\x85drei\x0cvier\n".encode(), ["eins\u2028zwei\x85drei\x0cvier"]),
    (b"\xef\xbb\xbfa\nb\n", ["a", "b"]), ("schön\n".encode(), ["schön"]),
])  # fmt: skip
def test_only_line_feeds_end_lines(tmp_path, written, lines):
    (tmp_path / "text").write_bytes(written)
    assert read_lines(tmp_path / "text") == lines


def test_unreadable_files_are_reported(tmp_path, pipe):
    path = tmp_path / "text.de"
    path.write_bytes("gut\nsch\u00f6n\n".encode("latin1"))
    refused(r"byte 4 of the line, 0xf6, is not UTF-8 \(.*text\.de:2\)", read_lines, path)
    lines, writer = pipe
    writer.write(b"one\n\xff\n")
    assert next(lines) == "one"
    refused("pipe:2", next, lines)
    refused("nowhere` cannot be read: No such file", read_lines, tmp_path / "nowhere")
    refused("cannot be read: Is a directory", read_lines, tmp_path)


@pytest.mark.parametrize(("written", "cleaned"), [
    ("plain", "plain"), (" around\t", "around"), ("a\tb\x00\x07c", "a b c"),
    ("a\rb", "a b"), ("a\x85b\u2028c\u2029d", "a b c d"), ("\ufeffa", "a"),
    ("\x1f\x7f", ""), ("wash\u00ading\u061c \u202ama\u2060chi\ufeffne\u2069\ufffb", "washing machine"),
    ("a\t\u00ad\tb\u00ad", "a b"), ("no\u00a0break „ß“ 2\u2009m\U000e007f", "no\u00a0break „ß“ 2\u2009m\U000e007f"),
])  # fmt: skip
def test_control_characters_become_spaces(written, cleaned):
    assert clean(written) == cleaned
    assert clean(cleaned) == cleaned
    again, positions = clean_with_positions(written)
    assert (again, len(positions)) == (cleaned, len(cleaned) + bool(cleaned))
    pairs = zip(positions, cleaned, strict=False)
    assert all(written[position] == character or character == " " for position, character in pairs)


def test_positions_count_the_characters_of_the_given_line():
    assert clean_with_positions(" wa\u00adsh \t\u2060\rit\ufeff ") == ("wash  it", [1, 2, 4, 5, 6, 7, 10, 11, 12])


@pytest.fixture
def pipe(monkeypatch):
    """Return a LineStream and the file that writes to it."""
    monkeypatch.setattr(lines_module, "_READ_BYTES", 4)  # so that lines arrive in parts
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", buffering=0) as writer:
        yield LineStream(stream, "pipe"), writer


def test_a_stream_pauses_without_a_complete_line(pipe):
    lines, writer = pipe
    assert lines.paused()
    writer.write(b"one\ntwo three\n\nfo")
    for text in ("one", "two three", ""):
        assert not lines.paused()
        assert next(lines) == text
    assert lines.paused()
    writer.write("ür\r\nlast".encode())
    assert next(lines) == "foür"
    assert lines.paused()
    writer.close()
    assert not lines.paused()  # the end is not a pause
    assert list(lines) == ["last"]
    assert not lines.paused()


def test_files_and_python_streams_never_pause(tmp_path):
    text = "".join(f"{number} \n" for number in range(40_000))
    path = tmp_path / "text"
    path.write_text(text)
    with path.open("rb") as stream:
        lines = LineStream(stream, "text")
        assert "".join(f"{line}\n" for line in lines if not lines.paused()) == text
    lines = LineStream(io.BytesIO(b"a\nb\n"), "bytes")
    assert [line for line in lines if not lines.paused()] == ["a", "b"]


def test_non_blocking_streams_are_waited_for():
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", buffering=0) as writer:
        lines = LineStream(stream, "pipe")
        timer = threading.Timer(0.1, lambda: (writer.write(b"one\n"), writer.close()))
        timer.start()
        assert list(lines) == ["one"]
        timer.join()


def test_chunks_contain_the_available_items():
    def chunks(count, *arguments, pauses=()):
        answers = iter(pauses)
        return list(available_chunks(iter(range(count)), arguments[0], lambda: next(answers, False), *arguments[1:]))

    assert chunks(8, 3, pauses=[False, True]) == [([0, 1], True), ([2, 3, 4], False), ([5, 6, 7], False)]
    assert chunks(5, 100) == [([0, 1, 2, 3, 4], False)]
    assert chunks(0, 3) == []
    sizes = [len(chunk) for chunk, _ in chunks(30, 7, 2, pauses=[False] * 12 + [True])]
    assert sizes == [2, 4, 7, 2, 4, 7, 4], "they grow, and are small again after a pause"


def test_chunks_before_an_error_are_yielded():
    def items():
        yield from (1, 2, 3)
        raise ZooError("the cause")

    chunks = available_chunks(items(), 2, never_paused)
    assert [next(chunks), next(chunks)] == [([1, 2], False), ([3], False)]
    refused("the cause", next, chunks)


@pytest.mark.parametrize("has_descriptor", [True, False])
def test_endless_line_is_refused_while_it_is_read(monkeypatch, tmp_path, has_descriptor):
    """The line before it is returned, and little of the rest is read."""
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100_000)
    (tmp_path / "text").write_bytes(b"first\n" + bytes(1_000_000))
    with (tmp_path / "text").open("rb", buffering=0) as file:
        stream = file if has_descriptor else io.BytesIO(file.read())
        lines = LineStream(stream, "text")
        assert next(lines) == "first"
        refused(r"a line is longer than .*\(text:2\)", next, lines)
        assert stream.tell() < 300_000
    refused("a line is longer than", read_lines, tmp_path / "text")
