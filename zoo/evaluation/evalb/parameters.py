"""Parameters of EVALB: what is deleted before trees are compared, and what counts as equal."""

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
    "with one value, EQ_LABEL and EQ_WORD with two; `#` starts a comment"
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Options for the comparison of two trees' brackets, as in a parameter file of EVALB.

    Attributes:
        name: Name of the parameters, for the signature.
        deleted: Labels of brackets and tags of words that do not count.
        deleted_for_length: Tags of words that do not count in the length of a sentence.
        equal_labels: Pairs of equal labels, in both orders. The relation is not transitive.
        equal_words: Pairs of equal words, in both orders. The relation is not transitive.
        quotes: Tags that taggers confuse at quotation marks.
        labelled: Whether labels count.
        cutoff: Length in words up to which sentences are summarised separately.
        max_error: As in EVALB, `max_error` + 1 sentences may be in error. None allows any number.
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
        """Return whether brackets with this label, or with an equal label, do not count."""
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

`ADVP` and `PRT` are one label. Unlike EVALB's file of that name, they allow any number of errors: a parser early in its
training makes many.
"""


def read_parameters(path: Path | str) -> Parameters:
    """Read a parameter file of EVALB. Parameters that it leaves out have EVALB's defaults.

    Raises:
        ZooError: A line has an unknown parameter or a value that is not valid.
    """
    parameters = Parameters(name=Path(path).name, max_error=10)
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.strip()) < _MIN_LINE_LENGTH:
            continue
        changed = _with_line(parameters, line.split())
        if changed is None:
            problem = f"{quote(line.strip())} is not a parameter of EVALB with its values"
            raise ZooError(problem, where=f"{path}:{number}", hint=_HINT)
        parameters = changed
    return parameters


def _with_line(known: Parameters, words: list[str]) -> Parameters | None:
    """Return the parameters after a line of the file, or None if the line is not valid."""
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
