"""Any input gives a spec or one readable error, and input that is too large is refused quickly."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specs
from specs import Spec, ZooError
from specs.loader import load, parse
from specs.reader import read
from tests.refusals import refused
from tests.specs.files import refusal

CHARACTERS = st.text(st.sampled_from(list(" :-[]{}&*!\n#'\"\\abx01.,?|>%@`~<=\t\r\x00é\u2028")), max_size=40)
KEYS = ["architecture", "training", "corpus", "name", "extends", "h", "steps", "train", "dev", "source", "grammar", "x"]
words = st.text(max_size=5) | st.sampled_from(["en", "1e-9"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)


values = st.recursive(scalars, containers, max_leaves=12)


def check(load: Callable[[], Spec]) -> None:
    """Check that the result is a ZooError, or a spec that can be written and read."""
    try:
        spec = load()
    except ZooError:
        return
    assert parse(spec.yaml(), "file") == spec


@given(st.one_of(CHARACTERS, st.text(max_size=40)))
def test_any_text(text: str) -> None:
    with suppress(ZooError):
        assert isinstance(read(text, "file").value, dict)
    check(lambda: parse(text, "file"))
    check(lambda: load(text[:30]))


@given(st.binary(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"extends: base\n" + content)
    check(lambda: load(path))


@given(st.one_of(CHARACTERS, st.builds("{}.{}={}".format, st.sampled_from(KEYS), st.sampled_from(KEYS), CHARACTERS)))
def test_any_override(text: str) -> None:
    check(lambda: load("tiny", [text]))


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
def test_any_value(overrides: dict[str, Any]) -> None:
    check(lambda: load("tiny", overrides))


Schema = dict[str, Any]
Kinds = dict[str, str]
"""Overrides with which a spec has a value, such as `{"task.kind": "recognition"}`."""

Leaf = tuple[str, Schema, Kinds]


def leaves(schema: Schema, whole: Schema, path: str = "", kinds: Kinds | None = None) -> Iterator[Leaf]:
    """Yield the path, the schema and the kinds of the sections around every value in a JSON Schema."""
    kinds = kinds or {}
    if "$ref" in schema:
        yield from leaves(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, path, kinds)
        return
    for member in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from leaves(member, whole, path, kinds)
    if kind := schema.get("properties", {}).get("kind", {}).get("const"):
        kinds = {**kinds, f"{path}.kind": kind}
    for key, inner in schema.get("properties", {}).items():
        yield from leaves(inner, whole, f"{path}.{key}" if path else key, kinds)
    if "items" in schema:
        yield from leaves(schema["items"], whole, f"{path}[]", kinds)
    yield path, schema, kinds


LEAVES = list(leaves(specs.Spec.model_json_schema(), specs.Spec.model_json_schema()))
NUMBERS = {path: kinds for path, schema, kinds in LEAVES if schema.get("type") in ("integer", "number")}


def test_every_number_list_and_text_has_bounds() -> None:
    assert len(NUMBERS) > 40
    for path, schema, _ in LEAVES:
        if schema.get("type") in ("integer", "number"):
            assert schema.keys() & {"minimum", "exclusiveMinimum"}, path
            assert schema.keys() & {"maximum", "exclusiveMaximum"}, path
        if schema.get("type") == "array":
            assert schema["maxItems"] <= 1_000, path
        if schema.get("type") == "string" and not schema.keys() & {"enum", "const"} and not path.endswith("sha256"):
            assert schema["maxLength"] <= 10_000, path


@pytest.mark.parametrize("number", [10**300, -(10**300), "9" * 5000, "1e300", "1e999"])
def test_numbers_beyond_every_model_are_refused(number: object) -> None:
    for path, kinds in NUMBERS.items():
        if "[]" in path:
            continue
        depths = {"architecture.N.encoder": 1, "architecture.N.decoder": 1}
        overrides: dict[str, Any] = {**(depths if path in depths else kinds), path: number}
        as_text = [f"{key}={value}" for key, value in overrides.items()]
        error = refusal("tiny", as_text if isinstance(number, str) else overrides)
        assert f"`{path}` must be" in str(error)
        assert len(error.summary) < 500
        assert error.hint
    for part in ({"grammar": 10**300}, {"grammar": 5, "weight": 1e6}, {"held_out": 10**300}):
        corpus = {f"corpus.{'dev' if 'held_out' in part else 'train'}": [part]}
        assert "must be at most" in str(refusal("tiny", corpus))


def test_overrides_that_are_nested_too_deeply() -> None:
    for text in (".".join("a" * 3000) + "=1", "." * 3000 + "=1", "architecture." * 900 + "h=1"):
        assert "is not a field of this spec" in str(refusal("tiny", [text]))
    endless: dict[str, Any] = {}
    endless["a"] = endless
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    for value in (endless, {"corpus.train": nested}):
        refused("nested too deeply|is not a field", load, "tiny", value)


BILLION_LAUGHS = "extends: base\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("extends: base\n" + "#" * 1_000_000, "too large for a spec"),
        ("extends: base\ndescription: " + "x" * 900_000, "string should have at most 10000 characters"),
        ("extends: base\na: [" + "1," * 20_001 + "]", "more than 20,000 values"),
        ("[" * 900_000, "nested too deeply"),
        ("{a: " * 200_000, "nested too deeply"),
        (BILLION_LAUGHS, "more than 20,000 values"),
    ],
    ids=["bytes", "text", "values", "lists", "mappings", "aliases"],
)
def test_files_that_are_too_large(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    refused(problem, load, path)
    if problem.startswith(("more", "nested")):  # also in the complete spec of a hostile run
        refused(problem, parse, content, "runs/x/spec.yaml")
