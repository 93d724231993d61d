"""Bracket scores in EVALB's own layout: a line a sentence, their sums, and two summaries."""

from collections.abc import Sequence

from zoo.evaluation.evalb.brackets import BracketScores, Summary
from zoo.evaluation.evalb.row import VALID, Row, points

_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================"""


def table(scores: BracketScores) -> str:
    """The scores letter for letter as EVALB's own example of them, `sample.rsl`, misspelling and all.

    `-` stands for tags where the test has none. The sum below the column of crossing brackets is that example's, too:
    the number of sentences in which none crosses.
    """
    return "\n".join(
        [
            _HEAD,
            *(_line(number, row) for number, row in enumerate(scores.rows, start=1)),
            "=" * 76,
            _sums([row for row in scores.rows if row.status == VALID], scores),
            "=== Summary ===",
            "",
            "-- All --",
            *_summary(scores),
            "",
            f"-- len<={scores.cutoff} --",
            *_summary(scores.short),
        ]
    )


def _line(number: int, row: Row) -> str:
    return (
        f"{number:4d}  {row.length:3d}    {row.status:d}  "
        f"{row.recall:6.2f} {row.precision:6.2f}   {row.matched:3d}    "
        f"{row.gold:3d}  {row.test:3d}    {row.crossing:3d}   {row.words:4d}  "
        + ("   -        -" if row.tags is None else f"{row.tags:4d}   {points(row.tags, row.words):6.2f}")
    )


def _sums(valid: Sequence[Row], scores: Summary) -> str:
    gold, test = sum(row.gold for row in valid), sum(row.test for row in valid)
    matched, uncrossed = sum(row.matched for row in valid), sum(not row.crossing for row in valid)
    tags = sum(row.tags or 0 for row in valid)
    brackets = f"{scores.recall:22.2f} {scores.precision:6.2f} {matched:6d} {gold:6d} {test:4d}  {uncrossed:5d}"
    tagging = "    -        -" if scores.tagging is None else f"{tags:5d}   {scores.tagging:6.2f}"
    return f"{brackets if gold and test else ''}  {sum(row.words for row in valid):5d} {tagging}"


def _summary(summary: Summary) -> list[str]:
    figures = {
        "Number of sentence": summary.sentences,
        "Number of Error sentence": summary.errors,
        "Number of Skip  sentence": summary.skipped,
        "Number of Valid sentence": summary.sentences - summary.errors - summary.skipped,
        "Bracketing Recall": summary.recall,
        "Bracketing Precision": summary.precision,
        "Complete match": summary.complete_match,
        "Average crossing": summary.crossing,
        "No crossing": summary.no_crossing,
        "2 or less crossing": summary.two_or_less,
        "Tagging accuracy": summary.tagging,
    }
    return [f"{name:<25} = {_figure(value)}" for name, value in figures.items()]


def _figure(value: float | None) -> str:
    if value is None:
        return f"{'-':>6}"
    return f"{value:6d}" if isinstance(value, int) else f"{value:6.2f}"
