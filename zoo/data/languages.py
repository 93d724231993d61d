"""Detection of the language of a text, to find corpora that are not in the language that the spec specifies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from py3langid import classify, rank

_MIN_LETTERS = 20  # shorter lines are often guessed wrongly
_MIN_MARGIN = 10  # difference of log-probabilities; with 10, one Tatoeba sentence in 2,000 is wrongly recognised
_MIN_LINES, _MAX_CHARACTERS = 20, 500


def other_language(lines: Iterable[str], language: str) -> str | None:
    """Return the language of the lines if they are clearly not in the expected language, otherwise None.

    Args:
        lines: Some hundred lines of text.
        language: The expected language, such as `en` or `pt-BR`.

    Returns:
        The code of another language, if most of the long lines are in that language, and at most a fifth as many are
        in `language`. None otherwise, and also if there is too little text or py3langid does not know `language`.
    """
    expected = language.partition("-")[0]
    long_lines = [line[:_MAX_CHARACTERS] for line in lines if sum(map(str.isalpha, line)) >= _MIN_LETTERS]
    if len(long_lines) < _MIN_LINES or expected not in {code for code, _ in rank(long_lines[0])}:
        return None
    counts = Counter(classify(line)[0] for line in long_lines)
    best, count = counts.most_common(1)[0]
    return best if count > len(long_lines) / 2 and counts[expected] <= count / 5 else None


def is_other_language(line: str, language: str) -> bool:
    """Return whether a line with enough letters is clearly in another language than `language`."""
    if sum(map(str.isalpha, line)) < _MIN_LETTERS:
        return False
    scores = dict(rank(line[:_MAX_CHARACTERS]))
    own = scores.get(language.partition("-")[0])
    return own is not None and max(scores.values()) - own > _MIN_MARGIN
