"""BPE codes split words as subword-nmt does."""

from __future__ import annotations

import io
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.text.codes import BPECodes

END = "</w>"
SYMBOLS = ["a", "b", "ab", "ba", "aa", "aba", "aab"]
PAIRS = st.tuples(st.sampled_from(SYMBOLS), st.sampled_from([*SYMBOLS, END, *(symbol + END for symbol in SYMBOLS)]))
VERSIONS = st.sampled_from(["", "#version: 0.1\n", "#version: 0.2\n"])
LINES = st.lists(PAIRS.map(lambda pair: " ".join(pair) + "\n"), min_size=1, max_size=12)
FILES = st.builds(lambda version, lines: version + "".join(lines), VERSIONS, LINES)
WORDS = st.text("ab", min_size=1, max_size=14)
KNOWN = st.sets(st.sampled_from([name + mark for name in SYMBOLS for mark in ("", "@@")]))


@given(FILES, WORDS, KNOWN)
def test_words_are_split_as_in_subword_nmt(content: str, word: str, known: Collection[str]) -> None:
    original = pytest.importorskip("subword_nmt.apply_bpe", reason="subword-nmt is not installed")
    expected = original.BPE(io.StringIO(content), vocab=known).segment_tokens([word])
    *inner, last = BPECodes(content, known).split(word)
    assert [*(f"{part}@@" for part in inner), last] == expected


def test_files_of_fastbpe_have_counts() -> None:
    assert list(BPECodes("a b 9\nab a</w> 7\n").split("ababa")) == ["ab", "aba"]
    assert list(BPECodes("#version: 0.2\r\na b\r\nab a</w>\r\n").split("ababa")) == ["ab", "aba"]


@pytest.mark.parametrize(
    "content", ["", "a", "a b c d", "a b\na b c", "a b 1\na b", "a  b", "#version: 0.3\na b", "#version: 0.2\na b 5"]
)
def test_other_files_are_rejected(content: str) -> None:
    with pytest.raises(ValueError, match=r"line [12]|version"):
        BPECodes(content)


def test_malicious_codes_end() -> None:
    """Check symbols that look like the end of a word, and subwords whose parts are as many as their characters."""
    assert list(BPECodes("< /w>\na </w>\n", ["x"]).split("a")) == ["a"]
    assert list(BPECodes("< /w>\nb </w>\n", ["x"]).split("ab")) == ["a", "b", ""]
    chain = "#version: 0.2\n" + "".join(f"{'a' * count} a\n" for count in range(1, 2000))
    assert list(BPECodes(chain, ["x"]).split("a" * 1500 + "b")) == ["a"] * 1500 + ["b"]
