"""Comments beside values: whose they are, and that nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import specs

TEXT = """\
# yaml-language-server: $schema=x.json
# The first line,
# and the second.
extends: base
name: mine  # by me
description: "a # that is text"
architecture:  # of a mapping: nobody's
  h: 4  # a # in a comment
  # alone between values
  dropout: 0.2
training: {steps: 5, average: 2}  # of which of them?
corpus:
  train:  # of the list
    - {grammar: 5}
    # alone at the end
"""


def test_each_value_has_the_comment_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT)
    assert specs.comments(file) == {
        "": "The first line, and the second.",
        "name": "by me",
        "architecture.h": "a # in a comment",
        "corpus.train": "of the list",
    }


def test_a_file_without_comments_has_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text('{"extends": "base", "name": "x"}')
    assert specs.comments(file) == {}
