"""The judge sees what a case must not do."""

from pathlib import Path

import pytest

from hostile.case import Case
from hostile.court import verdicts

_SEEN = {
    "a traceback": "traceback: KeyError: 'x'",
    "a wrong result": "wrong: two and two is five",
    "an error that says nothing": "wrong: an error without a problem",
    "a fault of zoo": "wrong: error: this is a fault of zoo: TypeError: ",
    "a file outside": "Escaped: open of ",
    "a rename to outside": "Escaped: os.rename of ",
    "a file outside, by another program": "wrong: written outside its folder",
    "more memory than there may be": "traceback: MemoryError: Unable to allocate",
    "more memory than is allowed": "it took ",
    "a crash": "it ended the process (-6)",
}
"""What the verdicts begin with."""
_SLOW = {"a sleep": "TooLong: it takes more than 10 s", "a hang": "it hangs"}


def _check(seen: dict[str, str], first: int, folder: Path) -> None:
    found = verdicts([Case("faults", first + number) for number in range(len(seen))], folder, workers=1)
    told = {name: str(verdict.failure).splitlines()[0] for name, verdict in zip(seen, found, strict=True)}
    assert {name: each[: len(seen[name])] for name, each in told.items()} == seen, told


def test_faults_are_seen(tmp_path: Path) -> None:
    _check(_SEEN, 0, tmp_path)


@pytest.mark.slow
def test_hangs_are_seen(tmp_path: Path) -> None:
    _check(_SLOW, len(_SEEN), tmp_path)
