"""Count the test sentences that occur in the training files of a spec, in any language.

    python -m tests.benchmarks.everyday_leaks SPEC FOLDER TEST_FILE ...

FOLDER contains the files of the spec. The sentences of its dev and test set are also searched. The script shares no
code with the one that prepares the files. It prints, for each test file, how many sentences are equal to a training
line, are equal ignoring case, spaces and punctuation, or are a part of a training line. Lengths of parts are at least
PART characters.
"""

from __future__ import annotations

import sys
from pathlib import Path

import specs

PART = 25


def squeezed(line: str) -> str:
    """Return the letters and digits of a line, in lower case."""
    return "".join(character for character in line.casefold() if character.isalnum())


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    spec, folder = specs.load(sys.argv[1]), Path(sys.argv[2])
    names = {name for part in spec.corpus.train for name in (part.source, part.target)}
    training = {line for name in names for line in (folder / name).read_text("utf-8").split("\n")}
    equal = {squeezed(line) for line in training} - {""}
    text = "\n".join(sorted(equal))
    tests = {folder / name for part in (*spec.corpus.dev, *spec.corpus.test) for name in (part.source, part.target)}
    print(f"{len(names)} training files, {len(training):,} different lines\n")
    print("file | sentences | equal | equal letters and digits | part of a line")
    for path in [*map(Path, sys.argv[3:]), *sorted(tests)]:
        lines = set(path.read_text("utf-8").split("\n")) - {""}
        short = {squeezed(line) for line in lines}
        parts = sum(each in text for each in short if len(each) >= PART)
        print(f"{path} | {len(lines):,} | {len(lines & training)} | {len(short & equal)} | {parts}", flush=True)


if __name__ == "__main__":
    main()
