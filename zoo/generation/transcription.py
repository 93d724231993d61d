"""Transcripts of long recordings: windows that are cut at pauses, joined texts, and subtitles (SRT and WebVTT)."""

from __future__ import annotations

import string
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, Unpack

import numpy as np
import numpy.typing as npt

from specs import ZooError
from zoo.features.audio import HOP, SAMPLE_RATE, Audio, Samples, read_blocks
from zoo.features.modality import Frames
from zoo.generation.config import GenerationOptions
from zoo.generation.translation import Translation
from zoo.report import Report

if TYPE_CHECKING:
    from zoo.generation.recognizer import Recognizer

MAX_WINDOW_SECONDS = 30.0
"""Maximum length of a window."""
_MIN_WINDOW_SECONDS = 1.0
_PAUSE_SECONDS = 0.6
"""Shortest pause that always ends a window."""
_GAP_SECONDS = 0.2
"""Shortest pause at which a window is cut because it would be too long."""
_MARGIN_SECONDS = 0.2
"""Silence that a window has before and after the speech."""
_OVERLAP_SECONDS = 2.0
"""How much successive windows overlap if there is no pause between them."""
_HOP_SECONDS, _LEAST_ENERGY = 0.01, 1e-12
_SILENT_DECIBELS = -60.0
"""Level of speech below which a recording is silent."""
_EXTREME_HOPS = 10
"""The quietest and the loudest hops, which are clicks and gaps in the sound, do not count."""
_MIN_RANGE_DECIBELS, _MAX_RANGE_DECIBELS = 10.0, 50.0
"""Smallest difference between them at which there are pauses, and largest difference that is taken into account."""
_PAUSE_LEVEL = 0.3
"""Maximum level of a pause between that of the noise (0) and that of the speech (1)."""
_JOINED_WORDS = 20
"""Number of words at the end of a window and at the start of the next that are compared if the windows overlap."""
_LINE_CHARACTERS, _SUBTITLE_LINES = 42, 2
CHUNK_WINDOWS = 16
"""Number of windows that are recognised together."""


class Window(NamedTuple):
    """Part of a recording that a model reads at once."""

    values: Samples | Frames
    """The samples, or the frames that the model reads."""
    start: float
    end: float
    """Times in the recording, in seconds."""
    overlaps: bool
    """Whether the window begins with the end of the previous one."""


@dataclass(frozen=True)
class Segment:
    """Text of a part of a recording, with its start and its end in seconds."""

    start: float
    end: float
    text: str
    log_probability: float = 0.0
    """Mean natural log-probability of the tokens."""


@dataclass(frozen=True)
class Transcript:
    """Text of a recording. Times and the duration are in seconds."""

    segments: tuple[Segment, ...]
    duration: float

    @classmethod
    def of(cls, windows: Sequence[Window], results: Iterable[Translation], duration: float) -> Self:
        """Return the transcript of a recording, given the text of each of its windows."""
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

    @property
    def text(self) -> str:
        """The whole text."""
        return " ".join(segment.text for segment in self.segments)

    def to_txt(self) -> str:
        """Return the text, one segment per line."""
        return "".join(f"{segment.text}\n" for segment in self.segments)

    def to_srt(self) -> str:
        """Return subtitles in SubRip's format."""
        cues = enumerate(self._subtitles(), start=1)
        return "".join(f"{number}\n{_time(a, ',')} --> {_time(b, ',')}\n{text}\n\n" for number, (a, b, text) in cues)

    def to_vtt(self) -> str:
        """Return subtitles in the format WebVTT."""
        escaped = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
        cues = (f"\n{_time(a)} --> {_time(b)}\n{text.translate(escaped)}\n" for a, b, text in self._subtitles())
        return "WEBVTT\n" + "".join(cues)

    def _subtitles(self) -> Iterator[tuple[float, float, str]]:
        """Yield start, end and text of each subtitle. Long segments are divided by their numbers of characters."""
        for segment in self.segments:
            lines = textwrap.wrap(segment.text, _LINE_CHARACTERS)
            groups = [lines[i : i + _SUBTITLE_LINES] for i in range(0, len(lines), _SUBTITLE_LINES)]
            weights = np.cumsum([0, *(sum(map(len, group)) for group in groups)])
            times = segment.start + (segment.end - segment.start) * weights / max(1, weights[-1])
            for group, start, end in zip(groups, times, times[1:], strict=False):
                yield float(start), float(end), "\n".join(group)


FORMATS = {".txt": Transcript.to_txt, ".srt": Transcript.to_srt, ".vtt": Transcript.to_vtt}
"""Functions that write a transcript, by the suffix of the file to write."""


def _time(seconds: float, point: str = ".") -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def transcribe(
    recognizer: Recognizer, file: Path, report: Report | None = None, **options: Unpack[GenerationOptions]
) -> Transcript:
    """Return the transcript of a recording of any length. See `Recognizer.transcribe`."""
    seconds = max_window_seconds(recognizer)
    windows, results = list[Window](), list[Translation]()
    recording = Recording(file, recognizer.modality, seconds)
    with (report or Report()).progress("transcribe", None, "seconds") as progress:
        pending = iter(recording)
        while chunk := list(islice(pending, CHUNK_WINDOWS)):
            found = recognizer.recognize([window.values for window in chunk], **options)
            windows += [window._replace(values=window.values[:0]) for window in chunk]
            results += [best for best, *_ in found]
            progress.advance(round(chunk[-1].end - chunk[0].start))
    return Transcript.of(windows, results, recording.duration)


def max_window_seconds(recognizer: Recognizer) -> float:
    """Return the maximum length of a window: that of the longest recording in training, but at most 30 seconds.

    Raises:
        ZooError: The model does not read sound.
    """
    if not isinstance(recognizer.modality, Audio):
        problem = f"`{recognizer.spec.name}` reads {recognizer.spec.task.streams['source']}, not sound"
        raise ZooError(problem, hint="use a model that was trained on sound")
    longest = recognizer.preprocessor().max_source_length
    if recognizer.longest_source is not None:
        longest = min(longest, recognizer.longest_source)
    return min(MAX_WINDOW_SECONDS, max(_MIN_WINDOW_SECONDS, longest * HOP / SAMPLE_RATE))


class Recording:
    """Sound file as windows of frames, which can be read once.

    Attributes:
        duration: Length of the part that was read, in seconds.
    """

    def __init__(self, file: Path | BinaryIO, modality: Audio, max_seconds: float) -> None:
        """Open a recording.

        Args:
            file: The sound file.
            modality: Modality of the model.
            max_seconds: Maximum length of a window.
        """
        self._file, self._modality, self._max_seconds = file, modality, max_seconds
        self.duration = 0.0

    def __iter__(self) -> Iterator[Window]:
        """Yield the windows. Raise ZooError if the file cannot be read."""
        for window in split_windows(self._blocks(), SAMPLE_RATE, self._max_seconds):
            yield window._replace(values=self._modality.features(window.values))

    def _blocks(self) -> Iterator[Samples]:
        for block in read_blocks(self._file):
            self.duration += len(block) / SAMPLE_RATE
            yield block


def split_windows(blocks: Iterable[Samples], rate: int, max_seconds: float = MAX_WINDOW_SECONDS) -> Iterator[Window]:
    """Yield the windows of a recording that contain sound.

    A window ends at a pause. If there is none, it overlaps with the next window, so that a word at the cut is whole in
    one of them.

    Args:
        blocks: The samples, in blocks of any size. Only about two windows are in memory at the same time.
        rate: Number of samples per second.
        max_seconds: Maximum length of a window.
    """
    hop, limit = round(_HOP_SECONDS * rate), round(max_seconds / _HOP_SECONDS)
    margin, pending = min(round(_MARGIN_SECONDS / _HOP_SECONDS), limit // 4), iter(blocks)
    rest, start, overlaps = np.empty(0, np.float32), 0, False
    while True:
        rest = _fill(rest, pending, 2 * limit * hop)
        if not len(rest):
            return
        levels = _levels(rest, hop)
        silent = _silent(levels)
        heard = np.flatnonzero(~silent)
        skipped = max(0, int(heard[0]) - margin) if len(heard) else len(levels)
        if skipped:
            rest, start, overlaps = rest[skipped * hop :], start + skipped * hop, False
            continue
        end, following = _cut(levels, silent, limit)
        last = min(int(heard[heard < end][-1]) + 1 + margin, end)
        window = rest[: last * hop]
        yield Window(window, start / rate, (start + len(window)) / rate, overlaps)
        rest, start, overlaps = rest[following * hop :], start + following * hop, following < end


def _fill(rest: Samples, pending: Iterator[Samples], size: int) -> Samples:
    """Append further blocks until there are `size` samples, or the recording ends."""
    parts, available = [rest], len(rest)
    while available < size and (block := next(pending, None)) is not None:
        parts.append(block)
        available += len(block)
    return np.concatenate(parts)


def _levels(samples: Samples, hop: int) -> npt.NDArray[np.float64]:
    """Return the level of each hop of samples, in decibels relative to full scale."""
    padded = np.pad(samples, (0, -len(samples) % hop)).reshape(-1, hop)
    energy = np.square(padded, dtype=np.float64).mean(1)
    smooth = np.convolve(np.pad(energy, 1, "edge"), np.full(3, 1 / 3), "valid")
    return 10 * np.log10(smooth + _LEAST_ENERGY)


def _silent(levels: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which hops are silent, compared with the noise and the speech around them."""
    ordered = np.sort(levels)
    skipped = min(_EXTREME_HOPS, len(levels) // 2)
    noise, speech = ordered[skipped], ordered[-1 - skipped]
    noise = max(noise, speech - _MAX_RANGE_DECIBELS)
    if speech < _SILENT_DECIBELS:
        return np.ones(len(levels), np.bool_)
    if speech - noise < _MIN_RANGE_DECIBELS:
        return np.zeros(len(levels), np.bool_)
    return levels < noise + _PAUSE_LEVEL * (speech - noise)


def _cut(levels: npt.NDArray[np.float64], silent: npt.NDArray[np.bool_], limit: int) -> tuple[int, int]:
    """Return where the first window ends, and where the next one begins, in hops."""
    edges = np.flatnonzero(np.diff(silent, prepend=False, append=False))
    pauses = [(int(first), int(last)) for first, last in edges.reshape(-1, 2) if 0 < first < limit]
    for first, last in pauses:
        if last - first >= _PAUSE_SECONDS / _HOP_SECONDS:
            middle = min((first + last) // 2, limit)
            return middle, middle
    if len(levels) <= limit:
        return len(levels), len(levels)
    late = [(last - first, (first + last) // 2) for first, last in pauses if first >= limit // 2]
    longest, middle = max(late, default=(0, 0))
    if longest >= _GAP_SECONDS / _HOP_SECONDS:
        return min(middle, limit), min(middle, limit)
    end = limit // 2 + int(np.argmin(levels[limit // 2 : limit]))
    return end, end - min(round(_OVERLAP_SECONDS / _HOP_SECONDS), limit // 4)


def join_overlap(first: str, second: str) -> tuple[str, str]:
    """Return the texts of two overlapping windows without the words that both contain.

    The texts meet at the longest sequence of words that the end of the first and the start of the second text share.
    Without such words, both texts stay as they are.
    """
    left, right = first.split(), second.split()
    end, start = left[-_JOINED_WORDS:], right[:_JOINED_WORDS]
    plain = [[word.strip(string.punctuation).casefold() for word in words] for words in (end, start)]
    match = SequenceMatcher(None, *plain, autojunk=False).find_longest_match()
    if not match.size:
        return first, second
    kept = len(left) - len(end) + match.a + match.size
    return " ".join(left[:kept]), " ".join(right[match.b + match.size :])
