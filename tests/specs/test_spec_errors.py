"""What a person is told about every mistake in a spec: the message, the place, the remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import specs
from specs.loader import load, parse

SNAPSHOTS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("spec_errors.yaml").read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(error: pytest.ExceptionInfo[specs.ZooError]) -> tuple[str, str | None]:
    assert error.value.exit_code == 2
    # Nothing of pydantic's own shows through, not even in a chained traceback.
    assert "pydantic" not in str(error.value).lower()
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return error.value.summary, error.value.hint


def cause(snapshot: dict[str, Any]) -> None:
    if "file" in snapshot:
        Path("mine.yaml").write_bytes(snapshot["file"].encode())
        load("mine.yaml")
    load(snapshot.get("reference", "tiny"), snapshot.get("overrides", ()))


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda each: str(each.get("mistake", next(iter(each.values())))))
def test_snapshot(snapshot: dict[str, Any]) -> None:
    with pytest.raises(specs.ZooError) as error:
        cause(snapshot)
    assert told(error) == (snapshot["error"], snapshot["hint"])
    assert [each.summary for each in error.value.additional] == snapshot.get("further", [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"extends: base\nname: \xff\n", "byte 0xff is not UTF-8 (mine.yaml:2)"),
        ("extends: base".encode("utf-16-le"), "a control character stands here (mine.yaml:1)"),
        ("extends: base".encode("utf-16"), "byte 0xff is not UTF-8 (mine.yaml:1)"),
        (b"[" * 5000, "the values are nested too deeply (mine.yaml:1)"),
        (b"extends: base\nname: " + b"a" * 101, "`name` is longer than 100 characters (mine.yaml:2)"),
        (
            b"extends: base\ntraining: {steps: " + b"9" * 5000 + b"}",
            f"`training.steps` must be a whole number, not `{'9' * 100}...` (mine.yaml:2)",
        ),
    ],
)
def test_what_no_snapshot_can_hold(content: bytes, message: str) -> None:
    Path("mine.yaml").write_bytes(content)
    with pytest.raises(specs.ZooError) as error:
        load("mine.yaml")
    assert told(error)[0] == message


def test_a_circle_is_named() -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        Path(f"{name}.yaml").write_text(f"name: {name}\nextends: {other}.yaml\n", encoding="utf-8")
    with pytest.raises(specs.ZooError) as error:
        load("a.yaml")
    circle = "a.yaml -> b.yaml -> c.yaml -> a.yaml"
    assert told(error) == (f"`extends` goes in a circle: {circle} (c.yaml:2)", "let one of them extend `base`")


def test_errors_of_parents_come_first_and_stand_where_they_were_written() -> None:
    Path("deep").mkdir()
    Path("deep/parent.yaml").write_text("extends: base\n\ntraining: {steps: x}\n", encoding="utf-8")
    Path("mine.yaml").write_text("extends: deep/parent.yaml\narchitecture: {h: x}\n", encoding="utf-8")
    with pytest.raises(specs.ZooError) as error:
        load("mine.yaml", ["decoding.beam=0"])
    message = "`training.steps` must be a whole number, not `x` (deep/parent.yaml:3)"
    assert told(error)[0] == message
    assert [each.summary for each in error.value.additional] == [
        "`architecture.h` must be a whole number, not `x` (mine.yaml:2)",
        "`decoding.beam` must be at least 1, not `0` (command line: `decoding.beam=0`)",
    ]
    assert all(each.hint for each in (error.value, *error.value.additional))


def test_a_rule_points_at_the_field_written_last() -> None:
    Path("parent.yaml").write_text("extends: base\nvocabulary: {shared: false}\n", encoding="utf-8")
    tied = "extends: parent.yaml\n\n\narchitecture: {tied_embeddings: all}\n"
    for text, where in (("extends: parent.yaml\n", "parent.yaml:2"), (tied, "mine.yaml:4")):
        Path("mine.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(specs.ZooError) as error:
            load("mine.yaml")
        assert error.value.where == where


def test_what_no_file_writes_is_missing_from_the_first() -> None:
    Path("root.yaml").write_text("name: x\n", encoding="utf-8")
    Path("mine.yaml").write_text("extends: root.yaml\ndescription: X.\n", encoding="utf-8")
    with pytest.raises(specs.ZooError) as error:
        load("mine.yaml")
    assert error.value.problem == "`task`, `architecture`, `vocabulary` and 4 more are missing"
    assert error.value.hint == "add `extends: base` to root.yaml, or write `task` here"


def test_a_resolved_spec_that_was_changed_is_the_worlds_fault() -> None:
    text = specs.load("tiny").yaml()
    for changed in (
        text.replace("  h: 4\n", "  h: x\n"),
        text.replace("  h: 4\n", ""),
        text[:100],
        "",
        "extends: base",
    ):
        with pytest.raises(specs.ZooError) as error:
            parse(changed, "run/spec.yaml")
        assert error.value.exit_code == 1
        assert str(error.value.where).startswith("run/spec.yaml")
        assert error.value.hint == "`zoo` wrote this file, with every field, and it has changed since: restore it"


def test_a_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.yaml").write_text("extends: base\n", encoding="utf-8")

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(specs.ZooError) as error:
        load("mine.yaml")
    assert (str(error.value), error.value.exit_code) == ("`mine.yaml` cannot be read: Permission denied", 1)


def test_a_file_with_a_name_of_dots() -> None:
    Path("...yaml").write_text("extends: base\n", encoding="utf-8")
    with pytest.raises(specs.ZooError) as error:
        load("...yaml")
    assert told(error) == ("`...yaml` is no name for a spec's file", "call it `mine.yaml`, for example")


def test_very_many_errors_are_counted() -> None:
    with pytest.raises(specs.ZooError) as error:
        load("tiny", {"compilation.disabled_passes": [1] * 60})
    assert len(error.value.additional) == 21
    assert error.value.additional[-1].summary == "there are 39 more"


@pytest.mark.parametrize(
    "text", ["a\x1b[31mb=1", "architecture={a\x1b]0;b: 1}", "name=\u202eb", "corpus.source=\udcff"]
)
def test_what_a_terminal_would_act_upon_is_written_out(text: str) -> None:
    with pytest.raises(specs.ZooError) as error:
        load("tiny", [text])
    for each in (error.value, *error.value.additional):
        assert f"{each.summary}{each.hint}".isprintable()


@pytest.mark.parametrize(
    ("written", "seen"),
    [("a\x1b[31m", "a\\x1b[31m"), ("\u202e\U000e0041", "\\u202e\\U000e0041"), ("ä 2\u2009m\n", "ä 2\u2009m\n")],
)
def test_every_error_is_printable(written: str, seen: str) -> None:
    error = specs.ZooError(written, where=written, hint=written)
    assert (error.problem, error.where, error.hint, error.summary) == (seen, seen, seen, f"{seen} ({seen})")


@pytest.mark.parametrize(
    ("word", "choices"),
    [("tensorflow", ["tensorrt", "eager"]), ("fp8", ["int8", "float32"]), ("nope", ["one", "name"])],
)
def test_what_is_not_near_is_not_offered(word: str, choices: list[str]) -> None:
    assert specs.nearest(word, choices) is None


def test_nearest() -> None:
    assert specs.nearest("warmup", ["beta1", "warmup_steps"]) == "warmup_steps"
    assert specs.nearest("d_modle", ["d_k", "d_model", "d_ff"]) == "d_model"
    assert specs.nearest("n", ["N", "h"]) == "N"
    assert specs.nearest("zzz", ["N", "h"]) is None


def test_an_error_in_the_one_grammar() -> None:
    error = specs.ZooError("`x` is not a number", where="mine.yaml:4", hint="write `1`", exit_code=1)
    assert str(error) == "`x` is not a number (mine.yaml:4)\n\nhint: write `1`"
    assert (error.problem, error.where, error.hint, error.exit_code) == (
        "`x` is not a number",
        "mine.yaml:4",
        "write `1`",
        1,
    )
    assert str(specs.ZooError("the disk is full")) == "the disk is full"


def test_the_text_of_an_error_has_the_further_ones() -> None:
    with pytest.raises(specs.ZooError) as error:
        load("tiny", {"training": {"stps": 3, "steps": "x"}, "vocabulary": {"size": -1}})
    assert all(name in str(error.value) for name in ("training.stps", "training.steps", "vocabulary.size"))
    assert str(error.value).count("hint: ") == 3
