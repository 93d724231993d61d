"""Sentence pairs from files."""

import errno
import gzip
import subprocess
import sys

import pytest

import specs
from specs import ZooError
from zoo.data import text_files
from zoo.data.corpus import ParallelCorpus
from zoo.data.text_files import LONGEST_LINE, read_sentences
from zoo.report import Report


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def text_of(folder, source="train.en", target="train.de", **corpus):
    part = {"source": source, "target": target}
    spec = specs.load("tiny", {"corpus": {"folder": str(folder), "train": [part], "dev": [part], "test": [], **corpus}})
    return ParallelCorpus(spec, Report())


def pairs_of(folder, **more):
    return list(text_of(folder, **more).pairs("train"))


def test_line_n_of_one_file_goes_with_line_n_of_the_other(tmp_path):
    write(tmp_path / "train.en", "a house\n\n the dog ")
    write(tmp_path / "train.de", "ein Haus\nleer\nder Hund\n")
    assert pairs_of(tmp_path) == [("a house", "ein Haus"), ("", "leer"), (" the dog ", "der Hund")]


def test_paths_start_at_the_folder_and_the_folder_at_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data" / "train.en", "a\n")
    elsewhere = write(tmp_path / "other" / "de", "b\n")
    assert pairs_of("data", target=str(elsewhere)) == [("a", "b")]


def test_parts_come_one_after_another(tmp_path):
    write(tmp_path / "a", "a\n")
    write(tmp_path / "b", "b\n")
    train = [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]
    assert pairs_of(tmp_path, train=train) == [("a", "b"), ("b", "a")]


def test_compressed_files_are_unpacked_by_their_name(tmp_path):
    write(tmp_path / "train.en.gz", "a\nb\n")
    write(tmp_path / "train.de", "c\nd\n")
    assert pairs_of(tmp_path, source="train.en.gz") == [("a", "c"), ("b", "d")]


def test_a_hole_is_found_before_all_of_it_is_read(tmp_path):
    for name in ("train.en", "train.de"):
        write(tmp_path / name, "a\n" * 5_000)
    assert text_of(tmp_path).identity()
    with (tmp_path / "train.de").open("ab") as file:
        file.truncate(1 << 43)
    with pytest.raises(
        ZooError, match=r"train.de` has a hole: from byte \S+ of 8,796,093,022,208 on nothing was written"
    ):
        text_of(tmp_path).identity()


def test_an_empty_file_has_no_hole(tmp_path):
    for name in ("train.en", "train.de"):
        write(tmp_path / name, "")
    assert text_of(tmp_path).identity()


SGM = """<srcset setid="newstest" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="en">
<p>
<seg id="1">Caf&eacute; &amp; Co. &lt;b&gt; AT&T</seg>
<SEG id="2">
  two
  lines </SEG>
</p><seg id="3"></seg>
</doc></srcset>
"""


@pytest.mark.parametrize("name", ["set.sgm", "set.sgm.gz", "set.SGML"])
def test_segments_of_sgml_are_lines(tmp_path, name):
    assert list(read_sentences(write(tmp_path / name, SGM))) == ["Café & Co. <b> AT&T", "two lines", ""]


@pytest.mark.parametrize(("source", "target", "counts"), [(3, 2, "3 .* 2"), (2, 5, "2 .* 5"), (0, 1, "0 .* 1")])
def test_sides_of_different_length_are_told(tmp_path, source, target, counts):
    write(tmp_path / "train.en", "a\n" * source)
    write(tmp_path / "train.de", "a\n" * target)
    with pytest.raises(ZooError, match=counts.replace(" .* ", r" lines and `.*train\.de` has ")):
        pairs_of(tmp_path)


def test_empty_files_are_told(tmp_path):
    write(tmp_path / "train.en", "")
    write(tmp_path / "train.de", "")
    with pytest.raises(ZooError, match=r"train\.en` has no line in it"):
        pairs_of(tmp_path)
    write(tmp_path / "set.sgm", "<doc></doc>")
    write(tmp_path / "ref.sgm", "<doc></doc>")
    with pytest.raises(ZooError, match=r"set\.sgm` has no <seg> in it"):
        pairs_of(tmp_path, source="set.sgm", target="ref.sgm")


def test_a_missing_file_is_told_with_the_place_looked_at(tmp_path):
    with pytest.raises(ZooError, match=rf"{tmp_path}/train\.en` is not there") as told:
        pairs_of(tmp_path)
    assert "corpus.folder=" in told.value.hint
    (tmp_path / "train.en").mkdir()
    with pytest.raises(ZooError, match="is a folder"):
        pairs_of(tmp_path)


@pytest.mark.parametrize("name", ["train.de", "train.de.gz", "train.sgm"])
def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path, name):
    write(tmp_path / "train.en", "a\nb\nc\n")
    write(tmp_path / name, "gut\nschön\ngut\n".encode("latin1"))
    with pytest.raises(ZooError, match=rf"not UTF-8 \(.*{name}:2\)"):
        pairs_of(tmp_path, target=name)


@pytest.mark.parametrize("cut", [1, 12, 30, -9, -1])
def test_a_compressed_file_that_is_cut_short_is_told(tmp_path, cut):
    path = write(tmp_path / "text.gz", "a line of text\n" * 3 + "another one\n")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ZooError, match=r"text\.gz` is cut short or damaged"):
        list(read_sentences(path))


def test_a_flipped_bit_of_a_compressed_file_is_told(tmp_path):
    path = write(tmp_path / "text.gz", "a line of text\n" * 30)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(ZooError, match="cut short or damaged"):
        list(read_sentences(path))


def test_identity_is_that_of_the_content_wherever_it_lies(tmp_path):
    for folder in ("here", "there"):
        write(tmp_path / folder / "train.en", "a\n")
        write(tmp_path / folder / "train.de", "b\n")
    here, there = (text_of(tmp_path / folder) for folder in ("here", "there"))
    assert here.identity() == there.identity()
    write(tmp_path / "there" / "train.de", "c\n")
    assert here.identity() != there.identity()


def test_identity_knows_how_a_file_is_read_and_what_is_held_out(tmp_path):
    for name in ("a", "b", "a.sgm", "b.sgm"):
        write(tmp_path / name, SGM)
    plain, segments = (text_of(tmp_path, source=f"a{kind}", target=f"b{kind}").identity() for kind in ("", ".sgm"))
    assert plain != segments
    held_out = [text_of(tmp_path, source="a", target="b", dev=[{"held_out": n}]).identity() for n in (1, 2)]
    assert held_out[0] != held_out[1]


@pytest.mark.parametrize("target", ["train.en", "./train.en", "a/../train.en"])
def test_one_file_is_not_two_sides(tmp_path, target):
    with pytest.raises(ZooError, match=r"`corpus\.train\[0\]` has the same file for source and target: `train\.en`"):
        text_of(tmp_path, target=target)
    part = {"archive": "http://x/y.tgz", "sha256": None, "source": "train.en", "target": target}
    with pytest.raises(ZooError, match="has the same file for source and target"):
        text_of(tmp_path, train=[part])


class Heard(Report):
    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("train.de", "train.en", 1),
        ("x.de.gz", "x.en.sgm", 1),
        ("train.en", "train.de", 0),
        ("a", "b", 0),
        ("train.en-de.en", "train.en-de.de", 0),
        ("de", "en", 0),
    ],
)
def test_sides_that_look_swapped_are_told(tmp_path, source, target, count):
    part = [{"source": source, "target": target}]
    spec = specs.load("tiny", {"corpus": {"train": part, "dev": [{"grammar": 5}], "test": []}})
    heard = Heard()
    ParallelCorpus(spec, heard)
    assert len(heard.warnings) == count
    assert all("`corpus.train[0]`" in each and f"`{source}`" in each for each in heard.warnings)


def test_nobodys_home_and_names_that_are_none_are_not_there(tmp_path):
    for source in ("~nosuchuser/train.en", "a\0b", "x" * 3000):
        with pytest.raises(ZooError, match="is not there"):
            pairs_of(tmp_path, source=source)
        treebank = specs.load("parsing/tiny", {"corpus": {"folder": str(tmp_path), "train": [{"trees": source}]}})
        with pytest.raises(ZooError, match="is not there"):
            list(ParallelCorpus(treebank, Report()).pairs("train"))
    text = text_of("~nosuchuser")
    with pytest.raises(ZooError, match=r"the corpus file `~nosuchuser/train\.en` is not there"):
        list(text.pairs("train"))


def test_a_disk_that_fails_is_told_with_the_file(tmp_path, monkeypatch):
    for side in ("train.en", "train.de"):
        write(tmp_path / side, "a\n")
    text = text_of(tmp_path)

    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(text_files, "sha256", fail)
    with pytest.raises(ZooError, match=r"train\.en` cannot be read: Input/output error"):
        text.identity()


@pytest.mark.parametrize("name", ["long", "long.gz", "long.sgm"])
def test_a_line_that_is_no_sentence_is_told_with_its_number(tmp_path, name):
    path = write(tmp_path / name, b"<seg>a</seg>\n" + b"x" * (LONGEST_LINE + 1) + b"\n")
    with pytest.raises(ZooError, match=rf"a line has more than 1\.0 MB, and no sentence is as long \(.*{name}:2\)"):
        list(read_sentences(path))
    assert list(read_sentences(write(tmp_path / "fits", b"x" * (LONGEST_LINE - 1) + b"\ny"))) == [
        "x" * (LONGEST_LINE - 1),
        "y",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<seg>a\n<seg>b</seg>", r"has no `</seg>` before the next one \(.*set\.sgm:1\)"),
        ("<doc>\n<seg id='1'>a\nb\nc", r"has no `</seg>` to the end \(.*set\.sgm:2\)"),
        ("<seg>" + ("a" * 99 + "\n") * 11_000 + "</seg>", r"has no `</seg>` in 1\.0 MB \(.*set\.sgm:1\)"),
    ],
)
def test_a_segment_that_is_not_closed_is_told(tmp_path, text, told):
    with pytest.raises(ZooError, match=told):
        list(read_sentences(write(tmp_path / "set.sgm", text)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<seg\n id='1'\n>a</seg\n>b<seg>c</SEG >", ["a", "c"]),
        ("</seg> x <seg>a < b <i>c</i></seg>", ["a < b <i>c</i>"]),
        ("<segment>no</segment><seg>yes</seg>", ["yes"]),
        ("<seg " * 100_000 + ">a</seg>", ["a"]),
        ("<seg\n" * 100_000, []),
        ("</seg" * 100_000, []),
        ("<" * 900_000, []),
    ],
)
def test_tags_however_they_are_written(tmp_path, text, found):
    """Each is read once: none of them takes a time that grows faster than the file."""
    assert list(read_sentences(write(tmp_path / "set.sgm", text))) == found


def bomb(path, amount, content=b"\0"):
    """So many bytes in a small file."""
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(amount // 1_000_000):
            file.write(content * (1_000_000 // len(content)))
    return path


@pytest.mark.parametrize("content", [b"\n", b"a\n", b"\0"])
def test_what_unpacks_to_more_than_text_does_takes_no_memory(tmp_path, content):
    path = bomb(tmp_path / "bomb.gz", 30_000_000, content)
    script = f"""
import pathlib, resource
from zoo.files import unpacking
from zoo.data.text_files import lines
from specs import ZooError
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = used()
unpacking.ANY = 3_000_000
try:
    for line in lines(pathlib.Path({str(path)!r})):
        pass
except ZooError as error:
    print(used() - before, error)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    taken, _, problem = told.partition(" ")
    assert int(taken) < 15_000
    assert "no text does" in problem or "no sentence is as long" in problem
