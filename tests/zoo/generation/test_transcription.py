"""Joined texts of windows, and subtitles."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pytest

import specs
from zoo.features.audio import Audio
from zoo.features.windows import Window
from zoo.generation import recognizer
from zoo.generation.transcription import Segment, Transcript, join_overlap, max_window_seconds
from zoo.generation.translation import Translation


def test_texts_of_overlapping_windows_meet_at_their_common_words() -> None:
    assert join_overlap("we saw the old dog in", "Old dog, in the house.") == ("we saw the old dog in", "the house.")
    assert join_overlap("one two thr", "two three four") == ("one two", "three four")
    assert join_overlap("one two", "three four") == ("one two", "three four")
    assert join_overlap("", "three") == ("", "three")
    assert join_overlap("a b c d", "c") == ("a b c", "")
    assert join_overlap("so", "and so we") == ("so", "we")


def test_chance_matches_of_words_remove_no_text() -> None:
    """A common word far from the cut is no overlap, even if it is the only word that both texts contain."""
    first, second = "he said the old man went to the river in a boa", "boat with red sails and then the wind came up"
    assert join_overlap(first, second) == (first, second)
    assert join_overlap(f"{first} and", f"and {second}") == (f"{first} and", second)
    first, second = "yes - so we all left", "we came to the town - then"
    assert join_overlap(first, second) == ("yes - so we", "came to the town - then")


def test_subtitles_have_times_and_short_lines() -> None:
    long = "word " * 40
    transcript = Transcript((Segment(0.5, 2.0004, "a < b & c"), Segment(3599.9996, 3610, long.strip())), 3700.0)
    srt = transcript.to_srt()
    assert srt.startswith("1\n00:00:00,500 --> 00:00:02,000\na < b & c\n\n2\n01:00:00,000 --> ")
    assert srt.split("word", 1)[1].count("\n\n") == 3
    assert max(map(len, srt.splitlines())) <= 42
    ends = re.findall(r"(\S+) --> (\S+)", srt)
    assert ends[-1][1] == "01:00:10,000"
    assert [end for _, end in ends[1:-1]] == [start for start, _ in ends[2:]]
    vtt = transcript.to_vtt()
    assert vtt.startswith("WEBVTT\n\n00:00:00.500 --> 00:00:02.000\na &lt; b &amp; c\n\n01:00:00.000 --> ")
    assert transcript.to_txt() == f"a < b & c\n{long.strip()}\n"
    assert transcript.text == f"a < b & c {long.strip()}"
    assert Transcript((), 0.0).to_vtt() == "WEBVTT\n"


@pytest.mark.parametrize(("longest", "seconds"), [(1142, 5.71), (150, 1.0), (9000, 30.0), (None, 20.0)])
def test_windows_are_half_as_long_as_the_longest_training_recording(longest: int | None, seconds: float) -> None:
    preprocessor = SimpleNamespace(max_source_length=9000 if longest else 2000)
    modality = Audio(specs.Audio(kind="audio"))
    model: Any = SimpleNamespace(modality=modality, longest_source=longest, preprocessor=lambda: preprocessor)
    assert max_window_seconds(model) == pytest.approx(seconds)


def test_the_frames_of_finished_windows_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = list[ReferenceType[Any]]()
    count = 2 * recognizer.CHUNK_WINDOWS + 1

    class Recording:
        duration = 40.0

        def __init__(self, *_: Any) -> None:
            pass

        def __iter__(self) -> Any:
            return (Window(np.ones((9, 80), np.float32), n, n + 1, False) for n in range(count))

    def recognize(inputs: list[Any], target: str | None) -> list[list[Translation]]:
        assert target is None
        assert not any(each() is not None for each in known)
        known.extend(map(ref, inputs))
        return [[Translation("yes")] for _ in inputs]

    monkeypatch.setattr(recognizer, "Recording", Recording)
    monkeypatch.setattr(recognizer, "max_window_seconds", lambda _: 1.0)
    model: Any = SimpleNamespace(modality=None, recognize=recognize)
    transcript = recognizer.Recognizer.transcribe(model, "talk.wav")
    assert len(transcript.segments) == len(known) == count
