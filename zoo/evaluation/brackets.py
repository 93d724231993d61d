"""Brackets of a sentence, and their comparison with a reference as in EVALB (Sekine and Collins 1997).

EVALB's parameters specify which brackets and words are ignored in the comparison, and which of them count as equal.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress, product
from pathlib import Path
from typing import NamedTuple

from specs import ZooError
from specs.notation import quote
from zoo.text.lines import read_lines

_MIN_LINE_LENGTH = 3  # EVALB ignores shorter lines
_NUMBER = re.compile("[0-9]{1,9}")
_HINT = (
    "the parameters are DELETE_LABEL, DELETE_LABEL_FOR_LENGTH, QUOTE_LABEL, LABELED, CUTOFF_LEN, MAX_ERROR and DEBUG "
    "with one value, EQ_LABEL and EQ_WORD with two values; `#` starts a comment"
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Options for comparing the brackets of two trees, as in EVALB's parameter files.

    Attributes:
        name: Name of this set of parameters, for the signature of the scores.
        deleted: Labels of brackets, and tags of words, to ignore.
        deleted_for_length: Tags of words that do not count towards the sentence length.
        equal_labels: Pairs of labels that count as equal, each pair in both orders. The relation is not transitive.
        equal_words: Pairs of words that count as equal, each pair in both orders. The relation is not transitive.
        quotes: Tags that part-of-speech taggers confuse when they tag quotation marks.
        labelled: Whether brackets must have equal labels to match.
        cutoff: Maximum number of words in a short sentence. Short sentences are also summarised separately.
        max_error: EVALB's MAX_ERROR. Scoring fails if more than `max_error` + 1 sentences have errors. None: no limit.
    """

    name: str
    deleted: frozenset[str] = frozenset()
    deleted_for_length: frozenset[str] = frozenset()
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    equal_words: frozenset[tuple[str, str]] = frozenset()
    quotes: frozenset[str] = frozenset()
    labelled: bool = True
    cutoff: int = 40
    max_error: int | None = None

    def same_label(self, label: str, other: str) -> bool:
        """Return whether two labels, or two tags, count as equal."""
        return label == other or (label, other) in self.equal_labels

    def same_word(self, word: str, other: str) -> bool:
        """Return whether two words count as equal."""
        return word == other or (word, other) in self.equal_words

    def deletes_bracket(self, label: str) -> bool:
        """Return whether brackets with this label are ignored, because the label or an equal label is in `deleted`."""
        return any(self.same_label(label, each) for each in self.deleted)


COLLINS = Parameters(
    name="collins",
    deleted=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    deleted_for_length=frozenset(["-NONE-"]),
    equal_labels=frozenset([("ADVP", "PRT"), ("PRT", "ADVP")]),
)
"""The standard parameters for English (Collins 1997): labelled brackets without root, traces and punctuation.

`ADVP` and `PRT` count as equal labels. Unlike EVALB's file COLLINS.prm, these parameters allow any number of sentences
in error, because a parser makes many errors early in training.
"""


def read_parameters(path: Path | str) -> Parameters:
    """Read an EVALB parameter file. Parameters that are not in the file have EVALB's defaults.

    Raises:
        ZooError: The file cannot be read, or a line has an unknown parameter or an invalid value.
    """
    parameters = Parameters(name=Path(path).name, max_error=10)
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.strip()) < _MIN_LINE_LENGTH:
            continue
        changed = _with_line(parameters, line.split())
        if changed is None:
            problem = f"{quote(line.strip())} is not an EVALB parameter with valid values"
            raise ZooError(problem, where=f"{path}:{number}", hint=_HINT)
        parameters = changed
    return parameters


def _with_line(known: Parameters, words: list[str]) -> Parameters | None:
    """Return `known`, updated with one line of a parameter file, given as words, or None if the line is invalid."""
    match words:
        case ["DEBUG", _]:
            return known
        case ["LABELED", "0" | "1" as value]:
            return replace(known, labelled=value == "1")
        case ["CUTOFF_LEN", value] if _NUMBER.fullmatch(value):
            return replace(known, cutoff=int(value))
        case ["MAX_ERROR", value] if _NUMBER.fullmatch(value):
            return replace(known, max_error=int(value))
        case ["DELETE_LABEL", label]:
            return replace(known, deleted=known.deleted | {label})
        case ["DELETE_LABEL_FOR_LENGTH", label]:
            return replace(known, deleted_for_length=known.deleted_for_length | {label})
        case ["QUOTE_LABEL", label]:
            return replace(known, quotes=known.quotes | {label})
        case ["EQ_LABEL", a, b]:
            return replace(known, equal_labels=known.equal_labels | {(a, b), (b, a)})
        case ["EQ_WORD", a, b]:
            return replace(known, equal_words=known.equal_words | {(a, b), (b, a)})
    return None


NO_TREE = "the brackets do not form a tree"
VALID, ERROR, SKIPPED = 0, 1, 2
"""Status of a sentence: scored, excluded because of an error (such as different words in the reference), or empty."""

# A tag with its word, an opening bracket with its label, a closing bracket, or text that is not part of a tree.
_TOKEN = re.compile(r"\(([^()\s]*)(?:\s+([^()\s]+)\s*\))?|\)|[^()\s]+", re.ASCII)
_FUNCTION_TAG = re.compile(r"[-=].*", re.DOTALL)
_QUOTATION_MARKS = frozenset(["'", '"', "/"])


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

    def select(self, keep: Sequence[bool], parameters: Parameters) -> Bracketing:
        """Remove the words for which `keep` is false, and brackets that become empty or that the parameters delete."""
        kept_before = [0, *accumulate(keep)]
        brackets = [Bracket(label, kept_before[start], kept_before[end]) for label, start, end in self.brackets]
        kept = [each for each in brackets if each.start < each.end and not parameters.deletes_bracket(each.label)]
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
    """Scores of a parser's tree for one sentence, as in a line of EVALB's table.

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


def score_sentence(test: Bracketing, gold: Bracketing, parameters: Parameters, *, use_test_tags: bool) -> SentenceScore:
    """Score one sentence. Words and brackets that the parameters delete are not compared.

    Args:
        test: The bracketing to score.
        gold: The reference.
        parameters: EVALB's parameters.
        use_test_tags: Whether to use the tags in `test`. If false, each word gets its tag from the reference.
    """
    excluded = SentenceScore(
        length=sum(tag not in parameters.deleted_for_length for tag in gold.tags),
        status=ERROR,
        words=0,
        tags=0 if use_test_tags else None,
    )
    if not test.is_tree:
        has_word = any(tag not in parameters.deleted for tag in test.tags)
        return replace(excluded, status=ERROR if has_word else SKIPPED, problem=NO_TREE)
    if not use_test_tags:
        if test.words and len(test.words) != len(gold.words):
            return replace(excluded, problem=_describe_lengths(test, gold))
        test = replace(test, tags=gold.tags[: len(test.words)])
    test, gold = _delete(test, gold, parameters)
    if not test.words:
        return replace(excluded, status=SKIPPED, problem="the tree has no words")
    if len(test.words) != len(gold.words):
        return replace(excluded, problem=_describe_lengths(test, gold))
    for word, other in zip(test.words, gold.words, strict=True):
        if not parameters.same_word(word, other):
            return replace(excluded, problem=f"the tree has the word `{word}`, but its reference has `{other}`")
    return SentenceScore(
        length=excluded.length,
        status=VALID,
        words=len(gold.words),
        matched=_count_matched(test, gold, parameters),
        gold=len(gold.brackets),
        test=len(test.brackets),
        crossing=_count_crossing(test, gold),
        tags=sum(map(parameters.same_label, test.tags, gold.tags)) if use_test_tags else None,
    )


def _describe_lengths(test: Bracketing, gold: Bracketing) -> str:
    return f"the tree has {len(test.words):,} words, but its reference has {len(gold.words):,}"


def _delete(test: Bracketing, gold: Bracketing, parameters: Parameters) -> tuple[Bracketing, Bracketing]:
    """Remove the words and brackets that the parameters delete from both bracketings."""
    keep = [tag not in parameters.deleted for tag in test.tags]
    keep_gold = [tag not in parameters.deleted for tag in gold.tags]
    if any(keep) and sum(keep) != sum(keep_gold):
        for index, gold_index in product(_quotes(test, parameters), _quotes(gold, parameters)):
            # Quotation marks at the same position, of which only one has a deleted tag, are both kept.
            if keep[index] != keep_gold[gold_index] and sum(keep[:index]) == sum(keep_gold[:gold_index]):
                keep[index] = keep_gold[gold_index] = True
    return test.select(keep, parameters), gold.select(keep_gold, parameters)


def _quotes(sentence: Bracketing, parameters: Parameters) -> list[int]:
    """Return the indices of the quotation marks with a tag in `parameters.quotes`."""
    words = enumerate(zip(sentence.tags, sentence.words, strict=True))
    return [index for index, (tag, word) in words if tag in parameters.quotes and word in _QUOTATION_MARKS]


def _count_matched(test: Bracketing, gold: Bracketing, parameters: Parameters) -> int:
    """Count the reference brackets that match a test bracket. Each test bracket matches at most once."""
    unmatched: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for label, start, end in test.brackets:
        unmatched[start, end].append(label)
    matched = 0
    for gold_label, start, end in gold.brackets:
        labels = unmatched[start, end]
        for index, label in enumerate(labels):
            if not parameters.labelled or parameters.same_label(label, gold_label):
                del labels[index]
                matched += 1
                break
    return matched


def _count_crossing(test: Bracketing, gold: Bracketing) -> int:
    """Count the test brackets that cross a reference bracket."""
    spans = {(start, end) for _, start, end in gold.brackets}
    return sum(
        any(start < first < end < last or first < start < last < end for first, last in spans)
        for _, start, end in test.brackets
        if (start, end) not in spans  # a bracket with the span of a reference bracket crosses no reference bracket
    )
