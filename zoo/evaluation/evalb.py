"""Bracket scores of a corpus, computed as EVALB does (Sekine and Collins 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specs import ZooError
from specs.notation import quote
from zoo.evaluation.brackets import (
    ERROR,
    SKIPPED,
    VALID,
    SentenceScore,
    parse_bracketing,
    percentage,
    score_sentence,
)
from zoo.evaluation.text_metrics import check_lengths, read_aligned
from zoo.text.trees.tree import XX


@dataclass(frozen=True, slots=True)
class BracketScores:
    """Bracket scores of a corpus and of each sentence. Most scores are percentages. Undefined scores are 0.

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
        signature: Settings of the evaluation: the EVALB parameters, and whether the tags are from the `test` trees or
            from the `reference` trees.
        rows: Scores of each sentence, in order.
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
    signature: str
    rows: tuple[SentenceScore, ...]

    @property
    def failed(self) -> list[tuple[int, SentenceScore]]:
        """The number (from 1) and the scores of each sentence that EVALB excludes because of an error."""
        return [(number, row) for number, row in enumerate(self.rows, start=1) if row.status == ERROR]


def score_brackets(outputs: Sequence[str], references: Sequence[str], *, own_tags: bool = True) -> BracketScores:
    """Score bracketed trees against references.

    Before two trees are compared, words with certain tags and brackets with certain labels are deleted. If no output
    has tags (all are `XX`), each word gets its tag from the reference. Otherwise, punctuation would be deleted only
    from the references.

    Args:
        outputs: The trees to score. A tree without words is skipped. An output that is not a tree counts as an error.
        references: The reference of each tree.
        own_tags: Whether to use the tags in the outputs, if there are any. If false, each word gets its tag from the
            reference. Then wrong punctuation tags are not errors, and tagging accuracy is not computed.

    Raises:
        ZooError: A reference is not a tree, or the numbers of outputs and references differ or are 0.
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
    rows = [score_sentence(test, gold, use_test_tags=use_test_tags) for test, gold in zip(tests, golds, strict=True)]
    return _summarise(rows, "test" if use_test_tags else "reference")


def evaluate_bracket_files(test: Path | str, gold: Path | str) -> BracketScores:
    """Score a file of trees against a file of references, one tree per line, as `score_brackets` does.

    Args:
        test: The trees to score.
        gold: The references.

    Raises:
        ZooError: A file cannot be read, or the trees cannot be scored.
    """
    return score_brackets(*read_aligned(test, gold))


def _total(rows: Sequence[SentenceScore]) -> SentenceScore:
    """Add the counts of all sentences. Sentences that are not scored have no counts."""
    names = ("words", "matched", "gold", "test", "crossing")
    counts = {name: sum(getattr(row, name) for row in rows) for name in names}
    tags = [row.tags for row in rows if row.tags is not None]
    return SentenceScore(0, VALID, **counts, tags=sum(tags) if tags else None)


def _summarise(rows: Sequence[SentenceScore], tag_source: str) -> BracketScores:
    valid, total = [row for row in rows if row.status == VALID], _total(rows)
    recall, precision = total.recall, total.precision
    return BracketScores(
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
        signature=f"evalb:collins|tags:{tag_source}|cutoff:40",  # as in the scores of earlier versions
        rows=tuple(rows),
    )
