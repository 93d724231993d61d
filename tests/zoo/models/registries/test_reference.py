"""`NAME`, `NAME@2`, `NAME@sha256:...`."""

import pytest

from specs import ZooError
from zoo.models.registries.revision import Reference, parse_reference

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("transformer-big-ende", Reference("transformer-big-ende")),
        ("a,b_1.2@1", Reference("a,b_1.2", revision=1)),
        ("a@120", Reference("a", revision=120)),
        (f"a@sha256:{DIGEST}", Reference("a", digest=DIGEST)),
    ],
)
def test_a_reference_is_read_and_written(text, wanted):
    assert parse_reference(text) == wanted
    assert str(wanted) == text
    assert wanted.pinned is ("@" in text)


@pytest.mark.parametrize("text", ["", "../x", "a/b", "runs/tiny@2", "@2", ".a", "a b", "a..b@1", "x" * 101])
def test_what_is_no_name_is_no_reference(text):
    assert parse_reference(text) is None


@pytest.mark.parametrize(
    "pin",
    ["", "0", "-1", "02", "1.0", "two", "1@2", "1" * 10, "sha256:", "sha256:abc", f"sha256:{DIGEST.upper()}", DIGEST],
)
def test_a_pin_that_is_none_is_refused(pin):
    with pytest.raises(ZooError, match="pins no revision") as told:
        parse_reference(f"model@{pin}")
    assert "`model@2`" in str(told.value.hint)
