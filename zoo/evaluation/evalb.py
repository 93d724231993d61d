"""Bracket scores of parse trees, computed as EVALB does (Sekine and Collins 1997).

The scores follow the standard parameters for English, COLLINS.prm (Collins 1997): labelled brackets without root,
traces and punctuation. Unlike EVALB with this file, this module allows any number of sentences with errors, because a
parser makes many errors early in training.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from pathlib import Path
from typing import NamedTuple

from specs import ZooError
from specs.notation import quote
from zoo.evaluation.text_metrics import check_lengths, read_aligned
from zoo.text.trees.tree import XX

_DELETED = frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."])
"""Labels of brackets, and tags of words, to ignore."""
_DELETED_FOR_LENGTH = "-NONE-"
"""Tag of words that do not count towards the sentence length."""
_EQUAL = {"PRT": "ADVP"}
"""Labels and tags that count as equal to another label or tag."""
_NO_TREE = "the brackets do not form a tree"
VALID, ERROR, SKIPPED = 0, 1, 2
"""Status of a sentence: scored, excluded because of an error (such as different words in the reference), or empty."""

# A tag with its word, an opening bracket with its label, a closing bracket, or text that is not part of a tree.
_TOKEN = re.compile(r"\(([^()\s]*)(?:\s+([^()\s]+)\s*\))?|\)|[^()\s]+", re.ASCII)
_FUNCTION_TAG = re.compile(r"[-=].*", re.DOTALL)


class Bracket(NamedTuple):
    """Constituent: its label, the index of its first word, and the index after its last word, from 0."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bracketing:
    """The words in a sentence, a tag for each word, and the constituents in the order in which they open.

    `is_tree` is false if the brackets are unbalanced or a word has no tag. Then `words` ends before the first error.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]
    is_tree: bool = True

    def without_deleted(self) -> Bracketing:
        """Remove the words with deleted tags, and the brackets that become empty or have deleted labels."""
        keep = [tag not in _DELETED for tag in self.tags]
        kept_before = [0, *accumulate(keep)]
        brackets = [Bracket(label, kept_before[start], kept_before[end]) for label, start, end in self.brackets]
        kept = [each for each in brackets if each.start < each.end and each.label not in _DELETED]
        return Bracketing(
            words=tuple(compress(self.words, keep)),
            tags=tuple(compress(self.tags, keep)),
            brackets=tuple(kept),
        )


def parse_bracketing(line: str) -> Bracketing:
    """Parse a line with trees in bracketed notation.

    As in EVALB, a line may contain several trees or be empty, and brackets need no labels. Function tags are removed
    from labels: `NP-SBJ` and `NP=2` become `NP`.
    """
    words: list[str] = []
    tags: list[str] = []
    brackets: list[Bracket] = []
    unclosed: list[int] = []
    for token in _TOKEN.finditer(line):
        label, word = token.groups()
        if word is not None:
            words.append(word)
            tags.append(label)
        elif label is not None:
            unclosed.append(len(brackets))
            brackets.append(Bracket(_FUNCTION_TAG.sub("", label), len(words), len(words)))
        elif token[0] == ")" and unclosed:
            index = unclosed.pop()
            brackets[index] = brackets[index]._replace(end=len(words))
        else:
            return Bracketing(tuple(words), tuple(tags), (), is_tree=False)
    return Bracketing(tuple(words), tuple(tags), tuple(brackets), is_tree=not unclosed)


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """Scores of a parser's tree for one sentence, as in EVALB.

    If the status is not VALID, all counts of brackets are 0.

    Attributes:
        length: Number of words in the reference.
        status: VALID, ERROR or SKIPPED.
        words: Number of compared words in the reference. 0 if the status is not VALID.
        matched: Number of brackets that are in both the parser's tree and the reference.
        gold: Number of brackets in the reference.
        test: Number of brackets in the parser's tree.
        crossing: Number of brackets in the parser's tree that cross a bracket in the reference.
        tags: Number of correct tags. None if the tags from the reference were used.
        problem: Reason why the status is not VALID. Empty if it is VALID.
    """

    length: int
    status: int
    words: int
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    tags: int | None = 0
    problem: str = ""


def _percentage(part: int, whole: int) -> float:
    """Return 100 * part / whole, or 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0


def score_sentence(test: Bracketing, gold: Bracketing, *, use_test_tags: bool) -> SentenceScore:
    """Score one sentence. Words with deleted tags and brackets with deleted labels are not compared.

    Args:
        test: The bracketing to score.
        gold: The reference.
        use_test_tags: Whether to use the tags in `test`. If false, each word gets its tag from the reference.
    """
    excluded = SentenceScore(
        length=sum(tag != _DELETED_FOR_LENGTH for tag in gold.tags),
        status=ERROR,
        words=0,
        tags=0 if use_test_tags else None,
    )
    if not test.is_tree:
        has_word = any(tag not in _DELETED for tag in test.tags)
        return replace(excluded, status=ERROR if has_word else SKIPPED, problem=_NO_TREE)
    if not use_test_tags:
        if test.words and len(test.words) != len(gold.words):
            return replace(excluded, problem=_describe_lengths(test, gold))
        test = replace(test, tags=gold.tags[: len(test.words)])
    test, gold = test.without_deleted(), gold.without_deleted()
    if not test.words:
        return replace(excluded, status=SKIPPED, problem="the tree has no words")
    if len(test.words) != len(gold.words):
        return replace(excluded, problem=_describe_lengths(test, gold))
    for word, other in zip(test.words, gold.words, strict=True):
        if word != other:
            return replace(excluded, problem=f"the tree has the word `{word}`, but its reference has `{other}`")
    return SentenceScore(
        length=excluded.length,
        status=VALID,
        words=len(gold.words),
        matched=_count_matched(test, gold),
        gold=len(gold.brackets),
        test=len(test.brackets),
        crossing=_count_crossing(test, gold),
        tags=sum(_canonical(a) == _canonical(b) for a, b in zip(test.tags, gold.tags, strict=True))
        if use_test_tags
        else None,
    )


def _describe_lengths(test: Bracketing, gold: Bracketing) -> str:
    return f"the tree has {len(test.words):,} words, but its reference has {len(gold.words):,}"


def _canonical(label: str) -> str:
    return _EQUAL.get(label, label)


def _count_matched(test: Bracketing, gold: Bracketing) -> int:
    """Count the reference brackets that match a test bracket. Each test bracket matches at most once."""
    counts = [Counter(each._replace(label=_canonical(each.label)) for each in side.brackets) for side in (test, gold)]
    return (counts[0] & counts[1]).total()


def _count_crossing(test: Bracketing, gold: Bracketing) -> int:
    """Count the test brackets that cross a reference bracket."""
    spans = {(start, end) for _, start, end in gold.brackets}
    return sum(
        any(start < first < end < last or first < start < last < end for first, last in spans)
        for _, start, end in test.brackets
        if (start, end) not in spans  # a bracket with the span of a reference bracket crosses no reference bracket
    )


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
        tagging: Percentage of words with the correct tag. None if the tags from the references were used.
        signature: Evaluation settings: the EVALB parameters, and whether the tags are from the `test` trees or
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
    def excluded(self) -> list[tuple[int, SentenceScore]]:
        """The sentences with errors and the empty sentences, which are not scored, as pairs (number from 1, scores)."""
        return [(number, row) for number, row in enumerate(self.rows, start=1) if row.status != VALID]


def score_brackets(
    outputs: Sequence[str], references: Sequence[str], *, own_tags: bool = True, file: Path | str | None = None
) -> BracketScores:
    """Score bracketed trees against references.

    Before two trees are compared, words with certain tags and brackets with certain labels are deleted. If no output
    has tags (all are `XX`), each word gets its tag from the reference. Otherwise, punctuation would be deleted only
    from the references.

    Args:
        outputs: The trees to score. Trees without words are skipped. Outputs that are not trees count as sentences
            with errors.
        references: The reference of each tree.
        own_tags: Whether to use the tags in the outputs, if there are any. If false, each word gets its tag from the
            reference. Then wrong punctuation tags are not errors, and tagging accuracy is not computed.
        file: Name of the file with the references, for error messages.

    Raises:
        ZooError: A reference is not a tree, or the numbers of outputs and references differ or are 0.
    """
    check_lengths(outputs, references)
    tests, golds = list(map(parse_bracketing, outputs)), []
    for number, line in enumerate(references, start=1):
        gold = parse_bracketing(line)
        if not gold.is_tree:
            hint = "write a tree as `(NP (DT the) (NN dog))`"
            where = f"reference {number:,}" if file is None else f"{file}:{number}"
            raise ZooError(f"{quote(line)} is not a bracketed tree", where=where, hint=hint)
        golds.append(gold)
    use_test_tags = own_tags and {tag for test in tests if test.is_tree for tag in test.tags} != {XX}
    rows = [score_sentence(test, gold, use_test_tags=use_test_tags) for test, gold in zip(tests, golds, strict=True)]
    return _summarise(rows, use_test_tags=use_test_tags)


def evaluate_bracket_files(test: Path | str, gold: Path | str) -> BracketScores:
    """Score a file of trees against a file of references, one tree per line, as `score_brackets` does.

    Args:
        test: The trees to score.
        gold: The references.

    Raises:
        ZooError: A file cannot be read, or the trees cannot be scored.
    """
    return score_brackets(*read_aligned(test, gold), file=gold)


def _summarise(rows: Sequence[SentenceScore], *, use_test_tags: bool) -> BracketScores:
    valid = [row for row in rows if row.status == VALID]
    matched, gold, test = (sum(getattr(row, name) for row in valid) for name in ("matched", "gold", "test"))
    recall, precision = _percentage(matched, gold), _percentage(matched, test)
    return BracketScores(
        sentences=len(rows),
        errors=sum(row.status == ERROR for row in rows),
        skipped=sum(row.status == SKIPPED for row in rows),
        recall=recall,
        precision=precision,
        f1=2 * recall * precision / (recall + precision) if matched else 0.0,
        complete_match=_percentage(sum(row.matched == row.gold == row.test for row in valid), len(valid)),
        crossing=sum(row.crossing for row in valid) / len(valid) if valid else 0.0,
        no_crossing=_percentage(sum(not row.crossing for row in valid), len(valid)),
        two_or_less=_percentage(sum(row.crossing <= 2 for row in valid), len(valid)),
        tagging=_percentage(sum(row.tags or 0 for row in valid), sum(row.words for row in valid))
        if use_test_tags
        else None,
        signature=f"evalb:collins|tags:{'test' if use_test_tags else 'reference'}",
        rows=tuple(rows),
    )
