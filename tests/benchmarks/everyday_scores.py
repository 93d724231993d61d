"""Score an English-German model in both directions, also by length, and print random and bad translations.

    python -m tests.benchmarks.everyday_scores MODEL NAME=FILE.en,FILE.de ...

The first set is also scored by length, and in variants: without final full stops, with sources in lower case, and with
other names and numbers, whose copies are counted. For each set, the calibration error of the confidence is printed, and
how well the confidence and simpler numbers find the worst translations.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import zoo
from tests.benchmarks.everyday_data import bare, renamed
from zoo.evaluation.text_metrics import text_metric
from zoo.generation.confidence import GOOD_CHRF, UNCERTAIN, calibration_error
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator

LENGTHS = ((1, 5), (6, 8), (9, 12), (13, 20), (21, 1000))
"""Ranges of source lengths, in words."""
RANDOM_OUTPUTS, BAD_OUTPUTS = 20, 5
"""Numbers for each direction."""


def scores(outputs: Sequence[str], references: Sequence[str], language: str) -> str:
    """Return the BLEU and chrF of outputs, and their number, as the cells of a table."""
    values = [text_metric(name, language).score(list(outputs), list(references)) for name in ("bleu", "chrf")]
    return f"{values[0]:5.1f} | {values[1]:5.1f} | {len(outputs):,}"


def new_words(before: tuple[str, str], after: tuple[str, str]) -> set[str]:
    """Return the words that both sides of the pair `after` contain, and neither side of the pair `before`."""
    words = [set(re.findall(r"\w+", side)) for side in (*before, *after)]
    return (words[2] & words[3]) - words[0] - words[1]


def print_copies(texts: Sequence[tuple[str, str]], side: int, translate: Callable[[list[str]], list[str]]) -> None:
    """Print how many names and numbers are copied, if others replace those of English-German pairs.

    Args:
        texts: The pairs.
        side: Index of the source language.
        translate: Function that translates from this language.
    """
    generator = random.Random(1)
    changed = [(pair, renamed(pair, generator)) for pair in texts]
    words = [(pair[side], new_words(before, pair)) for before, pair in changed]
    words = [(source, new) for source, new in words if new]
    counts = {"names": [0, 0], "numbers": [0, 0]}
    for (_, new), output in zip(words, translate([source for source, _ in words]), strict=True):
        for word in new:
            count = counts["numbers" if word.isdigit() else "names"]
            count[0] += word in re.findall(r"\w+", output)
            count[1] += 1
    for kind, (copied, total) in counts.items():
        print(f"{kind} copied | {copied} of {total}")


def print_confidence(outputs: Sequence[Translation], references: Sequence[str]) -> None:
    """Print how well the confidence and simpler numbers find the tenth of the translations with the lowest chrF.

    Each line has the area under the ROC curve, and the share of the worst tenth that is among the tenth and the fifth
    with the lowest values.
    """
    metric, count = text_metric("chrf"), max(1, len(outputs) // 10)
    chrf = metric.scores(metric.statistics([each.text for each in outputs], references))
    is_worst = np.argsort(np.argsort(chrf, kind="stable")) < count
    rankings = {
        "mean log-probability": [each.log_probability / (len(each.tokens) + 1) for each in outputs],
        "length": [-len(each.tokens) for each in outputs],
    }
    confidences = [each.confidence for each in outputs if each.confidence is not None]
    if len(confidences) == len(outputs):
        rankings["confidence"] = confidences
        error, marked = calibration_error(confidences, chrf >= GOOD_CHRF), np.array(confidences) < UNCERTAIN
        print(f"calibration error | {error:.3f} | uncertain | {marked.mean():.1%}")
    for title, ranking in rankings.items():
        values = np.array(ranking)
        lowest = np.argsort(values, kind="stable")
        differences = values[is_worst][:, None] - values[~is_worst]
        area = ((differences < 0) + 0.5 * (differences == 0)).mean()
        found = " | ".join(f"{is_worst[lowest[: count * tenths]].sum() / count:.0%}" for tenths in (1, 2))
        print(f"worst tenth by {title} | {area:.3f} | {found}")


def print_direction(
    model: Translator, name: str, texts: tuple[list[str], list[str]], languages: str, *, detailed: bool
) -> None:
    """Print the scores of one direction. `languages` is `en-de` or `de-en`."""
    source, target = languages.split("-")
    sources, references = texts

    def translate(lines: list[str]) -> list[str]:
        return list(model.translate(lines, source=source, target=target, protect=False))

    hypotheses = model.hypotheses(sources, source=source, target=target, protect=False)
    outputs = [best.text for best, *_ in hypotheses]
    print(f"{name} {languages} | {scores(outputs, references, target)}")
    print_confidence([best for best, *_ in hypotheses], references)
    if not detailed:
        return
    for shortest, longest in LENGTHS:
        rows = [row for row, line in enumerate(sources) if shortest <= len(line.split()) <= longest]
        if rows:
            some = scores([outputs[row] for row in rows], [references[row] for row in rows], target)
            print(f"{shortest} to {longest} words | {some}")
    unpunctuated = [bare(line) for line in references]
    print(f"without full stop | {scores(translate([bare(line) for line in sources]), unpunctuated, target)}")
    print(f"in lower case | {scores(translate([bare(line).lower() for line in sources]), unpunctuated, target)}")
    english_first = texts if source == "en" else texts[::-1]
    print_copies(list(zip(*english_first, strict=True)), ("en", "de").index(source), translate)
    metric = text_metric("chrf", target)
    by_score = sorted(range(len(outputs)), key=lambda row: metric.score([outputs[row]], [references[row]]))
    drawn = random.Random(1).sample(range(len(outputs)), min(RANDOM_OUTPUTS, len(outputs)))
    for title, rows in (("random", drawn), ("worst chrF", by_score[:BAD_OUTPUTS])):
        print(f"\n{title}:")
        for row in rows:
            print(f"  {sources[row]}\n    output     {outputs[row]}\n    reference  {references[row]}")
    print()


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    translator = zoo.load(sys.argv[1])
    print("set | BLEU | chrF | sentences")
    for number, argument in enumerate(sys.argv[2:]):
        name, _, files = argument.partition("=")
        english, german = (Path(file).read_text("utf-8").splitlines() for file in files.split(","))
        print_direction(translator, name, (english, german), "en-de", detailed=not number)
        print_direction(translator, name, (german, english), "de-en", detailed=not number)


if __name__ == "__main__":
    main()
