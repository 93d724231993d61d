"""`ZooError`, the exception for every error that a user can act upon. It has a problem, a location and a hint."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from specs.notation import printable

_MIN_SIMILARITY, _MIN_SIMILARITY_OF_SHORT_WORDS = 0.7, 0.6
_SHORT_WORD = 5  # letters
_MIN_PREFIX = 3  # letters


class ZooError(Exception):
    """Error that a user can read and act upon.

    Text that comes from files or the command line is escaped, so that it is safe to print. `str(error)` contains all
    problems and hints.

    Attributes:
        problem: What is wrong, with the value.
        where: Location where the value was written ("specs/mine.yaml:4"), or None.
        hint: What to do, or None.
        exit_code: 2 if the user made a mistake; 1 if the environment failed (network, disk, a damaged file).
        additional: Further errors in the same spec, in the order of its lines.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        exit_code: int = 2,
        additional: Sequence["ZooError"] = (),
    ) -> None:
        self.problem = printable(problem)
        self.where = None if where is None else printable(where)
        self.hint = None if hint is None else printable(hint)
        self.exit_code = exit_code
        self.additional = tuple(additional)
        super().__init__(self.problem)

    def locate(self, where: str | None) -> None:
        """Set the location where the value was written, unless the error already has a location."""
        self.where = self.where or (where and printable(where))

    @property
    def summary(self) -> str:
        """The problem and its location, without the hint."""
        return self.problem if self.where is None else f"{self.problem} ({self.where})"

    @property
    def with_hint(self) -> str:
        """The problem, its location and the hint, without the additional errors."""
        return f"{self.summary}\n\nhint: {self.hint}" if self.hint else self.summary

    def __str__(self) -> str:
        return "\n\n".join(error.with_hint for error in (self, *self.additional))


def install_hint(extra: str) -> str:
    """Return a hint that tells the user how to install zoo's optional dependencies, such as the extra `serve`."""
    return f"run `pip install -e '.[{extra}]'` in zoo's source folder"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `word`, or None if no choice is similar."""
    choice_of, lower = {choice.lower(): choice for choice in choices}, word.lower()
    cutoff = _MIN_SIMILARITY_OF_SHORT_WORDS if len(lower) <= _SHORT_WORD else _MIN_SIMILARITY
    if matches := get_close_matches(lower, choice_of, n=1, cutoff=cutoff):
        return choice_of[matches[0]]
    for choice in choice_of:
        is_prefix = choice.startswith(lower) or lower.startswith(choice)
        if is_prefix and min(len(choice), len(lower)) >= _MIN_PREFIX:
            return choice_of[choice]
    return None


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the hint "did you mean `x`? " with the most similar choice, or "" if no choice is similar."""
    near = nearest(word, choices)
    return f"did you mean `{near}`? " if near else ""
