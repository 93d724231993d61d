"""Clean the training text: select the pairs to train on, and count the dropped pairs for each reason."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from py3langid import classify as detect_language
from py3langid import rank

from specs import Corpus, ZooError
from specs.corpus import Filter
from zoo.data.corpus import Example, cleaned_example
from zoo.data.store import Rows
from zoo.system.memory import machine_memory, require_memory
from zoo.text.language_codes import base_language
from zoo.text.lines import clean

Statuses = npt.NDArray[np.uint8]
_BYTES_PER_PAIR, _BYTES_PER_HASHED_PAIR = 2, 40  # memory for a status, and for a hash with its sort index
_PAIRS_BETWEEN_MEMORY_CHECKS = 1 << 20
_MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|&(#\d+|#x[\da-f]+|[a-z]{2,8});", re.IGNORECASE)
_MIN_LETTERS = 20  # the language of shorter lines is often detected wrongly
_MIN_MARGIN = 10  # difference in log-probability; with 10, one Tatoeba sentence in 2,000 is wrongly recognised
_MIN_LINES, _MAX_CHARACTERS = 20, 500
_MEMORY_HINT = "train on fewer pairs, or set `corpus.deduplicate=false` and hold out no pairs"


class Status(IntEnum):
    """Status of a training pair: how it is used, or why it is dropped."""

    KEPT = 0
    EMPTY = 1
    DUPLICATE = 2
    DEV = 3
    TEST = 4
    SAME_SOURCE = 5
    """Not used because a pair that is held out for dev or test has the same source."""
    COPY = 6
    MARKUP = 7
    LANGUAGE = 8


REASONS: dict[str, str] = {
    "empty": "with an empty side",
    "unusable": "with unusable files",
    "duplicate": "duplicates",
    "copy": "with identical sides",
    "markup": "with HTML",
    "language": "in another language",
    "held_out": "held out",
    "long": "too long",
    "ratio": "with very different lengths",
}
"""Description of each reason why pairs are dropped. The reasons are also fields of `CleaningCounts`."""


@dataclass(frozen=True)
class CleaningCounts:
    """Numbers of training pairs that are kept, held out, or dropped for each reason."""

    read: int = 0
    empty: int = 0
    """Pairs that are dropped because the source or the target contains no text."""
    unusable: int = 0
    """Pairs that are dropped because the source file is damaged or not supported."""
    duplicate: int = 0
    """Pairs that are dropped because the same pair occurred before."""
    held_out: int = 0
    """Pairs that are held out for dev or test, or that have the same source as a held-out pair."""
    long: int = 0
    """Pairs that are dropped because the source or the target has more than `corpus.max_length` tokens."""
    ratio: int = 0
    """Pairs that are dropped because one side has more than `corpus.max_ratio` times as many tokens as the other."""
    copy: int = 0
    """Pairs that `corpus.filters` drops because both sides are equal."""
    markup: int = 0
    """Pairs that `corpus.filters` drops because a side contains HTML."""
    language: int = 0
    """Pairs that `corpus.filters` drops because a side is in another language."""
    kept: int = 0
    control: int = 0
    """Pairs in which spaces replaced control characters. These pairs also count in another field."""

    def __str__(self) -> str:
        """Describe all counts on one line."""
        counts = ((getattr(self, reason), description) for reason, description in REASONS.items())
        dropped = ", ".join(f"{count:,} {description}" for count, description in counts if count)
        control = f" (spaces replaced control characters in {self.control:,})" if self.control else ""
        return f"{self.read:,} pairs read{control}, {self.kept:,} kept; dropped: {dropped or 'none'}"

    def dropped_for(self, reasons: Sequence[str]) -> CleaningCounts:
        """Return these counts after dropping some kept pairs for the given reasons (see `reasons_to_drop`)."""
        dropped = Counter(filter(None, reasons))
        counts = {reason: getattr(self, reason) + count for reason, count in dropped.items()}
        return replace(self, kept=self.kept - dropped.total(), **counts)


def classify(
    examples: Iterable[tuple[Example, Status]], *, deduplicate: bool, dev: int = 0, test: int = 0
) -> tuple[Statuses, CleaningCounts]:
    """Determine how each training pair is used: kept, dropped, or held out for dev or test.

    The pairs whose first streams have the smallest hashes are held out, so that the selection does not depend on the
    order of the sentences. All pairs with the same source are held out together. If the last held-out source has more
    pairs than needed, its remaining pairs are not used.

    Each pair needs up to 2 bytes of memory, plus 40 bytes to find duplicates, plus 40 bytes to hold out pairs.

    Args:
        examples: The training text, and the status of each example from `apply_filters`.
        deduplicate: Whether to drop repeated pairs.
        dev: Number of pairs to hold out for dev.
        test: Number of pairs to hold out for test.

    Returns:
        Status of each pair, `[pairs]`, and the counts. Pairs with unsuitable lengths are still counted as kept (see
        `reasons_to_drop`).

    Raises:
        ZooError: There are not enough pairs to hold out, or there is not enough memory.
    """
    statuses, first_hashes, hashes = array("B"), array("Q"), array("Q")
    control = 0
    pair_bytes = _BYTES_PER_PAIR + _BYTES_PER_HASHED_PAIR * (bool(dev or test) + deduplicate)
    for example, status in examples:
        if len(statuses) % _PAIRS_BETWEEN_MEMORY_CHECKS == 0:
            require_memory(
                len(statuses) * pair_bytes, machine_memory(), "classifying the pairs of `corpus.train`", _MEMORY_HINT
            )
        cleaned = [clean(raw) for raw in example.values()]
        control += any(raw.strip() != kept for raw, kept in zip(example.values(), cleaned, strict=True))
        statuses.append(status if all(cleaned) else Status.EMPTY)
        if dev or test:
            first_hashes.append(_hash(cleaned[0]))
        if deduplicate:
            hashes.append(_hash("\n".join(cleaned)))
    result = np.array(statuses, np.uint8)
    if deduplicate:
        _mark_duplicates(result, np.array(hashes, np.uint64))
    if dev or test:
        _hold_out(result, np.array(first_hashes, np.uint64), ((Status.DEV, dev), (Status.TEST, test)))
    return result, _count(result, control)


def _count(statuses: Statuses, control: int = 0) -> CleaningCounts:
    counts = {status.name.lower(): int(np.count_nonzero(statuses == status)) for status in Status}
    held_out = sum(counts.pop(name) for name in ("dev", "test", "same_source"))
    return CleaningCounts(read=len(statuses), held_out=held_out, control=control, **counts)


def apply_filters(example: Example, filters: Iterable[Filter], languages: Mapping[str, str]) -> Status:
    """Return the status for the first filter that matches an example, or KEPT if no filter matches.

    Args:
        example: The example.
        filters: Names of the filters, as in `corpus.filters`.
        languages: Language of each stream.
    """
    cleaned = cleaned_example(example)
    tests: dict[Filter, Callable[[], bool]] = {
        "copy": lambda: len({*cleaned.values()}) < len(cleaned),
        "markup": lambda: any(map(_MARKUP.search, cleaned.values())),
        "language": lambda: any(is_other_language(text, languages[name]) for name, text in cleaned.items()),
    }
    return next((Status[name.upper()] for name in filters if tests[name]()), Status.KEPT)


def reasons_to_drop(values: Rows, section: Corpus, *, features: bool = False) -> list[str]:
    """Check the lengths of examples. For each example, return a key of REASONS to drop it, or "" to keep it.

    Args:
        values: Token IDs or features of the examples, by stream.
        section: Settings for the corpus, such as `corpus.max_length` and `corpus.max_ratio`.
        features: Whether the first stream consists of features. If so, an example without frames is dropped, because
            its file is unusable.
    """
    lengths = np.array([[len(row) for row in rows] for rows in values.values()], np.int64).reshape(len(values), -1)
    shorter, longer = lengths.min(0), lengths.max(0)
    reasons = {
        "unusable": (lengths[0] == 0) & features,
        "empty": shorter == 0,
        "long": longer > section.max_length,
        "ratio": longer > (section.max_ratio or np.inf) * np.maximum(shorter, 1),
    }
    found: list[str] = np.select([*reasons.values()], [*reasons], "").tolist()
    return found


def _hash(text: str) -> int:
    """Return a 64-bit hash. For ten million sentences, the probability of a collision is three in a million."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _mark_duplicates(statuses: Statuses, hashes: npt.NDArray[np.uint64]) -> None:
    kept = np.flatnonzero(statuses == Status.KEPT)
    _, first = np.unique(hashes[kept], return_index=True)
    repeated = np.ones(len(kept), bool)
    repeated[first] = False
    statuses[kept[repeated]] = Status.DUPLICATE


def _hold_out(statuses: Statuses, hashes: npt.NDArray[np.uint64], sets: Iterable[tuple[Status, int]]) -> None:
    kept = np.flatnonzero(statuses == Status.KEPT)
    # A stable sort leaves the pairs of one source in the order of the text.
    order = kept[np.argsort(hashes[kept], kind="stable")]
    sorted_hashes = hashes[order]
    start = 0
    for status, count in sets:
        end = start + count
        if end > len(order):
            raise ZooError(
                f"`corpus.{status.name.lower()}` holds out {count:,} pairs, but `corpus.train` has only "
                f"{len(order) - start:,} left ({_count(statuses)})",
                hint="hold out fewer pairs, or add training text",
            )
        statuses[order[start:end]] = status
        last = np.searchsorted(sorted_hashes, sorted_hashes[end - 1], side="right") if count else start
        statuses[order[end:last]] = Status.SAME_SOURCE
        start = max(int(last), end)


def other_language(lines: Iterable[str], language: str) -> str | None:
    """Detect whether lines are clearly not in the expected language.

    Args:
        lines: Several hundred lines of text.
        language: Code of the expected language, such as `en` or `pt-BR`.

    Returns:
        The code of another language, if most long lines are in that language, and at least five times as many as in
        `language`. Otherwise None, for example if there is too little text or py3langid does not know `language`.
    """
    expected = base_language(language)
    long_lines = [line[:_MAX_CHARACTERS] for line in lines if sum(map(str.isalpha, line)) >= _MIN_LETTERS]
    if len(long_lines) < _MIN_LINES or expected not in {code for code, _ in rank(long_lines[0])}:
        return None
    counts = Counter(detect_language(line)[0] for line in long_lines)
    best, count = counts.most_common(1)[0]
    return best if count > len(long_lines) / 2 and counts[expected] <= count / 5 else None


def is_other_language(line: str, language: str) -> bool:
    """Return whether a line is clearly in a different language. If the line has few letters, return False."""
    if sum(map(str.isalpha, line)) < _MIN_LETTERS:
        return False
    scores = dict(rank(line[:_MAX_CHARACTERS]))
    own = scores.get(base_language(language))
    return own is not None and max(scores.values()) - own > _MIN_MARGIN
