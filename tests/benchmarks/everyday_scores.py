"""Score an English-German model in both directions, also by length, and print random and bad translations.

    python -m tests.benchmarks.everyday_scores MODEL NAME=FILE.en,FILE.de ...

The first set is also scored by length, and in variants: without final full stops, and with sources in lower case.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import zoo
from tests.benchmarks.everyday_data import bare
from zoo.evaluation.text_metrics import text_metric
from zoo.generation.translator import Translator

LENGTHS = ((1, 5), (6, 8), (9, 12), (13, 20), (21, 1000))
"""Ranges of source lengths, in words."""
RANDOM_OUTPUTS, BAD_OUTPUTS = 20, 5


def scores(outputs: Sequence[str], references: Sequence[str], language: str) -> str:
    """Return the BLEU and chrF of outputs, and their number, as the cells of a table."""
    values = [text_metric(name, language).score(list(outputs), list(references)) for name in ("bleu", "chrf")]
    return f"{values[0]:5.1f} | {values[1]:5.1f} | {len(outputs):,}"


def print_direction(model: Translator, name: str, texts: tuple[list[str], list[str]], languages: str) -> None:
    """Print the scores of one direction. `languages` is `en-de` or `de-en`."""
    source, target = languages.split("-")
    sources, references = texts

    def translate(lines: list[str]) -> list[str]:
        return list(model.translate(lines, source=source, target=target))

    outputs = translate(sources)
    print(f"{name} {languages} | {scores(outputs, references, target)}")
    if name != FIRST:
        return
    for shortest, longest in LENGTHS:
        rows = [row for row, line in enumerate(sources) if shortest <= len(line.split()) <= longest]
        if rows:
            chosen = ([texts[row] for row in rows] for texts in (outputs, references))
            print(f"{shortest} to {longest} words | {scores(*chosen, target)}")
    unpunctuated = [bare(line) for line in references]
    print(f"without full stop | {scores(translate([bare(line) for line in sources]), unpunctuated, target)}")
    print(f"in lower case | {scores(translate([bare(line).lower() for line in sources]), unpunctuated, target)}")
    metric = text_metric("chrf", target)
    by_score = sorted(range(len(outputs)), key=lambda row: metric.score([outputs[row]], [references[row]]))
    drawn = random.Random(1).sample(range(len(outputs)), min(RANDOM_OUTPUTS, len(outputs)))
    for title, rows in (("random", drawn), ("worst chrF", by_score[:BAD_OUTPUTS])):
        print(f"\n{title}:")
        for row in rows:
            print(f"  {sources[row]}\n    output     {outputs[row]}\n    reference  {references[row]}")
    print()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    translator = zoo.load(sys.argv[1])
    FIRST = sys.argv[2].partition("=")[0]
    print("set | BLEU | chrF | sentences")
    for argument in sys.argv[2:]:
        name, _, files = argument.partition("=")
        english, german = (Path(file).read_text("utf-8").splitlines() for file in files.split(","))
        print_direction(translator, name, (english, german), "en-de")
        print_direction(translator, name, (german, english), "de-en")
