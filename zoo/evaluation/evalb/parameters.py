"""What EVALB is told in a parameter file: what is deleted before trees are compared, and what counts as equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from specs import ZooError
from specs.errors import nearest
from zoo.text.lines import read_lines

_SHORT = 3  # letters: lines of fewer are passed over, as EVALB does


@dataclass(frozen=True, slots=True)
class Parameters:
    """How brackets are compared.

    `deleted` are labels of brackets and tags of words that do not count, and `deleted_for_length` tags of words that
    do not count in a sentence's length. `equal_labels` and `equal_words` hold each pair both ways round: they are
    pairs only, and do not chain. `quotes` are tags between which taggers waver at a quotation mark. `cutoff` is the
    length, in words, up to which sentences are summed up a second time. No more than `max_error` + 1 sentences may
    be in error; None is as many as there are.
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
        """Whether two labels, or two tags, count as one."""
        return label == other or (label, other) in self.equal_labels

    def same_word(self, word: str, other: str) -> bool:
        """Whether two words count as one."""
        return word == other or (word, other) in self.equal_words

    def deletes_bracket(self, label: str) -> bool:
        """Whether brackets of this label do not count; what equals a deleted label is deleted with it."""
        return label in self.deleted or any(
            label == each and other in self.deleted for each, other in self.equal_labels
        )


COLLINS = Parameters(
    name="collins",
    deleted=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    deleted_for_length=frozenset(["-NONE-"]),
    equal_labels=frozenset([("ADVP", "PRT"), ("PRT", "ADVP")]),
)
"""What parsers of English are compared by (Collins 1997): labelled brackets without the root's, traces and
punctuation, `ADVP` and `PRT` being one label. Its file stops at errors, too; without a file none is too many, for a
parser that has just begun to learn makes many."""


def read_parameters(path: Path | str) -> Parameters:
    """The parameters that EVALB would read from a file; what a file leaves out has EVALB's own value.

    Raises ZooError with file and line for what is no parameter, or no value of one.
    """
    found = Parameters(name=Path(path).name, max_error=10)
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.strip()) < _SHORT:
            continue
        keyword, *values = line.split()
        try:
            found = _with(found, keyword, values)
        except ValueError as error:
            raise ZooError(str(error), where=f"{path}:{number}", hint=_hint(keyword)) from None
    return found


def _with(found: Parameters, keyword: str, values: list[str]) -> Parameters:
    if keyword not in _READ:
        raise ValueError(f"`{keyword}` is no parameter of EVALB")
    wanted, change = _READ[keyword]
    if len(values) != wanted:
        raise ValueError(f"`{keyword}` takes {_COUNTS[wanted]}, and here stand {len(values)}")
    return change(found, *values)


def _number(keyword: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ValueError(f"`{keyword}` is a whole number, and `{value}` is none")
    return int(value)


def _labelled(found: Parameters, value: str) -> Parameters:
    if value not in ("0", "1"):
        raise ValueError(f"`LABELED` is 1 (labels count) or 0 (they do not), and not `{value}`")
    return replace(found, labelled=value == "1")


_READ: dict[str, tuple[int, Callable[..., Parameters]]] = {
    "DEBUG": (1, lambda found, _: found),
    "MAX_ERROR": (1, lambda found, value: replace(found, max_error=_number("MAX_ERROR", value))),
    "CUTOFF_LEN": (1, lambda found, value: replace(found, cutoff=_number("CUTOFF_LEN", value))),
    "LABELED": (1, _labelled),
    "DELETE_LABEL": (1, lambda found, label: replace(found, deleted=found.deleted | {label})),
    "DELETE_LABEL_FOR_LENGTH": (
        1,
        lambda found, label: replace(found, deleted_for_length=found.deleted_for_length | {label}),
    ),
    "QUOTE_LABEL": (1, lambda found, label: replace(found, quotes=found.quotes | {label})),
    "EQ_LABEL": (2, lambda found, a, b: replace(found, equal_labels=found.equal_labels | {(a, b), (b, a)})),
    "EQ_WORD": (2, lambda found, a, b: replace(found, equal_words=found.equal_words | {(a, b), (b, a)})),
}
"""How many values each parameter takes, and what they change."""

_COUNTS = {1: "one value", 2: "two values"}


def _hint(keyword: str) -> str:
    near = nearest(keyword, _READ)
    if keyword not in _READ and near is not None:
        return f"did you mean `{near}`?"
    return "a line is a parameter and its value, such as `DELETE_LABEL TOP` or `EQ_LABEL ADVP PRT`; `#` opens a comment"
