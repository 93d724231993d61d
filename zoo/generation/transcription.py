"""Transcripts of long recordings: limit the window length, join the texts of windows, and format subtitles."""

from __future__ import annotations

import string
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from operator import eq
from typing import TYPE_CHECKING, Self

import numpy as np

from specs import ZooError
from zoo.features.audio import HOP, SAMPLE_RATE, Audio
from zoo.features.windows import Window
from zoo.generation.translation import Translation

if TYPE_CHECKING:
    from zoo.generation.recognizer import Recognizer

MAX_WINDOW_SECONDS = 30.0
"""Maximum length of a window."""
_MIN_WINDOW_SECONDS = 1.0
_JOINED_WORDS = 20
"""Number of words that are compared at the end of a window and at the start of an overlapping window."""
_LINE_CHARACTERS, _SUBTITLE_LINES = 42, 2


@dataclass(frozen=True)
class Segment:
    """Text of a part of a recording, with the start and the end of the part in seconds."""

    start: float
    end: float
    text: str
    log_probability: float = 0.0
    """Mean natural log-probability of the tokens."""


@dataclass(frozen=True)
class Transcript:
    """Transcript of a recording: segments of text with start and end times. All times are in seconds."""

    segments: tuple[Segment, ...]
    duration: float

    @classmethod
    def of(cls, windows: Sequence[Window], results: Iterable[Translation], duration: float) -> Self:
        """Join the texts of a recording's windows into a transcript. Where windows overlap, remove repeated words."""
        segments = list[Segment]()
        for window, result in zip(windows, results, strict=True):
            start, text = window.start, result.text
            if window.overlaps and segments:
                before, text = join_overlap(segments[-1].text, text)
                start = (window.start + segments[-1].end) / 2
                segments[-1] = replace(segments[-1], text=before, end=start)
            mean = result.log_probability / (len(result.tokens) + 1)
            segments.append(Segment(start, window.end, text, mean))
        return cls(tuple(segment for segment in segments if segment.text), duration)

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The whole text."""
        return " ".join(segment.text for segment in self.segments)

    def to_txt(self) -> str:
        """Return the text, one segment per line."""
        return "".join(f"{segment.text}\n" for segment in self.segments)

    def to_srt(self) -> str:
        """Return subtitles in SubRip (SRT) format."""
        cues = enumerate(self._subtitles(), start=1)
        return "".join(f"{number}\n{_time(a, ',')} --> {_time(b, ',')}\n{text}\n\n" for number, (a, b, text) in cues)

    def to_vtt(self) -> str:
        """Return subtitles in WebVTT format."""
        escaped = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
        cues = (f"\n{_time(a)} --> {_time(b)}\n{text.translate(escaped)}\n" for a, b, text in self._subtitles())
        return "WEBVTT\n" + "".join(cues)

    def _subtitles(self) -> Iterator[tuple[float, float, str]]:
        """Yield the start, the end and the text of each subtitle.

        Long segments are split into several subtitles, whose durations are proportional to the lengths of their texts.
        """
        for segment in self.segments:
            lines = textwrap.wrap(segment.text, _LINE_CHARACTERS)
            groups = [lines[i : i + _SUBTITLE_LINES] for i in range(0, len(lines), _SUBTITLE_LINES)]
            weights = np.cumsum([0, *(sum(map(len, group)) for group in groups)])
            times = segment.start + (segment.end - segment.start) * weights / max(1, weights[-1])
            for group, start, end in zip(groups, times, times[1:], strict=False):
                yield float(start), float(end), "\n".join(group)


FORMATS = {".txt": Transcript.to_txt, ".srt": Transcript.to_srt, ".vtt": Transcript.to_vtt}
"""Methods that format a transcript, keyed by the suffix of the file to write."""


def _time(seconds: float, point: str = ".") -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def max_window_seconds(recognizer: Recognizer) -> float:
    """Return the maximum window length in seconds: half the length of the longest training recording.

    In windows as long as the longest training recording, a model omits words, because it was trained on few recordings
    of that length. The result is at most `decoding.max_source_length` (a number of frames), and in any case between 1
    and 30 seconds. If the longest training recording is unknown, return the largest window length that these limits
    allow.

    Raises:
        ZooError: The model does not read audio.
    """
    if not isinstance(recognizer.modality, Audio):
        read = recognizer.spec.task.streams["source"]
        problem = f"`{recognizer.spec.name}` does not read audio: the kind of its `task.source` is `{read}`"
        raise ZooError(problem, hint="use a model that was trained on audio")
    longest = recognizer.preprocessor().max_source_length
    if recognizer.longest_source is not None:
        longest = min(longest, recognizer.longest_source // 2)
    return min(MAX_WINDOW_SECONDS, max(_MIN_WINDOW_SECONDS, longest * HOP / SAMPLE_RATE))


def join_overlap(first: str, second: str) -> tuple[str, str]:
    """Remove the repeated words at the boundary between the texts of two overlapping windows.

    The texts meet at the longest sequence of words that occurs at the end of the first and at the start of the second
    text. A sequence of n words is ignored if joining the texts there would remove more than 2n other words. If
    no sequence is left, return both texts unchanged.
    """
    left, right = first.split(), second.split()
    end, start = left[-_JOINED_WORDS:], right[:_JOINED_WORDS]
    plain, other = ([word.strip(string.punctuation).casefold() for word in words] for words in (end, start))
    matches = [
        (size, a - b, a + size, b + size)  # if sizes are equal, `max` removes the fewest words
        for a, b in product(range(len(end)), range(len(start)))
        if (size := sum(takewhile(bool, map(eq, plain[a:], other[b:])))) and len(end) - a + b <= 3 * size
    ]
    if not matches:
        return first, second
    *_, kept, skipped = max(matches)
    return " ".join(left[: len(left) - len(end) + kept]), " ".join(right[skipped:])
