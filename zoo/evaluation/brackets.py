"""Brackets of a sentence, and their comparison with a reference as in EVALB (Sekine and Collins 1997).

The comparison follows the standard parameters for English, COLLINS.prm (Collins 1997): labelled brackets without root,
traces and punctuation. Unlike EVALB with this file, it allows any number of sentences in error, because a parser makes
many errors early in training.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import NamedTuple

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
    """The words of a sentence, a tag for each word, and the constituents in the order in which they open.

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
        crossing: Number of brackets in the parser's tree that cross a bracket of the reference.
        tags: Number of correct tags. None if the tags of the reference were used.
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

    @property
    def recall(self) -> float:
        """Recall of brackets in percent, or 0 if the reference has no brackets."""
        return percentage(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Precision of brackets in percent, or 0 if the parser's tree has no brackets."""
        return percentage(self.matched, self.test)


def percentage(part: int, whole: int) -> float:
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
