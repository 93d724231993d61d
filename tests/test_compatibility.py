"""Written specs state their format, and newer formats are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specs
import zoo
from specs import ZooError, file_format
from zoo.training.run import Run


def test_written_specs_state_their_format() -> None:
    spec = specs.load("tiny")
    assert spec.yaml().startswith(f"format: {file_format.FORMAT}\nname: ")
    assert spec.yaml("0.1.0").startswith(f"# written by zoo 0.1.0\nformat: {file_format.FORMAT}\nname: ")
    with pytest.raises(ZooError, match=r"`training\.patience` is missing"):
        specs.parse(spec.yaml().replace("  patience: null\n", ""), "spec.yaml")


@pytest.mark.parametrize("version", [None, "9.9.9"])
def test_newer_formats_are_refused(version: str | None) -> None:
    newer = file_format.FORMAT + 1
    text = specs.load("tiny").yaml(version)
    text = text.replace(f"format: {file_format.FORMAT}\n", f"format: {newer}\nunknown: field\n")
    file = Path("spec.yaml")
    file.write_text(text, encoding="utf-8")
    author = "a newer version of zoo" if version is None else f"zoo {version}"
    for read in (lambda: specs.parse(text, str(file)), lambda: specs.load(file)):
        with pytest.raises(file_format.NewerFormatError) as error:
            read()
        assert error.value.problem.startswith(f"{author} wrote this file in format {newer}")
        assert error.value.where == f"spec.yaml:{1 if version is None else 2}"
        assert (error.value.hint, error.value.exit_code) == ("install a newer version of zoo", 2)


def test_a_run_of_a_newer_format_is_neither_loaded_nor_trained(trained: Callable[..., Run]) -> None:
    run = trained("run")
    spec = specs.load("run/spec.yaml")
    run.spec_file.write_text(spec.yaml().replace(f"format: {file_format.FORMAT}\n", "format: 99\n"), encoding="utf-8")
    for use in (lambda: zoo.load("run"), lambda: zoo.train(spec, run="run", device="cpu")):
        with pytest.raises(ZooError, match="a newer version of zoo wrote this file in format 99"):
            use()


@pytest.mark.parametrize("number", ["two", "0", "null", "true", "2.0", "[2]", "-1"])
def test_invalid_formats_are_refused(number: str) -> None:
    text = specs.load("tiny").yaml().replace(f"format: {file_format.FORMAT}\n", f"format: {number}\n")
    with pytest.raises(ZooError, match=r"^`format` must be a positive whole number, not .* \(run/spec.yaml:1\)"):
        specs.parse(text, "run/spec.yaml")


layers = st.integers(1, 128)
overrides = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        "architecture.N": st.one_of(layers, st.fixed_dictionaries({"encoder": layers, "decoder": layers})),
        "architecture.encoder": st.permutations(["self_attention", "feed_forward"]).map(
            lambda kinds: [{"kind": kind} for kind in kinds]
        ),
        "architecture.norm.epsilon": st.floats(min_value=1e-30, max_value=1.0),
        "training.dev_score": st.sampled_from(["perplexity", "bleu", None]),
        "training.start_from": st.one_of(st.none(), st.from_regex(r"[-+.0-9eE_:xo]{1,12}", fullmatch=True)),
        "training.seed": st.integers(0, 2**63 - 1),
        "decoding.workers": st.one_of(st.just("auto"), st.integers(1, 1024)),
        "compilation.disabled_passes": st.lists(st.text("abc_", min_size=1), max_size=3),
    },
)


@settings(max_examples=30)
@given(overrides, st.sampled_from([None, "0.1.0", "12.0.1rc1"]))
def test_written_specs_parse_to_the_same_spec(changes: dict[str, Any], version: str | None) -> None:
    spec = specs.load("tiny", changes)
    again = specs.parse(spec.yaml(version), "spec.yaml")
    assert again == spec
    assert again.yaml(version) == spec.yaml(version)
