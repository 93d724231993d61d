"""Sentence pairs from files."""

import gzip

import pytest

import specs
from specs import ZooError
from zoo.corpus.parallel import ParallelText, lines
from zoo.report import Report


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def text_of(folder, source="train.en", target="train.de", **corpus):
    part = {"source": source, "target": target}
    spec = specs.load("tiny", {"corpus": {"folder": str(folder), "train": [part], "dev": [part], "test": [], **corpus}})
    return ParallelText(spec.corpus, Report())


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
    assert list(lines(write(tmp_path / name, SGM))) == ["Café & Co. <b> AT&T", "two lines", ""]


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
    with pytest.raises(ZooError, match=r"set\.sgm` has no <seg> in it"):
        pairs_of(tmp_path, source="set.sgm", target="set.sgm")


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
        list(lines(path))


def test_a_flipped_bit_of_a_compressed_file_is_told(tmp_path):
    path = write(tmp_path / "text.gz", "a line of text\n" * 30)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(ZooError, match="cut short or damaged"):
        list(lines(path))


def test_identity_is_that_of_the_content_wherever_it_lies(tmp_path):
    for folder in ("here", "there"):
        write(tmp_path / folder / "train.en", "a\n")
        write(tmp_path / folder / "train.de", "b\n")
    here, there = (text_of(tmp_path / folder) for folder in ("here", "there"))
    assert here.identity() == there.identity()
    write(tmp_path / "there" / "train.de", "c\n")
    assert here.identity() != there.identity()


def test_identity_knows_how_a_file_is_read_and_what_is_held_out(tmp_path):
    write(tmp_path / "a", SGM)
    write(tmp_path / "a.sgm", SGM)
    plain, segments = (text_of(tmp_path, source=name, target=name).identity() for name in ("a", "a.sgm"))
    assert plain != segments
    held_out = [text_of(tmp_path, source="a", target="a", dev=[{"held_out": n}]).identity() for n in (1, 2)]
    assert held_out[0] != held_out[1]
