"""References and the records of a registry are parsed strictly."""

import json

import pytest

from tests.refusals import refused
from zoo.files.manifest import ManifestEntry
from zoo.models.registries.revision import (
    Reference,
    Revision,
    is_file_name,
    parse_record,
)

ONE, TWO = "1" * 64, "2" * 64
DIGEST = "0123456789abcdef" * 4


def test_a_reference_is_parsed_and_written_if_its_text_is_a_name():
    for name, revision in (("transformer-big-ende", None), ("a,b_1.2", 1), ("a", 120)):
        text, reference = f"{name}@{revision}" if revision else name, Reference(name, revision)
        assert (Reference.parse(text), str(reference)) == (reference, text)
        assert reference.pinned is ("@" in text)
    for text in ("", "../x", "a/b", "runs/tiny@2", "@2", ".a", "a b", "a..b@1", "x" * 101):
        assert Reference.parse(text) is None


def test_an_invalid_pin_is_an_error():
    for pin in ("", "0", "-1", "02", "1.0", "two", "1@2", "1" * 10, f"sha256:{DIGEST}"):
        assert "`model@2`" in refused("is not a revision", Reference.parse, f"model@{pin}").hint


def test_file_names_have_a_suffix_and_no_folder():
    assert all(map(is_file_name, ("spec.yaml", "README.md", "vocabulary.source.model")))
    assert not any(map(is_file_name, ("a/b.c", "../x.y", ".x", "x", "x.y ", "x" * 99 + ".y")))


@pytest.fixture
def revision(summary):
    files = {"manifest.json": ManifestEntry(ONE, 10), "weights.safetensors": ManifestEntry(TWO, 90)}
    return Revision(name="model", revision=3, digest=ONE, files=files, summary=summary)


def test_a_revision_is_read_as_it_was_written_and_unknown_fields_are_ignored(revision):
    assert parse_record(Revision, revision.model_dump_json().encode(), "x") == revision
    assert (revision.bytes, revision.pin, revision.entry.bytes) == (100, "model@3", 100)
    values = json.loads(revision.model_dump_json())
    values["licence"], values["summary"]["speed"] = "CC0", 3
    assert parse_record(Revision, json.dumps(values).encode(), "x") == revision


def test_invalid_values_and_texts_that_are_not_json_objects_are_refused(revision):
    manifest = {"sha256": ONE, "bytes": 1}
    files = [
        *({}, None, {"spec.yaml": manifest, "x.y": manifest}),
        *({"manifest.json": manifest, name: {"sha256": TWO, "bytes": 1}} for name in ("../x.y", "a/b.c", ".x")),
        {"manifest.json": manifest, "x.y": {"sha256": f"../{TWO[3:]}", "bytes": 1}},
        {"manifest.json": manifest, "x.y": {"sha256": TWO, "bytes": -1}},
    ]
    for field, value in [
        *(("format", 2), ("name", "../x"), ("name", 3), ("revision", 0), ("revision", "1"), ("revision", True)),
        *(("digest", TWO), ("digest", "x"), ("summary", {}), *(("files", value) for value in files)),
    ]:
        values = {**json.loads(revision.model_dump_json()), field: value}
        refused("`x` is damaged", parse_record, Revision, json.dumps(values).encode(), "x")
    for content in (b"", b"[]", b"null", b"<html>", b"\xff", b"[" * 100_000, b'{"name": NaN}'):
        refused("`x` is damaged", parse_record, Revision, content, "x")
