"""Sentences of corpus files, compressed or not, plain text or SGML."""

import gzip

import pytest

from tests import forks
from tests.refusals import refused
from zoo.text.lines import MAX_CORPUS_LINE_BYTES, read_sentences

SGML = """<srcset setid="newstest" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="en">
<p>
<seg id="1">Caf&eacute; &amp; Co. &lt;b&gt; AT&T</seg>
<SEG id="2">  two   words </SEG>
</p><seg id="3"></seg><seg id="4">a < b <i>c</i></seg >
</doc></srcset>
"""


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_plain_text_is_read_line_by_line_and_sgml_segment_by_segment(tmp_path):
    for name in ("train.en", "train.en.gz"):
        assert list(read_sentences(write(tmp_path / name, "a house\n\n the dog "))) == ["a house", "", " the dog "]
    for name in ("set.sgm", "set.sgm.gz", "set.SGML"):
        segments = list(read_sentences(write(tmp_path / name, SGML)))
        assert segments == ["Café & Co. <b> AT&T", "two words", "", "a < b <i>c</i>"]


def test_disk_errors_name_the_file(tmp_path):
    refused(rf"`{tmp_path}` cannot be read: Is a directory", list, read_sentences(tmp_path))


def test_text_that_is_not_utf8_is_rejected_with_its_line(tmp_path):
    for name in ("train.de", "train.de.gz", "train.sgm"):
        path = write(tmp_path / name, "gut\nschön\ngut\n".encode("latin1"))
        refused(rf"not UTF-8 \(.*{name}:2\)", list, read_sentences(path))


def test_damaged_compressed_files_are_rejected(tmp_path):
    path = write(tmp_path / "text.gz", "a line of text\n" * 30)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-6] ^= 1
    for data in (*(whole[:end] for end in (1, 12, 30, -9, -1)), flipped):
        path.write_bytes(data)
        refused(r"text\.gz` is truncated or damaged", list, read_sentences(path))


def test_lines_that_are_too_long_are_rejected_with_their_number(tmp_path):
    for name in ("long", "long.gz", "long.sgm"):
        path = write(tmp_path / name, b"<seg>a</seg>\n" + b"x" * (MAX_CORPUS_LINE_BYTES + 1) + b"\n")
        refused(rf"a line is longer than the limit of 1\.0 MB \(.*{name}:2\)", list, read_sentences(path))
    longest = "x" * (MAX_CORPUS_LINE_BYTES - 1)
    assert list(read_sentences(write(tmp_path / "fits", f"{longest}\ny"))) == [longest, "y"]


def test_a_segment_must_end_on_its_line(tmp_path):
    """A long row of incomplete tags would time out if the time grew faster than the line."""
    for line in ("<seg id='1'>a", "<seg>a <seg>b</seg>", "<seg " * 100_000 + ">a"):
        sentences = read_sentences(write(tmp_path / "set.sgm", f"<doc>\n{line}\n"))
        refused(r"has no `</seg>` on the same line \(.*set\.sgm:2\)", list, sentences)


@pytest.mark.integration
@pytest.mark.parametrize("content", [b"a\n", b"\0"])
def test_decompression_bombs_take_no_memory(tmp_path, content):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(30):
            file.write(content * (1_000_000 // len(content)))
    script = f"""
import pathlib, resource
from zoo.files import archive
from zoo.text.lines import read_sentences
from specs import ZooError
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = used()
archive.MIN_LIMIT = 3_000_000
try:
    for line in read_sentences(pathlib.Path({str(path)!r})):
        pass
except ZooError as error:
    print(used() - before, error)
"""
    kilobytes, _, problem = forks.run(script).stdout.partition(" ")
    assert int(kilobytes) < 15_000
    assert problem
