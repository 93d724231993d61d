"""The one error that a person sees, and its grammar: what is wrong, where it was written, the remedy."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from specs.notation import printable

_NEAR, _NEAR_SHORT = 0.7, 0.6
_SHORT = 5  # letters: of so few, one that is wrong is much
_BEGINNING = 3


class ZooError(Exception):
    """Something a person can read and act upon.

    `problem` says what is wrong with the value, `where` the place it was written ("specs/mine.yaml:4"),
    `hint` the remedy. `exit_code` is 2 where the person can mend it and 1 where the world failed (network, disk, a
    broken file). `further` are the other errors of the same spec, in the order of reading. Its text has all of them,
    with the remedies. Whatever a person wrote and these words quote is made printable here.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        exit_code: int = 2,
        further: Sequence["ZooError"] = (),
    ) -> None:
        self.problem = printable(problem)
        self.where = None if where is None else printable(where)
        self.hint = None if hint is None else printable(hint)
        self.exit_code = exit_code
        self.further = tuple(further)
        super().__init__(self.problem if where is None else f"{self.problem} ({self.where})")

    @property
    def summary(self) -> str:
        """What is wrong, and where; without the remedy."""
        return str(self.args[0])

    @property
    def alone(self) -> str:
        """Without those that are further ones."""
        return f"{self.summary}\n\nhint: {self.hint}" if self.hint else self.summary

    def __str__(self) -> str:
        return "\n\n".join(each.alone for each in (self, *self.further))


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` was probably meant to be, or None where none is near."""
    by_lower, lower = {choice.lower(): choice for choice in choices}, word.lower()
    found = get_close_matches(lower, by_lower, n=1, cutoff=_NEAR_SHORT if len(lower) <= _SHORT else _NEAR)
    if found:
        return by_lower[found[0]]
    # Cut short, or with something added.
    begun = (each for each in by_lower if min(len(each), len(lower)) >= _BEGINNING and _one_begins(each, lower))
    return by_lower.get(next(begun, ""))


def _one_begins(word: str, other: str) -> bool:
    return word.startswith(other) or other.startswith(word)
