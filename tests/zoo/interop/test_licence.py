"""A licence is taken from the front matter of a folder's card, and from nothing that only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.interop.licence import licence_of


@pytest.mark.parametrize(
    ("card", "found"),
    [
        ("---\nlanguage: de\nlicense: apache-2.0\ntags:\n- marian\n---\n# Model\n", "apache-2.0"),
        ("---\r\nlicense: 'cc-by-4.0'\r\n---\r\n", "cc-by-4.0"),
        ("# Model\n\nlicense: mit\n", None),
        ("---\nlicense: mit\n", None),
        ("---\ntags: x\n---\nlicense: mit\n", None),
        ("---\nlicense:\n- mit\n- apache-2.0\n---\n", None),
        ("---\nlicense: </td><script>\n---\n", None),
        ("---\n" + "x: y\n" * 20_000 + "license: mit\n---\n", None),
        ("", None),
    ],
)
def test_it_is_what_the_front_matter_says(tmp_path: Path, card: str, found: str | None) -> None:
    (tmp_path / "README.md").write_bytes(card.encode())
    assert licence_of(tmp_path) == found


def test_without_a_card_none_is_known(tmp_path: Path) -> None:
    assert licence_of(tmp_path) is None
    (tmp_path / "model.npz").write_bytes(b"")
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    assert licence_of(tmp_path / "model.npz") is None, "a page beside a file may be of anything"
