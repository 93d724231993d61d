"""Written specs state their format, and newer formats are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import specs
import zoo
from specs import ZooError, file_format
from tests.refusals import refused
from zoo.training.run import Run


def test_written_specs_state_their_format() -> None:
    spec = specs.load("tiny")
    assert spec.yaml().startswith(f"format: {file_format.FORMAT}\nname: ")
    assert spec.yaml("0.1.0").startswith(f"# written by zoo 0.1.0\nformat: {file_format.FORMAT}\nname: ")
    assert specs.parse(spec.yaml("0.1.0"), "spec.yaml") == spec
    refused(r"`training\.patience` is missing", specs.parse, spec.yaml().replace("  patience: null\n", ""), "spec.yaml")


def test_removed_fields_are_ignored_only_in_files_that_zoo_wrote() -> None:
    spec = specs.load("tiny")
    for section, name in (("training", "max_minutes"), ("compilation", "vocabulary_multiple")):
        text = spec.yaml("0.1.0").replace(f"\n{section}:\n", f"\n{section}:\n  {name}: 8\n")
        assert specs.parse(text, "spec.yaml") == spec
        refused(f"`{section}.{name}` is not a field", specs.parse, text.partition("\n")[2], "spec.yaml")


def with_format(text: str, number: object) -> str:
    return text.replace(f"format: {file_format.FORMAT}\n", f"format: {number}\n")


NEWER = [(None, "a newer version of zoo", 1), ("9.9.9", "zoo 9.9.9", 2)]


@pytest.mark.parametrize(("version", "author", "line"), NEWER)
def test_newer_formats_are_refused(version: str | None, author: str, line: int) -> None:
    text = with_format(specs.load("tiny").yaml(version), f"{file_format.FORMAT + 1}\nunknown: field")
    file = Path("spec.yaml")
    file.write_text(text, encoding="utf-8")
    for read in (lambda: specs.parse(text, str(file)), lambda: specs.load(file)):
        with pytest.raises(file_format.NewerFormatError) as error:
            read()
        assert error.value.problem.startswith(f"{author} wrote this file in format {file_format.FORMAT + 1}")
        assert error.value.where == f"spec.yaml:{line}"
        assert (error.value.hint, error.value.exit_code) == ("install a newer version of zoo", 2)


def test_a_run_of_a_newer_format_is_neither_loaded_nor_trained(trained: Callable[..., Run]) -> None:
    run = trained("run")
    spec = specs.load("run/spec.yaml")
    run.spec_file.write_text(with_format(spec.yaml(), 99), encoding="utf-8")
    for use in (lambda: zoo.load("run"), lambda: zoo.train(spec, run="run", device="cpu")):
        refused("a newer version of zoo wrote this file in format 99", use)


@pytest.mark.parametrize("number", ["two", "0", "null", "true", "2.0", "[2]", "-1"])
def test_invalid_formats_are_refused(number: str) -> None:
    with pytest.raises(ZooError, match=r"^`format` must be a positive whole number, not .* \(run/spec.yaml:1\)"):
        specs.parse(with_format(specs.load("tiny").yaml(), number), "run/spec.yaml")
