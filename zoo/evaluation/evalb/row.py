"""One sentence's brackets against the reference's, counted as EVALB counts them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from zoo.evaluation.evalb.bracketing import Bracket, Bracketing
from zoo.evaluation.evalb.parameters import Parameters

VALID, ERROR, SKIPPED = 0, 1, 2
"""A sentence's status: counted; left out since test and gold are not over the same words; left out without a word."""

_FUNCTION = re.compile(r"[-=].*", re.DOTALL)
_QUOTATION_MARKS = frozenset(["'", '"', "/"])


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence's line of the table; where its status is not VALID, `problem` says why, and no bracket is counted.

    `length` is in words of the reference, `words` are those of them that are left to compare. `matched`, `gold`
    and `test` count brackets, `crossing` those of the test that cross one of the reference, and `tags` the tags that
    are right (None where the reference's were taken).
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
        """In points; 0 where the reference has no bracket."""
        return points(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """In points; 0 where the test has no bracket."""
        return points(self.matched, self.test)


def points(part: int, whole: int) -> float:
    """A share as a number from 0 to 100; of nothing it is 0."""
    return 100.0 * part / whole if whole else 0.0


def row(test: Bracketing | None, gold: Bracketing, parameters: Parameters, *, tagged: bool) -> Row:
    """Scores one sentence; `tagged` is false where the reference's tags stand for the test's own, word by word.

    Tags, words and length are compared after the deletions that the parameters ask for; None is a test that could
    not be read as brackets.
    """
    left_out = Row(
        length=sum(tag not in parameters.deleted_for_length for tag in gold.tags),
        status=ERROR,
        words=sum(tag not in parameters.deleted for tag in gold.tags),
        tags=0 if tagged else None,
    )
    if test is None:
        return replace(left_out, problem="the brackets are no tree")
    if not tagged:
        if test.words and len(test.words) != len(gold.words):
            return replace(left_out, problem=_lengths(test, gold))
        test = replace(test, tags=gold.tags[: len(test.words)])
    found, wanted = _compared(test, gold, parameters)
    if not found.words:
        return replace(left_out, status=SKIPPED, problem="there is no word")
    if len(found.words) != len(wanted.words):
        return replace(left_out, problem=_lengths(found, wanted))
    for word, other in zip(found.words, wanted.words, strict=True):
        if not parameters.same_word(word, other):
            return replace(left_out, problem=f"the words `{word}` and `{other}` differ")
    return Row(
        length=left_out.length,
        status=VALID,
        words=len(wanted.words),
        matched=_matched(found, wanted, parameters),
        gold=len(wanted.brackets),
        test=len(found.brackets),
        crossing=_crossing(found, wanted),
        tags=sum(map(parameters.same_label, found.tags, wanted.tags)) if tagged else None,
    )


def _lengths(test: Bracketing, gold: Bracketing) -> str:
    return f"there are {len(test.words):,} words, and {len(gold.words):,} in the reference"


def _compared(test: Bracketing, gold: Bracketing, parameters: Parameters) -> tuple[Bracketing, Bracketing]:
    """Both without what is deleted, function tags gone from the labels that stay."""
    keep = [tag not in parameters.deleted for tag in test.tags]
    keep_gold = [tag not in parameters.deleted for tag in gold.tags]
    if any(keep) and sum(keep) != sum(keep_gold):
        for one, other in product(_quotes(test, parameters), _quotes(gold, parameters)):
            # At one place in both, and only one tag deletes it.
            if keep[one] != keep_gold[other] and sum(keep[:one]) == sum(keep_gold[:other]):
                keep[one] = keep_gold[other] = True
    return _labelled(test.kept(keep), parameters), _labelled(gold.kept(keep_gold), parameters)


def _quotes(sentence: Bracketing, parameters: Parameters) -> list[int]:
    found = enumerate(zip(sentence.tags, sentence.words, strict=True))
    return [place for place, (tag, word) in found if tag in parameters.quotes and word in _QUOTATION_MARKS]


def _labelled(sentence: Bracketing, parameters: Parameters) -> Bracketing:
    brackets = (Bracket(_without_function(label), start, end) for label, start, end in sentence.brackets)
    return replace(sentence, brackets=tuple(each for each in brackets if not parameters.deletes_bracket(each.label)))


@cache
def _without_function(label: str) -> str:
    """`NP` of `NP-SBJ` and of `NP=2`."""
    return _FUNCTION.sub("", label)


def _matched(test: Bracketing, gold: Bracketing, parameters: Parameters) -> int:
    """How many brackets of the reference find their own in the test: the first that is left there of their span."""
    left: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for label, start, end in test.brackets:
        left[start, end].append(label)
    matched = 0
    for label, start, end in gold.brackets:
        labels = left[start, end]
        equal = (place for place, each in enumerate(labels) if _equal(each, label, parameters))
        place = next(equal, None)
        if place is not None:
            del labels[place]
            matched += 1
    return matched


def _equal(label: str, other: str, parameters: Parameters) -> bool:
    return not parameters.labelled or parameters.same_label(label, other)


def _crossing(test: Bracketing, gold: Bracketing) -> int:
    """How many brackets of the test cross one of the reference; those that span what one of its own spans cannot."""
    spans = {(start, end) for _, start, end in gold.brackets}
    return sum(
        any(start < first < end < last or first < start < last < end for first, last in spans)
        for _, start, end in test.brackets
        if (start, end) not in spans
    )
