"""Differences of specs, comments in their files, and the JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import specs
from specs.catalogue import FOLDER
from specs.file_format import FORMAT
from specs.loader import load, parent
from tests.refusals import refused
from tests.specs.files import write

TEXT = """\
# yaml-language-server: $schema=x.json
# The first line,
# and the second.
extends: base
name: mine  # by me
description: "a # that is text"
architecture:  # of a mapping
  h: 4  # a # in a comment
  # alone between values
  dropout: 0.2
training: {steps: 5, average: 2}  # on several values
corpus:
  train:  # of the list
    - {grammar: 5}
    # alone at the end
"""


def test_each_value_has_the_comment_of_its_line() -> None:
    inside = {"name": "by me", "architecture.h": "a # in a comment", "corpus.train": "of the list"}
    assert specs.comments(write("mine.yaml", TEXT)) == {"": "The first line, and the second.", **inside}
    assert specs.comments(write("mine.yaml", '{"extends": "base", "name": "x"}')) == {}
    refused("the file is empty", specs.comments, write("mine.yaml", "# nothing else\n"))


def test_parent_plus_difference_is_the_spec() -> None:
    for name in set(specs.names()) - {"base"}:
        differing = specs.difference(load(name), parent(name))
        assert load(parent(name).short_name, {key: new for key, (_, new) in differing.items()}) == load(name)


def test_difference_of_depths() -> None:
    deep, other_deep = {"encoder": 12, "decoder": 2}, {"encoder": 12, "decoder": 6}
    cases: tuple[tuple[object, object, object], ...] = (
        (deep, 6, {"architecture.N": (6, deep)}),
        (6, deep, {"architecture.N": (deep, 6)}),
        (deep, other_deep, {"architecture.N.decoder": (6, 2)}),
    )
    for new, old, expected in cases:
        spec, other = (load("base", {"architecture.N": depths}) for depths in (new, old))
        assert specs.difference(spec, other) == expected


def test_schema_file_is_current_and_describes_files_that_extend_others() -> None:
    schema = specs.schema()
    stored = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    assert stored == schema, "run `zoo schema > new.json && mv new.json specs/schema.json`"
    assert "required" not in schema
    assert list(schema["properties"])[:3] == ["extends", "format", "name"]
    assert schema["properties"]["format"]["maximum"] == FORMAT
    for section in ("Architecture", "Vocabulary", "Corpus", "Training", "Decoding", "Compilation", "Parsing"):
        assert "required" not in schema["$defs"][section], section
        assert schema["$defs"][section]["additionalProperties"] is False
    parts = {"Archive": ["archive", "sha256", "target"], "Depths": ["encoder", "decoder"], "SelfAttention": ["kind"]}
    assert {part: schema["$defs"][part]["required"] for part in parts} == parts


def test_a_field_is_described_by_the_docstring_below_it_or_none() -> None:
    inherited = specs.RestrictedAttention.describe("kv_heads")
    assert inherited.startswith("Number of key-value heads. Each is shared by h / kv_heads query heads")
    made: dict[str, Any] = {"Sublayer": specs.Sublayer}
    exec("class Own(Sublayer):\n    size: int = 1\n    'A size.'", made)  # without a source file
    assert made["Own"].describe("size") == ""
    assert made["Own"].describe("dropout").startswith("Dropout rate")
