"""Parameters of EVALB: what is deleted before trees are compared, and what counts as equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from specs import ZooError
from specs.errors import nearest
from zoo.text.lines import read_lines

_MIN_LINE_LENGTH = 3  # EVALB ignores shorter lines


@dataclass(frozen=True, slots=True)
class Parameters:
    """Options of the comparison of brackets.

    Attributes:
        name: Name of the parameters, for the signature.
        deleted: Labels of brackets and tags of words that do not count.
        deleted_for_length: Tags of words that do not count in the length of a sentence.
        equal_labels: Pairs of equal labels, in both orders. The relation is not transitive.
        equal_words: Pairs of equal words, in both orders. The relation is not transitive.
        quotes: Tags that taggers confuse at quotation marks.
        labelled: Whether labels count.
        cutoff: Length in words up to which sentences are summarised separately.
        max_error: One less than the number of sentences that may be in error. None allows any number.
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

`ADVP` and `PRT` are one label. Unlike EVALB's file of that name, they allow any number of errors, because a parser early
in its training makes many.
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
        keyword, *values = line.split()
        try:
            parameters = _set(parameters, keyword, values)
        except ValueError as error:
            raise ZooError(str(error), where=f"{path}:{number}", hint=_hint(keyword)) from None
    return parameters


def _set(parameters: Parameters, keyword: str, values: list[str]) -> Parameters:
    if keyword not in _SETTERS:
        raise ValueError(f"`{keyword}` is not a parameter of EVALB")
    count, setter = _SETTERS[keyword]
    if len(values) != count:
        raise ValueError(f"`{keyword}` takes {_COUNTS[count]}, but {len(values)} are given")
    return setter(parameters, *values)


def _parse_number(keyword: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ValueError(f"`{keyword}` must be a whole number, and `{value}` is not")
    return int(value)


def _set_labelled(parameters: Parameters, value: str) -> Parameters:
    if value not in ("0", "1"):
        raise ValueError(f"`LABELED` must be 1 (labels count) or 0 (labels do not count), not `{value}`")
    return replace(parameters, labelled=value == "1")


_SETTERS: dict[str, tuple[int, Callable[..., Parameters]]] = {
    "DEBUG": (1, lambda known, _: known),
    "MAX_ERROR": (1, lambda known, value: replace(known, max_error=_parse_number("MAX_ERROR", value))),
    "CUTOFF_LEN": (1, lambda known, value: replace(known, cutoff=_parse_number("CUTOFF_LEN", value))),
    "LABELED": (1, _set_labelled),
    "DELETE_LABEL": (1, lambda known, label: replace(known, deleted=known.deleted | {label})),
    "DELETE_LABEL_FOR_LENGTH": (
        1,
        lambda known, label: replace(known, deleted_for_length=known.deleted_for_length | {label}),
    ),
    "QUOTE_LABEL": (1, lambda known, label: replace(known, quotes=known.quotes | {label})),
    "EQ_LABEL": (2, lambda known, a, b: replace(known, equal_labels=known.equal_labels | {(a, b), (b, a)})),
    "EQ_WORD": (2, lambda known, a, b: replace(known, equal_words=known.equal_words | {(a, b), (b, a)})),
}
"""For each parameter, the number of its values, and the function that sets it."""

_COUNTS = {1: "one value", 2: "two values"}


def _hint(keyword: str) -> str:
    suggestion = nearest(keyword, _SETTERS)
    if keyword not in _SETTERS and suggestion is not None:
        return f"did you mean `{suggestion}`?"
    return "write a parameter and its values, such as `DELETE_LABEL TOP` or `EQ_LABEL ADVP PRT`; `#` starts a comment"
