"""Every field has bounds, and what is beyond them, or too much to read, is told in no time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import specs
from specs.loader import load, parse

HUGE = 10**300


def leaves(schema: dict[str, Any], whole: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of a value in a JSON Schema, by the way to it."""
    if "$ref" in schema:
        yield from leaves(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, path)
        return
    for member in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from leaves(member, whole, path)
    for key, inner in schema.get("properties", {}).items():
        yield from leaves(inner, whole, f"{path}.{key}" if path else key)
    if "items" in schema:
        yield from leaves(schema["items"], whole, f"{path}[]")
    yield path, schema


PLACES = list(leaves(specs.Spec.model_json_schema(), specs.Spec.model_json_schema()))
NUMBERS = sorted({path for path, schema in PLACES if schema.get("type") in ("integer", "number")})


def test_every_number_list_and_text_has_bounds() -> None:
    assert len(NUMBERS) > 40
    for path, schema in PLACES:
        if schema.get("type") in ("integer", "number"):
            assert schema.keys() & {"minimum", "exclusiveMinimum"}, path
            assert schema.keys() & {"maximum", "exclusiveMaximum"}, path
        if schema.get("type") == "array":
            assert schema["maxItems"] <= 1_000, path
        if schema.get("type") == "string" and not schema.keys() & {"enum", "const"} and not path.endswith("sha256"):
            assert schema["maxLength"] <= 10_000, path


@pytest.mark.parametrize("path", [path for path in NUMBERS if "[]" not in path])
@pytest.mark.parametrize("number", [HUGE, -HUGE, 10**400, 2**62, 1e300, "9" * 300, "9" * 5000, "1e300", "1e999"])
def test_a_number_that_no_model_could_have_is_refused_with_its_bound(path: str, number: object) -> None:
    if path == "training.seed" and number == 2**62:
        return
    given: Any = {path: number} if not isinstance(number, str) else [f"{path}={number}"]
    if path.startswith("architecture.N."):
        given = {"architecture.N": {"encoder": 1, "decoder": 1, path.rpartition(".")[2]: number}}
    with pytest.raises(specs.ZooError) as error:
        load("tiny", given)
    assert f"`{path}` must be" in str(error.value)
    assert len(error.value.summary) < 500
    assert error.value.hint


@pytest.mark.parametrize("part", [{"grammar": HUGE}, {"grammar": 5, "weight": 1e6}, {"held_out": HUGE}])
def test_parts_have_bounds(part: dict[str, object]) -> None:
    split = "dev" if "held_out" in part else "train"
    with pytest.raises(specs.ZooError, match="must be at most"):
        load("tiny", {f"corpus.{split}": [part]})


@pytest.mark.parametrize("path", NUMBERS)
def test_what_is_shipped_is_far_within(path: str) -> None:
    """A bound is no judgement of taste: the largest of the paper's models are nowhere near one."""
    if "[]" in path or path.startswith("architecture.N."):
        return
    section, name = path.split(".")
    most = max(schema.get("maximum", 0) for place, schema in PLACES if place == path)
    for shipped in specs.names():
        value = getattr(getattr(load(shipped), section), name)
        if isinstance(value, int) and not isinstance(value, bool) and most:
            assert 5 * value <= most


@pytest.mark.parametrize(
    "address",
    [
        "http://[::1",
        "http://x:99999999/a",
        "http:///a",
        "http://a..b/c",
        "https://:80",
        "http://a\x01b/c",
        "file://[/a",
    ],
)
def test_an_address_that_is_none(address: str) -> None:
    part = {"archive": address, "sha256": None, "source": "a", "target": "b"}
    with pytest.raises(specs.ZooError, match="cannot be") as error:
        load("tiny", {"corpus.train": [part]})
    assert "http://" in str(error.value.hint)


@pytest.mark.parametrize("text", [".".join("a" * 3000) + "=1", "." * 3000 + "=1", "architecture." * 900 + "h=1"])
def test_an_override_of_very_many_dots(text: str) -> None:
    with pytest.raises(specs.ZooError, match="is not a field of this spec"):
        load("tiny", [text])


def test_values_of_python_that_never_end() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    for given in (endless, {"corpus.train": nested}):
        with pytest.raises(specs.ZooError, match=r"nested too deeply|is not a field"):
            load("tiny", given)


LAUGHS = "extends: base\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("extends: base\n" + "#" * 10_000_000, "has more than 1,000,000 bytes"),
        ("extends: base\ndescription: " + "x" * 900_000, "`description` is longer than 10,000 characters"),
        ("extends: base\na: [" + "1, " * 300_000 + "]", "more than 20,000 values"),
        ("[" * 900_000, "nested too deeply"),
        ("- " * 400_000, "nested too deeply"),
        ("{a: " * 200_000, "nested too deeply"),
        (LAUGHS, "more than 20,000 values"),
    ],
)
def test_a_file_that_is_too_much_to_read(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(specs.ZooError, match=problem):
        load(path)
    if problem.startswith(("more", "nested")):  # as a hostile `runs/x/spec.yaml`
        with pytest.raises(specs.ZooError, match=problem):
            parse(content, "runs/x/spec.yaml")
