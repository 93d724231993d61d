"""Whatever is handed in as a spec, the answer is a spec or one readable error."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specs import Spec, ZooError
from specs.loader import load, parse
from specs.reader import read

SIGNS = st.text(st.sampled_from(list(" :-[]{}&*!\n#'\"\\abx01.,?|>%@`~<=\t\r\x00é\u2028")), max_size=40)
KEYS = ["architecture", "training", "corpus", "name", "extends", "h", "steps", "train", "dev", "source", "grammar", "x"]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["en", "1e-9"])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=12,
)


def answered(load: Callable[[], Spec]) -> None:
    """With an error, or with a spec, which can be written down and read again."""
    try:
        spec = load()
    except ZooError:
        return
    assert parse(spec.yaml(), "file") == spec


@given(st.one_of(SIGNS, st.text(max_size=40)))
def test_any_text(text: str) -> None:
    with suppress(ZooError):
        assert isinstance(read(text, "file").value, dict)
    answered(lambda: parse(text, "file"))


@given(st.binary(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"extends: base\n" + content)
    answered(lambda: load(path))


@given(st.one_of(SIGNS, st.builds("{}.{}={}".format, st.sampled_from(KEYS), st.sampled_from(KEYS), SIGNS)))
def test_any_override(text: str) -> None:
    answered(lambda: load("tiny", [text]))


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
def test_any_value(overrides: dict[str, Any]) -> None:
    answered(lambda: load("tiny", overrides))


@given(st.text(max_size=30))
def test_any_reference(reference: str) -> None:
    answered(lambda: load(reference))


@pytest.mark.parametrize(
    "name", ["../tiny", "..", "/", "specs/../tiny", "table3/../tiny", "./.././specs/tiny", "~", "\0"]
)
def test_no_name_leads_out_of_the_catalogue(name: str) -> None:
    with pytest.raises(ZooError, match="there is no spec"):
        load(name)
