"""Text files as lines."""

import pytest

from specs import ZooError
from zoo.text.lines import clean, decoded_lines, read_lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        ("eins\u2028zwei\x85drei\x0cvier\n".encode(), ["eins\u2028zwei\x85drei\x0cvier"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        ("schön\n".encode(), ["schön"]),
    ],
)
def test_only_line_feeds_end_lines(tmp_path, written, lines):
    path = tmp_path / "text"
    path.write_bytes(written)
    assert read_lines(path) == lines
    assert read_lines(str(path)) == lines


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "text.de"
    path.write_bytes("gut\nsch\u00f6n\n".encode("latin1"))
    with pytest.raises(ZooError, match=r"byte 4 of the line, 0xf6, is not UTF-8 \(.*text\.de:2\)"):
        read_lines(path)


def test_lines_before_a_broken_one_are_given():
    lines = decoded_lines([b"a\n", b"\xff\n"], "standard input")
    assert next(lines) == "a"
    with pytest.raises(ZooError, match="standard input:2"):
        next(lines)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ZooError, match=r"nowhere` cannot be read: No such file"):
        read_lines(tmp_path / "nowhere")
    with pytest.raises(ZooError, match="cannot be read: Is a directory"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    ("written", "cleaned"),
    [
        ("plain", "plain"),
        (" around\t", "around"),
        ("a\tb\x00\x07c", "a b c"),
        ("a\rb", "a b"),
        ("a\x85b\u2028c\u2029d", "a b c d"),
        ("\ufeffa", "a"),
        ("\x1f\x7f", ""),
        ("no\u00a0break, „ß“, 2\u2009m", "no\u00a0break, „ß“, 2\u2009m"),
    ],
)
def test_control_characters_become_spaces(written, cleaned):
    assert clean(written) == cleaned
    assert clean(cleaned) == cleaned
