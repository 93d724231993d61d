"""Words and constructions that the project has retired do not come back. CONTRIBUTING.md says what to write instead."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from tests.paths import ROOT

RETIRED = {
    r"told": "described, printed, reported",
    r"(?<!\)\.)pieces?(?! of (code|text|music|paper))": "token, tokens",
    r"barred": "suppressed",
    r"likeliest": "top k, most probable",
    r"shelf|shelve[ds]?": "local model store",
    r"memory_attention": "cross_attention",
    r"Beside\(": "Concat",
    r"Surroundings": "LayerContext",
    r"Lister": "NativeCodeGenerator",
    r"outlook": "estimate",
    r"footprint": "memory_estimate",
    r"BEND|Curve": "activation",
    r"dresses|over_positions": "say what it does",
    r"whoever|therefrom|whereof|anew|hitherto|henceforth": "a plain connector, or nothing",
    r"nobody's|anybody's|is none of|what is none|that is none|of it alone|is already there": "a positive sentence",
    r"both ways": "bidirectional, in both directions",
    r"mended": "fixed, repaired",
    r"to the same bits": "bitwise identical",
    r"zoo/door|zoo\.door": "zoo.entry_point",
    r"[Ll]edger|\w*Evidence|Finding": "say what it is",
    r"also if|also those|from which on": "even if, including, a verb",
    r"equally many|most probably follow": "the same number of, most probable next",
}
"""Regular expressions of retired words, and what replaces them."""
EXCEPTIONS = {
    "tests/test_words.py": "lists the words",
    "zoo/data/training_set.py": "the name of a random stream: another one would sample other tokens",
}
SOURCES = ("*.py", "*.md", "*.yaml", "*.cpp", "*.hpp", "*.h", "*.js", "*.toml", ".ci/run")
DOCSTRING_START = re.compile(r'"""(Of|What|Who|Whoever|Where|That which|Those|Nothing|Else) ')


def _lines() -> Iterator[tuple[str, str]]:
    """Yield all lines of the sources with their places."""
    listed = subprocess.run(["git", "ls-files", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=False)
    files = [ROOT / name for name in listed.stdout.split()]
    if not files:  # an unpacked source distribution is no git repository
        files = [path for pattern in SOURCES for path in ROOT.rglob(pattern) if ".venv" not in path.parts]
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and name not in EXCEPTIONS:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield f"{name}:{number}", line


def test_no_retired_word_is_used() -> None:
    patterns = {re.compile(rf"\b(?:{words})(?!\w)"): instead for words, instead in RETIRED.items()}
    any_pattern = re.compile(rf"\b(?:{'|'.join(RETIRED)})(?!\w)")  # many times faster than each pattern on each line
    found = [
        f"{place}: `{match[0]}`, write {instead}"
        for place, line in _lines()
        if any_pattern.search(line)
        for pattern, instead in patterns.items()
        if (match := pattern.search(line))
    ]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_what_the_thing_is_or_does() -> None:
    found = [f"{place}: {line.strip()[:80]}" for place, line in _lines() if DOCSTRING_START.search(line)]
    assert not found, "\n".join(found)
