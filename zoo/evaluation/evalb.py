"""Bracket scores of a corpus, computed and printed as EVALB does (Sekine and Collins 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from specs import ZooError
from specs.notation import quote
from zoo.evaluation.brackets import (
    COLLINS,
    ERROR,
    NO_TREE,
    SKIPPED,
    VALID,
    Parameters,
    SentenceScore,
    parse_bracketing,
    percentage,
    read_parameters,
    score_sentence,
)
from zoo.evaluation.text_metrics import check_lengths, read_aligned
from zoo.text.trees.tree import XX

_TABLE_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================"""


@dataclass(frozen=True, slots=True)
class BracketSummary:
    """Combined bracket scores of several sentences. Most scores are percentages. Undefined scores are 0.

    Attributes:
        sentences: Number of sentences.
        errors: Number of sentences with errors. These sentences are excluded from the scores below.
        skipped: Number of empty sentences. These sentences are excluded from the scores below.
        recall: Labelled recall of brackets.
        precision: Labelled precision of brackets.
        f1: Harmonic mean of recall and precision.
        complete_match: Percentage of sentences whose brackets all match.
        crossing: Mean number of crossing brackets per sentence, not in percent.
        no_crossing: Percentage of sentences without crossing brackets.
        two_or_less: Percentage of sentences with at most two crossing brackets.
        tagging: Percentage of words with the correct tag. None if the tags of the references were used.
    """

    sentences: int
    errors: int
    skipped: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    crossing: float
    no_crossing: float
    two_or_less: float
    tagging: float | None


@dataclass(frozen=True, slots=True)
class BracketScores(BracketSummary):
    """Combined scores of all sentences and of the short sentences, and scores of each sentence.

    Attributes:
        cutoff: Maximum number of words in a short sentence.
        short: Combined scores of the short sentences.
        signature: Settings of the evaluation: the name of the EVALB parameters; `test` or `reference`, depending on
            which trees provided the tags; and the cutoff.
        rows: Scores of each sentence, in order.
    """

    cutoff: int
    short: BracketSummary
    signature: str
    rows: tuple[SentenceScore, ...]

    @property
    def failed(self) -> list[tuple[int, SentenceScore]]:
        """The number (from 1) and the scores of each sentence that EVALB excludes because of an error."""
        return [(number, row) for number, row in enumerate(self.rows, start=1) if row.status == ERROR]


def score_brackets(
    outputs: Sequence[str], references: Sequence[str], parameters: Parameters = COLLINS, *, own_tags: bool = True
) -> BracketScores:
    """Score bracketed trees against references.

    Before two trees are compared, words with certain tags and brackets with certain labels are deleted (see
    `Parameters`). If no output has tags (all are `XX`), each word gets its tag from the reference. Otherwise,
    punctuation would be deleted only from the references.

    Args:
        outputs: The trees to score. A tree without words is skipped. An output that is not a tree counts as an error.
        references: The reference of each tree.
        parameters: EVALB's parameters.
        own_tags: Whether to use the tags in the outputs, if there are any. If false, each word gets its tag from the
            reference. Then wrong punctuation tags are not errors, and tagging accuracy is not computed.

    Raises:
        ZooError: A reference is not a tree, the numbers of outputs and references differ or are 0, or more sentences
            have errors than the parameters allow.
    """
    check_lengths(outputs, references)
    tests, golds = list(map(parse_bracketing, outputs)), []
    for number, line in enumerate(references, start=1):
        gold = parse_bracketing(line)
        if not gold.is_tree:
            hint = "write a tree as `(NP (DT the) (NN dog))`"
            raise ZooError(f"{quote(line)} is not a bracketed tree", where=f"reference {number:,}", hint=hint)
        golds.append(gold)
    use_test_tags = own_tags and {tag for test in tests if test.is_tree for tag in test.tags} != {XX}
    rows = [
        score_sentence(test, gold, parameters, use_test_tags=use_test_tags)
        for test, gold in zip(tests, golds, strict=True)
    ]
    tag_source = "test" if use_test_tags else "reference"
    scores = BracketScores(
        **asdict(_summarise(rows)),
        cutoff=parameters.cutoff,
        short=_summarise([row for row in rows if row.length <= parameters.cutoff]),
        signature=f"evalb:{parameters.name}|tags:{tag_source}|cutoff:{parameters.cutoff}",
        rows=tuple(rows),
    )
    _check_errors(scores, parameters)
    return scores


def evaluate_bracket_files(test: Path | str, gold: Path | str, parameters: Path | str | None = None) -> BracketScores:
    """Score a file of trees against a file of references, one tree per line, as `score_brackets` does.

    Args:
        test: The trees to score.
        gold: The references.
        parameters: An EVALB parameter file. None: use `COLLINS`.

    Raises:
        ZooError: A file cannot be read, or the trees cannot be scored.
    """
    chosen = COLLINS if parameters is None else read_parameters(parameters)
    return score_brackets(*read_aligned(test, gold), chosen)


def _check_errors(scores: BracketScores, parameters: Parameters) -> None:
    """Raise ZooError if there are so many errors that EVALB would stop without a summary: MAX_ERROR + 2 or more."""
    # EVALB counts a skipped sentence as an error if its brackets do not form a tree.
    rows = enumerate(scores.rows, start=1)
    failed = [(number, row) for number, row in rows if row.status == ERROR or row.problem == NO_TREE]
    if parameters.max_error is None or len(failed) <= parameters.max_error + 1:
        return
    number, first = failed[0]
    raise ZooError(
        f"{len(failed):,} sentences have errors, more than `MAX_ERROR {parameters.max_error}` allows "
        f"({parameters.name}); the first is sentence {number:,}: {first.problem}",
        hint="compare trees over the same words, or raise `MAX_ERROR` in the parameter file",
    )


def _total(rows: Sequence[SentenceScore]) -> SentenceScore:
    """Add the counts of all sentences. Sentences that are not scored have no counts."""
    names = ("words", "matched", "gold", "test", "crossing")
    counts = {name: sum(getattr(row, name) for row in rows) for name in names}
    tags = [row.tags for row in rows if row.tags is not None]
    return SentenceScore(0, VALID, **counts, tags=sum(tags) if tags else None)


def _summarise(rows: Sequence[SentenceScore]) -> BracketSummary:
    valid, total = [row for row in rows if row.status == VALID], _total(rows)
    recall, precision = total.recall, total.precision
    return BracketSummary(
        sentences=len(rows),
        errors=sum(row.status == ERROR for row in rows),
        skipped=sum(row.status == SKIPPED for row in rows),
        recall=recall,
        precision=precision,
        f1=2 * recall * precision / (recall + precision) if total.matched else 0.0,
        complete_match=percentage(sum(row.matched == row.gold == row.test for row in valid), len(valid)),
        crossing=total.crossing / len(valid) if valid else 0.0,
        no_crossing=percentage(sum(not row.crossing for row in valid), len(valid)),
        two_or_less=percentage(sum(row.crossing <= 2 for row in valid), len(valid)),
        tagging=None if total.tags is None else percentage(total.tags, total.words),
    )


def format_table(scores: BracketScores) -> str:
    """Format the scores as a table: one line per sentence, totals, and two summaries.

    The table equals the output of `evalb.c`, including its misspellings, with two exceptions. The columns for tags are
    `-` if the test trees have no tags, and undefined scores are 0 instead of `nan`.
    """
    return "\n".join(
        [
            _TABLE_HEAD,
            *(_format_row(number, row) for number, row in enumerate(scores.rows, start=1)),
            "=" * 76,
            _format_total(_total(scores.rows)),
            "=== Summary ===",
            "",
            "-- All --",
            *_format_summary(scores),
            "",
            f"-- len<={scores.cutoff} --",
            *_format_summary(scores.short),
        ]
    )


def _format_row(number: int, row: SentenceScore) -> str:
    return (
        f"{number:4d}  {row.length:3d}    {row.status:d}  "
        f"{row.recall:6.2f} {row.precision:6.2f}   {row.matched:3d}    "
        f"{row.gold:3d}  {row.test:3d}    {row.crossing:3d}   {row.words:4d}  "
        + ("   -        -" if row.tags is None else f"{row.tags:4d}   {percentage(row.tags, row.words):6.2f}")
    )


def _format_total(row: SentenceScore) -> str:
    brackets = (
        f"{row.recall:22.2f} {row.precision:6.2f} {row.matched:6d} {row.gold:5d} {row.test:5d}  {row.crossing:5d}"
    )
    tagging = "    -        -" if row.tags is None else f"{row.tags:5d}   {percentage(row.tags, row.words):6.2f}"
    return f"{brackets if row.gold and row.test else ''}  {row.words:5d} {tagging}"


def _format_summary(summary: BracketSummary) -> list[str]:
    figures = {
        "Number of sentence": summary.sentences,
        "Number of Error sentence": summary.errors,
        "Number of Skip  sentence": summary.skipped,
        "Number of Valid sentence": summary.sentences - summary.errors - summary.skipped,
        "Bracketing Recall": summary.recall,
        "Bracketing Precision": summary.precision,
        "Bracketing FMeasure": summary.f1,
        "Complete match": summary.complete_match,
        "Average crossing": summary.crossing,
        "No crossing": summary.no_crossing,
        "2 or less crossing": summary.two_or_less,
        "Tagging accuracy": summary.tagging,
    }
    return [f"{name:<25} = {_format_figure(value)}" for name, value in figures.items()]


def _format_figure(value: float | None) -> str:
    if value is None:
        return f"{'-':>6}"
    return f"{value:6d}" if isinstance(value, int) else f"{value:6.2f}"
