"""`python -m hostile KIND SEED` runs one case; `python -m hostile KIND FROM TO` runs a range. KIND may be `all`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hostile.judge import Case
from hostile.runner import KINDS, run_cases


def main(kind: str, first: int, last: int) -> int:
    """Run the cases, print the failures and the slowest cases, and return 1 if any failed."""
    cases = [Case(each, seed) for seed in range(first, last) for each in (KINDS if kind == "all" else (kind,))]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_cases(cases, Path(folder))
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"{outcome.summary}\n{outcome.failure}\n", flush=True)
    for outcome in sorted(outcomes, key=lambda each: -each.seconds)[:10]:
        print(f"{outcome.seconds:6.2f} s: {outcome.case}")
    print(f"{len(failed)} of {len(cases)} failed; {sum(each.seconds for each in outcomes):.1f} s")
    return bool(failed)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:]]
    sys.exit(main(sys.argv[1], numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1))
