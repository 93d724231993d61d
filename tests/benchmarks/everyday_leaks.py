"""Count the test sentences that occur in the training files of a spec, in any language.

    python -m tests.benchmarks.everyday_leaks SPEC FOLDER TEST_FILE ...

FOLDER contains the corpus files of the spec. The script examines each TEST_FILE and the spec's dev and test files. For
each file, it prints how many sentences are equal to a training line, how many are equal if case, spaces and punctuation
are ignored, and how many are contained in a training line. Only sentences of at least PART letters and digits are
searched inside other lines. The script shares no code with `everyday_data.py`, which prepares the files.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import specs
from specs import Files
from specs.corpus import Part

PART = 25


def squeezed(line: str) -> str:
    """Return the letters and digits of a line, in lower case."""
    return "".join(character for character in line.casefold() if character.isalnum())


def files_of(parts: Iterable[Part]) -> set[str]:
    """Return the names of all text files in parts of a corpus."""
    files = [part for part in parts if isinstance(part, Files)]
    return {name for part in files for name in (part.source, part.target) if name is not None}


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    spec, folder = specs.load(sys.argv[1]), Path(sys.argv[2])
    names = files_of(spec.corpus.train)
    training = {line for name in names for line in (folder / name).read_text("utf-8").split("\n")}
    short = {squeezed(line) for line in training} - {""}
    tests = {folder / name for name in files_of([*spec.corpus.dev, *spec.corpus.test])}
    paths = [*map(Path, sys.argv[3:]), *sorted(tests)]
    texts = {path: set(path.read_text("utf-8").split("\n")) - {""} for path in paths}
    found = contained(short, {squeezed(line) for lines in texts.values() for line in lines})
    print(f"{len(names)} training files, {len(training):,} different lines\n")
    print("file | sentences | equal | equal letters and digits | part of a line")
    for path, lines in texts.items():
        own = {squeezed(line) for line in lines}
        print(f"{path} | {len(lines):,} | {len(lines & training)} | {len(own & short)} | {len(own & found)}")


def contained(lines: Iterable[str], sentences: Iterable[str]) -> set[str]:
    """Return the sentences of at least PART characters that are contained in a line."""
    by_start: dict[str, set[str]] = defaultdict(set)
    for sentence in sentences:
        if len(sentence) >= PART:
            by_start[sentence[:PART]].add(sentence)
    found: set[str] = set()
    for line in lines:
        for start in range(len(line) - PART + 1):
            if (beginning := line[start : start + PART]) in by_start:
                found.update(each for each in by_start[beginning] if line.startswith(each, start))
    return found


if __name__ == "__main__":
    main()
