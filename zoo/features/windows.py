"""Windows: parts of long recordings, cut at pauses, so that a model can read recordings of any length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

import specs
from zoo.features.audio import SAMPLE_RATE, Audio, Samples, read_blocks
from zoo.features.modality import Frames

_PAUSE_SECONDS = 0.6
"""Minimum length of a pause that always ends a window."""
_GAP_SECONDS = 0.2
"""Minimum length of a pause that ends a window after `_GAP_START` of the maximum window length."""
_GAP_START = 1 / 3
"""Fraction of the maximum window length after which a short pause ends a window."""
_MARGIN_SECONDS = 0.2
"""Length of the silence in a window before and after the speech."""
_OVERLAP_SECONDS = 2.0
"""Overlap of successive windows if there is no pause between them."""
_HOP_SECONDS, _LEAST_ENERGY = 0.01, 1e-12
_SILENT_DECIBELS = -60.0
"""A recording counts as silent if the level of its speech is below this value."""
_EXTREME_HOPS = 10
"""Number of quietest hops (gaps in the sound) to ignore, and number of loudest hops (clicks) to ignore."""
_MIN_RANGE_DECIBELS, _MAX_RANGE_DECIBELS = 10.0, 50.0
"""Smallest level difference at which speech and noise are distinguished, and largest level difference that is used."""
_PAUSE_LEVEL = 0.3
"""Maximum level of a pause, on a scale from the noise (0) to the speech (1)."""


class Window(NamedTuple):
    """Part of a recording that a model reads as one input."""

    values: Samples | Frames
    """The samples, or the frames that the model reads."""
    start: float
    """Start of the window in the recording, in seconds."""
    end: float
    """End of the window in the recording, in seconds."""
    overlaps: bool
    """Whether the window begins before the end of the previous window."""


class Recording:
    """Iterable that splits an audio file into windows (parts that a model reads as one input), and yields their frames.

    A recording can be iterated only once.

    Attributes:
        duration: Length of the audio that has been read so far, in seconds.
    """

    def __init__(
        self, file: Path | BinaryIO, modality: Audio, max_seconds: float, limit_seconds: float = math.inf
    ) -> None:
        """Open a recording.

        Args:
            file: Audio file to split: its path, or the file opened in binary mode.
            modality: The model's `audio` modality, which computes the frames.
            max_seconds: Maximum length of a window, in seconds.
            limit_seconds: Maximum length of the recording, in seconds.
        """
        self._file, self._modality = file, modality
        self._max_seconds, self._limit_seconds = max_seconds, limit_seconds
        self.duration = 0.0

    def __iter__(self) -> Iterator[Window]:
        """Yield the windows. Raise ZooError if the file cannot be read, or is too long."""
        for window in split_windows(self._blocks(), SAMPLE_RATE, self._max_seconds):
            yield window._replace(values=self._modality.features(window.values))

    def _blocks(self) -> Iterator[Samples]:
        for block in read_blocks(self._file, self._limit_seconds):
            self.duration += len(block) / SAMPLE_RATE
            yield block


def read_windows(
    content: bytes, options: specs.Audio, max_seconds: float, limit_seconds: float
) -> tuple[list[Window], float]:
    """Split an audio file in memory into windows. Return the windows, and the length of the recording in seconds.

    Args:
        content: Content of the audio file.
        options: Options for the model's `audio` modality.
        max_seconds: Maximum length of a window, in seconds.
        limit_seconds: Maximum length of the recording, in seconds.
    """
    recording = Recording(BytesIO(content), Audio(options), max_seconds, limit_seconds)
    return list(recording), recording.duration


def split_windows(blocks: Iterable[Samples], rate: int, max_seconds: float) -> Iterator[Window]:
    """Split a recording into windows, and yield the windows that contain sound.

    A window ends at a pause. If there is no pause, two windows overlap, so that a word at the cut is complete in one of
    them.

    Args:
        blocks: The samples, in blocks of any size. Only about two windows are in memory at the same time.
        rate: Number of samples per second.
        max_seconds: Maximum length of a window, in seconds.
    """
    hop, limit = round(_HOP_SECONDS * rate), round(max_seconds / _HOP_SECONDS)
    margin, pending = min(round(_MARGIN_SECONDS / _HOP_SECONDS), limit // 4), iter(blocks)
    rest, start, overlaps, size = np.empty(0, np.float32), 0, False, 2 * limit * hop
    previous = -math.inf
    while True:
        rest = _fill(rest, pending, size)
        if not len(rest):
            return
        levels = _levels(rest[:size], hop)
        threshold = _threshold(levels, previous)
        previous = threshold if math.isfinite(threshold) else previous
        silent = levels < threshold
        heard = np.flatnonzero(~silent)
        if len(heard):
            skipped = max(0, int(heard[0]) - margin)
        else:  # speech may begin in the last hops
            skipped = len(levels) - (_EXTREME_HOPS if len(rest) >= size else 0)
        if skipped:
            rest, start, overlaps = rest[skipped * hop :], start + skipped * hop, False
            continue
        end, following = _cut(levels, silent, limit)
        last = min(int(heard[heard < end][-1]) + 1 + margin, end)
        window = rest[: last * hop]
        yield Window(window, start / rate, (start + len(window)) / rate, overlaps)
        rest, start, overlaps = rest[following * hop :], start + following * hop, following < end


def _fill(rest: Samples, pending: Iterator[Samples], size: int) -> Samples:
    """Append further blocks to samples until there are `size` samples, or the recording ends."""
    parts, available = [rest], len(rest)
    while available < size and (block := next(pending, None)) is not None:
        parts.append(block)
        available += len(block)
    return np.concatenate(parts) if len(parts) > 1 else rest


def _levels(samples: Samples, hop: int) -> npt.NDArray[np.float64]:
    """Return the level of each block of `hop` samples, in decibels relative to full scale."""
    padded = np.pad(samples, (0, -len(samples) % hop)).reshape(-1, hop)
    energy = np.square(padded, dtype=np.float64).mean(1)
    smooth = np.convolve(np.pad(energy, 1, "edge"), np.full(3, 1 / 3), "valid")
    return 10 * np.log10(smooth + _LEAST_ENERGY)


def _threshold(levels: npt.NDArray[np.float64], previous: float) -> float:
    """Return the level in decibels below which a hop (a short block of samples) is silent.

    Args:
        levels: Level of each hop, in decibels.
        previous: The previous threshold, which is returned if the hops contain only speech or only noise.
    """
    ordered = np.sort(levels)
    skipped = min(_EXTREME_HOPS, len(levels) // 2)
    noise, speech = ordered[skipped], ordered[-1 - skipped]
    if speech < _SILENT_DECIBELS:
        return math.inf
    if speech - noise < _MIN_RANGE_DECIBELS:
        return previous
    noise = max(noise, speech - _MAX_RANGE_DECIBELS)
    return float(noise + _PAUSE_LEVEL * (speech - noise))


def _cut(levels: npt.NDArray[np.float64], silent: npt.NDArray[np.bool_], limit: int) -> tuple[int, int]:
    """Return the end of the first window and the start of the next window, in hops (short blocks of samples).

    Args:
        levels: Sound level of each hop, in decibels.
        silent: Whether each hop is silent.
        limit: Maximum length of a window, in hops.
    """
    edges = np.flatnonzero(np.diff(silent, prepend=False, append=False))
    pauses = [(int(first), int(last)) for first, last in edges.reshape(-1, 2) if 0 < first < limit]
    for first, last in pauses:
        shortest = _PAUSE_SECONDS if first < limit * _GAP_START else _GAP_SECONDS
        if last - first >= shortest / _HOP_SECONDS:
            middle = min((first + last) // 2, limit)
            return middle, middle
    if len(levels) <= limit:
        return len(levels), len(levels)
    end = limit // 2 + int(np.argmin(levels[limit // 2 : limit]))
    return end, end - min(round(_OVERLAP_SECONDS / _HOP_SECONDS), limit // 4)
