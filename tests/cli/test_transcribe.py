"""`zoo transcribe`: transcripts are written beside the recordings, in the format that the user chooses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import zoo as library
from tests.conftest import Trained, Zoo, missing
from zoo.generation import transcription
from zoo.generation.recognizer import Recognizer
from zoo.generation.translation import Translation
from zoo.report import Report

soundfile = pytest.importorskip("soundfile")
RATE = 8_000


def record(path: str, *seconds: float) -> None:
    """Write noise of these lengths with a pause of a second after each."""
    chance = np.random.default_rng(0)
    parts = [np.pad(0.1 * chance.normal(size=round(s * RATE)), (0, RATE)) for s in seconds]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.concatenate(parts), RATE)


@pytest.fixture
def transcribe(zoo: Zoo, hearing: Trained) -> Zoo:
    """A function that runs `zoo transcribe` with a model. `a.wav` is a recording."""
    hearing()
    record("a.wav", 1)
    return partial(zoo, "transcribe", "--model", "runs/hearing")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let models hear `part N` in the N-th window. Return the lengths of the windows, in frames."""
    lengths: list[int] = []

    def recognize(self: Recognizer, inputs: list[Any], **options: object) -> list[list[Translation]]:
        lengths.extend(map(len, inputs))
        return [[Translation(f"part {len(lengths) - len(inputs) + n + 1}")] for n in range(len(inputs))]

    monkeypatch.setattr(Recognizer, "recognize", recognize)
    monkeypatch.setattr(transcription, "_MIN_WINDOW_SECONDS", 10.0)  # the model was trained on shorter sounds
    return lengths


def test_subtitles_have_the_times_of_the_speech(transcribe: Zoo, heard: list[int]) -> None:
    record("talks/one.wav", 2, 1.5)
    record("talks/deep/two.ogg", 1)
    result = transcribe("talks", "--format", "srt")
    assert result.printed == ""
    assert Path("talks/deep/two.de.srt").read_text("utf-8").startswith("1\n00:00:00,000 --> 00:00:01,")
    cues = Path("talks/one.de.srt").read_text("utf-8").split("\n\n")
    assert [cue.splitlines()[0] for cue in cues[:-1]] == ["1", "2"]
    assert cues[1].splitlines()[1].startswith("00:00:02,7")
    assert "wrote talks/one.de.srt" in result.err
    assert heard == pytest.approx([120, 220, 190], abs=8), "frames of 10 ms, with margins"


def test_a_real_model_writes_all_formats(transcribe: Zoo) -> None:
    transcript = library.load("runs/hearing").transcribe("a.wav")
    for name, text in (("a.txt", transcript.to_txt()), ("b.srt", transcript.to_srt()), ("c.vtt", transcript.to_vtt())):
        assert transcribe("a.wav", "-o", name, "--to", "de").printed == ""
        assert Path(name).read_text("utf-8") == text
    assert transcript.duration == pytest.approx(2, abs=0.01)


def test_existing_files_and_options_are_checked(zoo: Zoo, transcribe: Zoo, heard: list[int], trained: Trained) -> None:
    trained()
    Path("a.de.txt").write_text("mine")
    Path("b.wav").write_text("no sound")
    for problem, arguments in {
        "was not replaced": ("a.wav",),
        "`b.wav` cannot be read": ("b.wav", "a.wav", "--yes"),
        "writes the language `de`, not `fr`": ("a.wav", "--to", "fr"),
        "`--format` must be one of `txt`, `srt`, `vtt`, not `doc`": ("a.wav", "--format", "doc"),
        "`pdf` is not a transcript format": ("a.wav", "-o", "a.pdf"),
        "does not end in .vtt": ("a.wav", "--format", "vtt", "-o", "a.srt"),
        "does not exist": ("c.wav",),
    }.items():
        assert problem in transcribe(*arguments).refusal
    assert Path("a.de.txt").read_text("utf-8") == "part 1\n", "errors in one file do not stop the others"
    assert "does not read audio" in zoo("transcribe", "a.wav", "--yes", "--model", "runs/tiny").refusal


def test_a_transcript_does_not_replace_its_recording_through_a_symbolic_link(transcribe: Zoo, heard: list[int]) -> None:
    sound = Path("a.wav").read_bytes()
    Path("a.de.txt").symlink_to("a.wav")
    assert "the transcript would replace `a.wav`" in transcribe("a.wav", "--yes").refusal
    assert Path("a.wav").read_bytes() == sound


def test_silence_gives_an_empty_transcript_and_a_warning(transcribe: Zoo, heard: list[int]) -> None:
    soundfile.write("a.wav", np.zeros(5 * RATE), RATE)
    result = transcribe("a.wav")
    assert (result.status, "no speech was found" in result.err) == (0, True), result.err
    assert (Path("a.de.txt").read_text("utf-8"), heard) == ("", [])


def test_warnings_and_progress_of_decode_are_about_files(zoo: Zoo, transcribe: Zoo) -> None:
    warning = "1 of 1 files are longer than any source in the training data (31 frames)"
    hint = "each is read as a whole, so quality may be lower; `zoo transcribe` cuts recordings"
    messages = zoo("decode", "--input", "a.wav", "--model", "runs/hearing").err
    assert not missing(messages, warning, "the longest is file 1 ('a.wav')", hint)
    soundfile.write("short.wav", np.full(1_000, 0.1), RATE)
    report = Mock(wraps=Report())
    library.load("runs/hearing").hypotheses(["short.wav"], report=report)
    assert [call.args[2] for call in report.progress.call_args_list] == ["files"]


def test_an_output_that_cannot_be_written_is_found_at_the_start(transcribe: Zoo, heard: list[int]) -> None:
    result = transcribe("a.wav", "-o", "/proc/a.txt")
    assert (result.status, "`/proc/a.txt` cannot be written" in result.err) == (1, True), result.err
    assert heard == []
