"""Parameters of EVALB: which brackets and words are ignored when trees are compared, and which count as equal."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

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
    """Options for the comparison of two trees' brackets, as in a parameter file of EVALB.

    Attributes:
        name: Name of this set of parameters, which the signature of the scores contains.
        deleted: Labels of brackets, and tags of words, that are ignored.
        deleted_for_length: Tags of words that do not count in the length of a sentence.
        equal_labels: Pairs of labels that count as equal, each pair in both orders. The relation is not transitive.
        equal_words: Pairs of words that count as equal, each pair in both orders. The relation is not transitive.
        quotes: Tags that part-of-speech taggers confuse when they tag quotation marks.
        labelled: Whether brackets must have equal labels to match.
        cutoff: Maximum number of words of a short sentence. Short sentences are also summarised separately.
        max_error: EVALB's MAX_ERROR. Scoring fails if more than `max_error` + 1 sentences are in error. None: no limit.
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
        """Return whether brackets with this label are ignored, because it or an equal label is in `deleted`."""
        return label in self.deleted or any(
            label == first and second in self.deleted for first, second in self.equal_labels
        )


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
    """Return the parameters in an EVALB parameter file. Parameters that are not in the file have EVALB's defaults.

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
    """Return `known` with the parameter that a line of the file sets, or None if the line is not valid."""
    match words:
        case ["DEBUG", _]:
            return known
        case ["MAX_ERROR", value] if _NUMBER.fullmatch(value):
            return replace(known, max_error=int(value))
        case ["CUTOFF_LEN", value] if _NUMBER.fullmatch(value):
            return replace(known, cutoff=int(value))
        case ["LABELED", "0" | "1" as value]:
            return replace(known, labelled=value == "1")
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
