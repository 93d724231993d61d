"""Score a multilingual translation model in all directions, and print random and bad translations.

    python -m tests.benchmarks.everyday_scores MODEL NAME=PREFIX ...

PREFIX stands for the test files `PREFIX.en`, `PREFIX.de` and so on, one for each language. The script translates them
in all directions between the languages of the model, and prints a table with one row per direction. A row contains:

- BLEU and chrF.
- BLEU of the sentences near the training text and of the sentences far from it. `far.PREFIX.LANGUAGE.txt` in the same
  folder contains the numbers of the far lines.
- BLEU by the number of words in the source.
- BLEU if final full stops are removed, and if the source is also in lower case.
- How many names are copied, after other names have replaced the names in the test set.
- In how many sentences all numbers, dates and links are kept.

The script prints random and bad translations to standard error, with the calibration error of the confidence. It also
prints there how well the confidence and simpler values predict the worst translations.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

import zoo
from tests.benchmarks.everyday_spans import with_other_numbers
from tests.benchmarks.everyday_variants import Pair, bare, renamed
from zoo.evaluation.text_metrics import text_metric
from zoo.generation.confidence import GOOD_CHRF, UNCERTAIN, calibration_error
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.text.spans import compare, find_spans

LENGTHS = ((1, 5), (6, 8), (9, 12), (13, 20), (21, 1000))
"""Ranges of source lengths, in words."""
RANDOM_OUTPUTS, BAD_OUTPUTS = 20, 5
"""Numbers of random and of bad translations that are printed for each direction."""
_RANGES = " ".join(f"{shortest}-{longest}" for shortest, longest in LENGTHS[:-1]) + f" {LENGTHS[-1][0]}+"
COLUMNS = f"set direction sentences BLEU chrF near far {_RANGES} no_full_stop lower_case names numbers".split()

Translate = Callable[[list[str]], list[str]]


def score(metric: str, pairs: Iterable[Pair], language: str) -> str:
    """Return the score of (output, reference) pairs as a table cell. The cell is empty if there are no pairs."""
    columns = list(zip(*pairs, strict=True))
    return f"{text_metric(metric, language).score(*map(list, columns)):.1f}" if columns else ""


def new_words(before: Pair, after: Pair) -> set[str]:
    """Return the words that are in both sentences of the pair `after`, but in neither sentence of the pair `before`."""
    words = [set(re.findall(r"\w+", side)) for side in (*before, *after)]
    return {word for word in (words[2] & words[3]) - words[0] - words[1] if not word.isdigit()}


def copied_names(texts: Sequence[Pair], languages: Sequence[str], translate: Translate) -> str:
    """Replace names in test pairs. Return how many of the new names the translations contain, such as "95/100"."""
    generator = random.Random(1)
    changed = [(pair, renamed(pair, languages, generator)) for pair in texts]
    names = [(pair[0], new) for before, pair in changed if (new := new_words(before, pair))]
    outputs = zip(translate([source for source, _ in names]), names, strict=True)
    found = [word in re.findall(r"\w+", output) for output, (_, new) in outputs for word in new]
    return f"{sum(found)}/{len(found)}"


def kept_numbers(texts: Sequence[Pair], languages: Sequence[str], translate: Translate) -> str:
    """Replace numbers in test pairs, and return in how many translations all numbers, dates and links are kept.

    The result is a fraction such as "95/100". Pairs are skipped if the reference does not keep the numbers, for example
    if the reference has "three" for "3".
    """
    generator = random.Random(1)
    changed = [with_other_numbers(pair, languages, generator) for pair in texts]
    changed = [pair for pair in changed if find_spans(pair[0], languages[0]) and is_kept(*pair, languages)]
    outputs = translate([source for source, _ in changed])
    kept = [is_kept(source, output, languages) for (source, _), output in zip(changed, outputs, strict=True)]
    return f"{sum(kept)}/{len(kept)}"


def is_kept(source: str, target: str, languages: Sequence[str]) -> bool:
    """Return whether a translation keeps all numbers, dates and links of its source, and adds no number."""
    differences = compare(source, target, *languages)
    return not differences.missing and not differences.added


def cells(texts: Sequence[Pair], outputs: Sequence[str], far: set[int] | None, language: str) -> list[str]:
    """Return the table cells of one direction, from the number of sentences to the scores by source length.

    Args:
        texts: The (source, reference) pairs of the test set.
        outputs: The translations of the sources.
        far: Numbers of the lines that are far from the training text, counted from 1. None if they are unknown.
        language: The target language.
    """
    scored = list(zip(outputs, (reference for _, reference in texts), strict=True))
    groups: list[list[Pair]] = [[], []]
    if far is not None:
        groups = [[pair for line, pair in enumerate(scored, 1) if (line in far) is is_far] for is_far in (False, True)]
    lengths = [len(source.split()) for source, _ in texts]
    for shortest, longest in LENGTHS:
        groups.append([pair for pair, length in zip(scored, lengths, strict=True) if shortest <= length <= longest])
    scores = [score("bleu", group, language) for group in groups]
    return [str(len(texts)), score("bleu", scored, language), score("chrf", scored, language), *scores]


def print_confidence(outputs: Sequence[Translation], references: Sequence[str]) -> None:
    """Print how well the confidence, the mean log-probability and the length predict the worst translations.

    The worst translations are the tenth with the lowest chrF. Each printed line contains the area under the ROC curve.
    It also contains the shares of the worst translations that are in the tenth and in the fifth with the lowest values.
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
        print(f"calibration error | {error:.3f} | uncertain | {marked.mean():.1%}", file=sys.stderr)
    for title, ranking in rankings.items():
        values = np.array(ranking)
        lowest = np.argsort(values, kind="stable")
        differences = values[is_worst][:, None] - values[~is_worst]
        area = ((differences < 0) + 0.5 * (differences == 0)).mean()
        found = " | ".join(f"{is_worst[lowest[: count * tenths]].sum() / count:.0%}" for tenths in (1, 2))
        print(f"worst tenth by {title} | {area:.3f} | {found}", file=sys.stderr)


def print_direction(model: Translator, name: str, files: Sequence[Path], languages: Pair) -> None:
    """Print the table row for one direction of a test set, and some of the translations to standard error."""
    texts = list(zip(*(file.read_text("utf-8").split("\n")[:-1] for file in files), strict=True))

    def translate(lines: list[str]) -> list[str]:
        return list(model.translate(lines, source=languages[0], target=languages[1], protect=False))

    far_file = files[0].with_name(f"far.{files[0].name}.txt")
    far = {int(line) for line in far_file.read_text("utf-8").split()} if far_file.exists() else None
    sources, references = map(list, zip(*texts, strict=True))
    hypotheses = model.hypotheses(sources, source=languages[0], target=languages[1], protect=False)
    outputs = [best.text for best, *_ in hypotheses]
    row = [name, "-".join(languages), *cells(texts, outputs, far, languages[1])]
    unpunctuated = [bare(reference) for reference in references]
    for change in (bare, lambda source: bare(source).lower()):
        changed = translate([change(source) for source in sources])
        row.append(score("bleu", zip(changed, unpunctuated, strict=True), languages[1]))
    row += [copied_names(texts, languages, translate), kept_numbers(texts, languages, translate)]
    print(" | ".join(row), flush=True)
    print(f"\n{name} {'-'.join(languages)}", file=sys.stderr)
    print_confidence([best for best, *_ in hypotheses], references)
    metric = text_metric("chrf", languages[1])
    by_score = sorted(range(len(outputs)), key=lambda line: metric.score([outputs[line]], [references[line]]))
    drawn = random.Random(1).sample(range(len(outputs)), min(RANDOM_OUTPUTS, len(outputs)))
    for title, lines in (("random", drawn), ("worst chrF", by_score[:BAD_OUTPUTS])):
        print(f"\n{name} {'-'.join(languages)}, {title}:", file=sys.stderr)
        for line in lines:
            shown = f"  {sources[line]}\n    output     {outputs[line]}\n    reference  {references[line]}"
            print(shown, file=sys.stderr)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    translator = zoo.load(sys.argv[1])
    assert translator.spec.languages is not None
    print(" | ".join(COLUMNS))
    print(" | ".join("---" for _ in COLUMNS))
    for argument in sys.argv[2:]:
        name, _, prefix = argument.partition("=")
        files = {code: Path(f"{prefix}.{code}") for code in translator.spec.languages.codes}
        for languages in permutations([code for code, file in files.items() if file.exists()], 2):
            print_direction(translator, name, [files[code] for code in languages], languages)


if __name__ == "__main__":
    main()
