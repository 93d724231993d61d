"""`python -m hostile KIND SEED`: one case again, with its traceback; `python -m hostile KIND FROM TO`: several."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hostile.case import KINDS, Case
from hostile.court import verdicts


def main(kind: str, first: int, last: int) -> int:
    """Tells of each that fails, and returns 1 where there is one."""
    cases = [Case(each, seed) for seed in range(first, last) for each in (KINDS if kind == "all" else (kind,))]
    with tempfile.TemporaryDirectory() as folder:
        found = verdicts(cases, Path(folder))
    failed = [verdict for verdict in found if verdict.failure]
    for verdict in failed:
        print(f"{verdict.summary}\n{verdict.failure}\n", flush=True)
    for verdict in sorted(found, key=lambda each: -each.seconds)[:10]:
        print(f"{verdict.seconds:6.2f} s: {verdict.case}")
    print(f"{len(failed)} of {len(cases)} fail; {sum(each.seconds for each in found):.1f} s")
    return bool(failed)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:]]
    sys.exit(main(sys.argv[1], numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1))
