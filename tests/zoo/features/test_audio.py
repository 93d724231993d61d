"""Audio files: their features against a plain twin, formats, masks, and damaged or unusual files."""

from __future__ import annotations

import io
import random
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import specs
from specs import Spec, ZooError
from specs.parts import Masks
from tests.mutations import mutated
from tests.refusals import refused
from zoo.data.prepare import prepare
from zoo.features.audio import SAMPLE_RATE, Audio, mel_filters, read_blocks, read_samples
from zoo.files.reading import UnreadableError
from zoo.report import Report

soundfile = pytest.importorskip("soundfile", reason="needs the `speech` extra")
pytest.importorskip("soxr", reason="needs the `speech` extra")


def audio(**options: Any) -> Audio:
    return Audio(specs.Audio(kind="audio", **options))


def chirp(seconds: float) -> np.ndarray:
    times = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    noise = np.random.default_rng(0).standard_normal(len(times))
    return 0.3 * np.sin(2 * np.pi * (200 + 300 * times) * times) + 0.01 * noise


def twin(samples: np.ndarray, bins: int, decibels: float = np.inf) -> np.ndarray:
    """Compute the features term by term, with an explicit Fourier transform."""
    times, frequencies = np.arange(400), np.arange(257) * 16_000 / 512
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * times / 400)
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(257), times) / 512)
    mel = [2595 * np.log10(1 + f / 700) for f in (20, 8000, frequencies)]
    step = (mel[1] - mel[0]) / (bins + 1)
    centres = mel[0] + step * np.arange(1, bins + 1)[:, None]
    filters = np.minimum((mel[2] - centres + step) / step, (centres + step - mel[2]) / step).clip(0)
    starts = range(0, len(samples) - 399, 160)
    powers = [np.abs(fourier @ (samples[start : start + 400] * hann)) ** 2 for start in starts]
    logarithms = np.log(np.maximum(1e-10, powers @ filters.T))
    logarithms = np.log(np.maximum(np.exp(logarithms), np.exp(logarithms.max()) / 10 ** (decibels / 10)))
    return (logarithms - logarithms.mean(0)) / np.sqrt(logarithms.var(0) + 1e-5)


def test_features_equal_those_of_a_plain_twin_and_those_far_below_the_largest_are_raised() -> None:
    samples = chirp(0.7).astype(np.float32)
    for options, decibels in (({}, np.inf), ({"dynamic_range": 20.0}, 20)):
        frames = audio(**options).features(samples)
        assert (frames.shape, frames.dtype) == ((68, 80), np.float32)
        np.testing.assert_allclose(frames, twin(samples.astype(np.float64), 80, decibels), atol=1e-4)
    silent = audio(dynamic_range=80.0).features(np.pad(samples, (0, SAMPLE_RATE)))
    assert len(np.unique(silent[-90:], axis=0)) == 1  # silence has the same value in all frames
    assert (mel_filters(80).sum(0) > 0).all()  # each filter reads at least one frequency


def test_prepared_features_depend_on_the_options_that_change_them() -> None:
    assert audio().identity == audio(frequency_warp=0.1).identity != audio(dynamic_range=80.0).identity
    assert "dynamic_range" not in audio().identity  # corpora that were prepared before this option stay valid


@pytest.mark.parametrize(("suffix", "rate", "channels"), [("wav", 48_000, 2), ("flac", 8_000, 1), ("ogg", 44_100, 6)])
def test_any_format_rate_and_number_of_channels_is_read(tmp_path: Path, suffix: str, rate: int, channels: int) -> None:
    """All files contain a tone of 440 Hz, so the same filter is loudest in all of them."""
    file, tone = tmp_path / f"tone.{suffix}", 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    soundfile.write(file, np.stack([tone] * channels, 1), rate)
    samples = read_samples(file)
    assert abs(len(samples) - SAMPLE_RATE) <= SAMPLE_RATE // 100
    assert abs(int(np.abs(np.fft.rfft(samples, SAMPLE_RATE)).argmax()) - 440) <= 2
    np.testing.assert_array_equal(audio().encode(io.BytesIO(file.read_bytes())), audio().encode(file))


def test_masks_hide_ranges_of_frames_and_of_features() -> None:
    frames, masks, widths = np.ones((200, 80), np.float32), Masks(number=1, width=9), set()
    modality = audio(time_masks=masks, frequency_masks=masks)
    for seed in range(50):
        hidden = modality.augment(frames, np.random.default_rng(seed)) == 0
        for axis in (0, 1):
            whole = np.flatnonzero(hidden.all(1 - axis))
            assert len(whole) == 0 or whole[-1] - whole[0] == len(whole) - 1
            widths.add(len(whole))
        np.testing.assert_array_equal(hidden, hidden.all(1)[:, None] | hidden.all(0))
    assert (widths, frames.min()) == (set(range(10)), 1)
    np.testing.assert_array_equal(*(modality.augment(frames, np.random.default_rng(7)) for _ in range(2)))
    assert modality.augment(frames[:3], np.random.default_rng(0)).any()


def test_frequencies_are_warped_by_factors_up_to_the_limit() -> None:
    """A tone of 1 kHz is loudest in the filter at 1 kHz and, after the warp, in filters at the other frequencies."""
    modality = audio(bins=200, frequency_warp=0.25)
    centres = 700 * (10 ** (np.linspace(*(2595 * np.log10(1 + f / 700) for f in (20, 8000)), 202)[1:-1] / 2595) - 1)
    near = -np.abs(centres - 1000)[None].repeat(5, 0).astype(np.float32)
    warped = [modality.augment(near, np.random.default_rng(seed)) for seed in range(200)]
    assert all(frames.shape == near.shape and frames.dtype == np.float32 for frames in warped)
    loudest = [centres[frames[0].argmax()] for frames in warped]
    width = float(np.diff(centres).max())
    assert 1000 / 1.25 - width <= min(loudest) < 850
    assert 1180 < max(loudest) <= 1000 * 1.25 + width
    other = -np.abs(centres - 3000)[None].astype(np.float32)
    found = centres[modality.augment(other, np.random.default_rng(0))[0].argmax()]
    assert found == pytest.approx(3 * loudest[0], abs=9 * width)  # the same factor for all frequencies


def test_times_are_warped_by_factors_up_to_the_limit() -> None:
    ramp = np.arange(100, dtype=np.float32)[:, None].repeat(8, 1)
    modality, lengths = audio(bins=8, time_warp=0.25), set()
    for seed in range(200):
        warped = modality.augment(ramp, np.random.default_rng(seed))
        np.testing.assert_allclose(warped, np.linspace(0, 99, len(warped))[:, None].repeat(8, 1), atol=1e-3)
        lengths.add(len(warped))
    assert 80 <= min(lengths) <= 85
    assert 119 <= max(lengths) <= 125
    np.testing.assert_array_equal(modality.augment(ramp[:1], np.random.default_rng(0)), ramp[:1])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        *((content, "cannot be read as audio") for content in (b"", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"hello\n" * 400)),
        ((np.zeros(0), 16_000, "PCM_16"), "contains no audio"),
        ((np.full(16_000, np.nan), 16_000, "FLOAT"), "infinite, NaN or too large"),
        ((np.tile([3e38, -3e38], 22_050), 44_100, "FLOAT"), "infinite, NaN or too large"),
        ((np.zeros(900), 900, "PCM_16"), "WAV with 900 Hz"),
        ((np.zeros((16, 300)), 16_000, "PCM_16"), "16,000 Hz and 300 channels"),
    ],
)
def test_files_that_are_no_sounds_are_refused_by_name(tmp_path: Path, content: Any, problem: str) -> None:
    file = tmp_path / "sound.wav"
    file.write_bytes(content) if isinstance(content, bytes) else soundfile.write(file, *content)
    error = refused(problem, audio().encode, file)
    assert str(file) in error.summary
    assert error.hint


def test_unusual_sounds_are_read(tmp_path: Path) -> None:
    def encode(name: str, *sound: Any) -> np.ndarray:
        soundfile.write(tmp_path / name, *sound)
        return audio().encode(tmp_path / name)

    many = np.random.default_rng(0).uniform(-1, 1, (9_000, 64))
    assert encode("many.wav", many, 192_000, "FLOAT").shape == (3, 80)
    assert encode("short.wav", np.ones(3), 16_000).shape == (1, 80)
    assert not encode("silent.flac", np.zeros(16_000), 16_000).any()
    assert np.isfinite(encode("loud.wav", np.full(1_600, 3e38), 16_000, "FLOAT")).all()


def test_a_recording_of_ten_hours_is_refused_but_its_blocks_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "long.flac"
    with soundfile.SoundFile(file, "w", 1_000, 1) as sound:
        for _ in range(10):
            sound.write(np.zeros(3_600_000, np.int16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused("is longer than 3,600 seconds", audio().encode, file)
    assert 0 < len(next(read_blocks(file))) <= 30 * SAMPLE_RATE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 600), marks=pytest.mark.slow)], ids=str)
def test_damaged_files_are_read_or_refused(tmp_path: Path, seeds: range) -> None:
    originals = []
    for suffix, options in (("wav", {}), ("flac", {}), ("ogg", {}), ("wav", {"subtype": "FLOAT"})):
        file = tmp_path / f"original.{suffix}"
        soundfile.write(file, chirp(0.5), SAMPLE_RATE, **options)
        originals.append((suffix, file.read_bytes()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in seeds:
        draw = random.Random(seed)
        suffix, content = draw.choice(originals)
        file = tmp_path / f"{seed}.{suffix}"
        file.write_bytes(mutated(content, draw))
        with suppress(ZooError):  # any other error is a failure
            assert np.isfinite(audio().encode(file)).all(), seed
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.fixture
def corpus(tmp_path: Path) -> Spec:
    """The spec of a corpus with 40 recordings of noise, of which two are damaged, and two for the dev set."""
    for split, count in (("train", 40), ("dev", 2)):
        for number in range(count):
            noise = np.random.default_rng(number).uniform(-0.5, 0.5, 8_000)
            soundfile.write(tmp_path / f"{split}{number}.wav", noise, 16_000)
        (tmp_path / f"{split}.lst").write_text("".join(f"{split}{number}.wav\n" for number in range(count)))
        (tmp_path / f"{split}.en").write_text("".join(f"{number % 10} {number // 10}\n" for number in range(count)))
    (tmp_path / "train3.wav").write_bytes((tmp_path / "train3.wav").read_bytes()[:20])
    (tmp_path / "train7.wav").write_bytes(b"")
    parts = {split: [{"source": f"{split}.lst", "target": f"{split}.en"}] for split in ("train", "dev")}
    return specs.load("speech/digits", {"corpus": {"source": "en", "folder": str(tmp_path), **parts, "test": []}})


@pytest.mark.integration
def test_damaged_recordings_are_left_out_of_training_only(corpus: Spec, tmp_path: Path, report: Any) -> None:
    prepared = prepare(corpus, report)
    assert len(prepared.store("train")) == prepared.counts.kept == 38
    assert (prepared.counts.unusable, prepared.counts.empty) == (2, 0)
    (warning,) = [line for line in report.warnings if "left out" in line]
    assert warning.startswith(
        "2 of 40 pairs are left out of training, because their files cannot be used. The first error: "
    )
    assert f"{tmp_path}/train3.wav" in warning
    assert f"{tmp_path}/train3.wav" in "".join(prepared.dropped_examples)
    (tmp_path / "dev0.wav").write_bytes(b"")
    refused(r"dev0\.wav", prepare, corpus, Report())


@pytest.mark.integration
@pytest.mark.parametrize(("problem", "function"), [(MemoryError, "_require_finite"), (ImportError, "import_module")])
def test_no_recording_is_left_out_for_other_reasons(
    corpus: Spec, monkeypatch: Any, problem: Any, function: str
) -> None:
    monkeypatch.setattr(f"zoo.features.audio.{function}", Mock(side_effect=problem("not now")))
    with pytest.raises(UnreadableError, match="not now"):
        prepare(corpus, Report())
