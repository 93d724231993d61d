"""`zoo transcribe`: transcripts are written beside the recordings, in the format that the user chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo as library
from tests.conftest import Zoo
from zoo.generation import transcription
from zoo.generation.recognizer import Recognizer
from zoo.generation.translation import Translation
from zoo.report import Progress, Report
from zoo.training.run import Run

soundfile = pytest.importorskip("soundfile")
RATE = 8_000


def record(path: str, *seconds: float) -> None:
    """Write noise of these lengths with a pause of a second after each."""
    chance = np.random.default_rng(0)
    parts = [np.pad(0.1 * chance.normal(size=round(s * RATE)), (0, RATE)) for s in seconds]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.concatenate(parts), RATE)


@pytest.fixture(autouse=True)
def _trained(hearing: Callable[..., Run]) -> None:
    hearing()


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


def test_subtitles_have_the_times_of_the_speech(zoo: Zoo, heard: list[int]) -> None:
    record("talks/one.wav", 2, 1.5)
    record("talks/deep/two.ogg", 1)
    result = zoo("transcribe", "talks", "--format", "srt", "--model", "runs/hearing")
    assert (result.status, result.out) == (0, ""), result.err
    assert Path("talks/deep/two.de.srt").read_text("utf-8").startswith("1\n00:00:00,000 --> 00:00:01,")
    cues = Path("talks/one.de.srt").read_text("utf-8").split("\n\n")
    assert [cue.splitlines()[0] for cue in cues[:-1]] == ["1", "2"]
    assert cues[1].splitlines()[1].startswith("00:00:02,7")
    assert "wrote talks/one.de.srt" in result.err
    assert heard == pytest.approx([120, 220, 190], abs=8), "frames of 10 ms, with margins"


def test_a_real_model_writes_all_formats(zoo: Zoo) -> None:
    record("a.flac", 0.5)
    for name in ("a.txt", "b.srt", "c.vtt"):
        result = zoo("transcribe", "a.flac", "-o", name, "--to", "de", "--model", "runs/hearing")
        assert result.status == 0, result.err
    transcript = library.load("runs/hearing").transcribe("a.flac")
    assert Path("a.txt").read_text("utf-8") == transcript.to_txt()
    assert Path("b.srt").read_text("utf-8") == transcript.to_srt()
    assert Path("c.vtt").read_text("utf-8") == transcript.to_vtt()
    assert transcript.duration == pytest.approx(1.5, abs=0.01)


def test_existing_files_and_wrong_options_are_refused(zoo: Zoo, heard: list[int], trained: Callable[..., Run]) -> None:
    record("a.wav", 1)
    trained()
    Path("a.de.txt").write_text("mine")
    Path("b.wav").write_text("no sound")
    for problem, arguments in {
        "was not replaced": ("a.wav",),
        "`b.wav` cannot be read": ("b.wav", "a.wav", "--yes"),
        "writes `de`, not `fr`": ("a.wav", "--to", "fr"),
        "`doc` is not a transcript format": ("a.wav", "--format", "doc"),
        "`pdf` is not a transcript format": ("a.wav", "-o", "a.pdf"),
        "does not end in .vtt": ("a.wav", "--format", "vtt", "-o", "a.srt"),
        "does not exist": ("c.wav",),
    }.items():
        assert problem in zoo("transcribe", *arguments, "--model", "runs/hearing").refusal
    assert Path("a.de.txt").read_text("utf-8") == "part 1\n", "errors in one file do not stop the others"
    assert "does not read audio" in zoo("transcribe", "a.wav", "--yes", "--model", "runs/tiny").refusal


def test_a_transcript_does_not_replace_its_recording_through_a_symbolic_link(zoo: Zoo, heard: list[int]) -> None:
    record("a.wav", 1)
    sound = Path("a.wav").read_bytes()
    Path("a.de.txt").symlink_to("a.wav")
    refusal = zoo("transcribe", "a.wav", "--yes", "--model", "runs/hearing").refusal
    assert "the transcript would replace `a.wav`" in refusal
    assert Path("a.wav").read_bytes() == sound


def test_silence_gives_an_empty_transcript_and_a_warning(zoo: Zoo, heard: list[int]) -> None:
    soundfile.write("a.wav", np.zeros(5 * RATE), RATE)
    result = zoo("transcribe", "a.wav", "--model", "runs/hearing")
    assert (result.status, "no speech was found" in result.err) == (0, True), result.err
    assert (Path("a.de.txt").read_text("utf-8"), heard) == ("", [])


def test_a_file_that_is_longer_than_those_in_training_gives_a_warning_about_files(zoo: Zoo) -> None:
    record("a.wav", 0.5)
    result = zoo("decode", "--input", "a.wav", "--model", "runs/hearing")
    for words in (
        "1 of 1 files are longer than any source in training (31 frames)",
        "the longest is file 1 ('a.wav')",
        "`zoo transcribe` cuts recordings",
    ):
        assert words in result.err
    assert "they are read whole, but quality may be lower; `zoo transcribe` cuts recordings" in result.err


def test_an_output_that_cannot_be_written_is_found_before_the_recording_is_read(zoo: Zoo, heard: list[int]) -> None:
    record("a.wav", 0.5)
    result = zoo("transcribe", "a.wav", "-o", "/proc/a.txt", "--model", "runs/hearing")
    assert (result.status, "`/proc/a.txt` cannot be written" in result.err) == (1, True), result.err
    assert heard == []


def test_the_progress_counts_files() -> None:
    class Units(Report):
        def progress(self, label: str, total: int | None, unit: str) -> Progress:
            units.append(unit)
            return super().progress(label, total, unit)

    units: list[str] = []
    soundfile.write("a.wav", np.full(1_000, 0.1), RATE)
    library.load("runs/hearing").hypotheses(["a.wav"], report=Units())
    assert units == ["files"]
