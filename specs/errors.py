"""The one error that a person sees, and its grammar: what is wrong, where it was written, the remedy."""

from collections.abc import Iterable
from difflib import get_close_matches


class ZooError(Exception):
    """Something a person can read and act upon.

    `problem` says what is wrong with the value, `where` the place it was written ("specs/mine.yaml:4"),
    `hint` the remedy; its text has them all. `exit_code` is 2 where the person can mend it and 1 where the world failed
    (network, disk, a broken file).
    """

    def __init__(self, problem: str, *, where: str | None = None, hint: str | None = None, exit_code: int = 2) -> None:
        super().__init__(problem if where is None else f"{problem} ({where})")
        self.problem = problem
        self.where = where
        self.hint = hint
        self.exit_code = exit_code

    @property
    def summary(self) -> str:
        """What is wrong, and where; without the remedy."""
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.summary}\n\nhint: {self.hint}" if self.hint else self.summary


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` was probably meant to be, or None where none is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
