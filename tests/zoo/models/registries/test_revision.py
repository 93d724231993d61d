"""A revision's file is believed only where it is whole and says what it can."""

import json

import pytest

from specs import ZooError
from zoo.models.registries.revision import PublishedFile, Revision, parse_record

ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
def revision(summary):
    files = {
        "manifest.json": PublishedFile(sha256=ONE, bytes=10),
        "weights.safetensors": PublishedFile(sha256=TWO, bytes=90),
    }
    return Revision(name="model", revision=3, digest=ONE, files=files, summary=summary)


def test_it_is_read_as_it_was_written(revision):
    assert parse_record(Revision, revision.model_dump_json().encode(), "x") == revision
    assert (revision.bytes, revision.pin, revision.entry.bytes) == (100, "model@3", 100)


def test_what_a_later_zoo_adds_is_passed_over(revision):
    said = json.loads(revision.model_dump_json())
    said["licence"], said["summary"]["speed"] = "CC0", 3
    assert parse_record(Revision, json.dumps(said).encode(), "x") == revision


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("format", 2), ("name", "../x"), ("name", 3), ("revision", 0), ("revision", "1"), ("digest", TWO)),
        *(("digest", "x"), ("files", {}), ("files", None), ("summary", {}), ("revision", True)),
        ("files", {"manifest.json": {"sha256": ONE, "bytes": 1}, "../x.y": {"sha256": TWO, "bytes": 1}}),
        ("files", {"manifest.json": {"sha256": ONE, "bytes": 1}, "a/b.c": {"sha256": TWO, "bytes": 1}}),
        ("files", {"manifest.json": {"sha256": ONE, "bytes": 1}, ".x": {"sha256": TWO, "bytes": 1}}),
        ("files", {"manifest.json": {"sha256": ONE, "bytes": 1}, "x.y": {"sha256": f"../{TWO[3:]}", "bytes": 1}}),
        ("files", {"manifest.json": {"sha256": ONE, "bytes": 1}, "x.y": {"sha256": TWO, "bytes": -1}}),
        ("files", {"spec.yaml": {"sha256": ONE, "bytes": 1}, "x.y": {"sha256": TWO, "bytes": 1}}),
    ],
)
def test_what_cannot_be_is_refused(revision, field, value):
    said = {**json.loads(revision.model_dump_json()), field: value}
    with pytest.raises(ZooError, match=r"`x` is damaged"):
        parse_record(Revision, json.dumps(said).encode(), "x")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"<html>", b"\xff", b"[" * 100_000, b'{"name": NaN}'])
def test_what_is_no_json_object_is_refused(content):
    with pytest.raises(ZooError, match="is damaged"):
        parse_record(Revision, content, "x")
