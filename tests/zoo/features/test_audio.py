"""Audio files: their features against a plain twin, formats, masks, and damaged or unusual files."""

from __future__ import annotations

import io
import random
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specs
from specs import Spec, ZooError
from specs.parts import Masks
from tests.zoo.conftest import RecordingReport
from zoo.data.prepare import prepare
from zoo.features.audio import SAMPLE_RATE, Audio, mel_filters, read_blocks, read_samples
from zoo.files.reading import UnreadableError
from zoo.report import Report

soundfile = pytest.importorskip("soundfile", reason="needs the `speech` extra")
pytest.importorskip("soxr", reason="needs the `speech` extra")


def audio(**options: Any) -> Audio:
    return Audio(specs.Audio(kind="audio", **options))


def chirp(seconds: float, rate: int = SAMPLE_RATE, seed: int = 0) -> np.ndarray:
    times = np.arange(int(seconds * rate)) / rate
    noise = np.random.default_rng(seed).standard_normal(len(times))
    return 0.3 * np.sin(2 * np.pi * (200 + 300 * times) * times) + 0.01 * noise


def twin(samples: np.ndarray, bins: int, decibels: float = np.inf) -> np.ndarray:
    """Compute the features term by term, with an explicit Fourier transform."""
    times, frequencies = np.arange(400), np.arange(257) * 16_000 / 512
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * times / 400)
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(257), times) / 512)
    mel = [2595 * np.log10(1 + f / 700) for f in (20, 8000, frequencies)]
    step = (mel[1] - mel[0]) / (bins + 1)
    rows = []
    for start in range(0, len(samples) - 399, 160):
        power = np.abs(fourier @ (samples[start : start + 400] * hann)) ** 2
        row = []
        for centre in mel[0] + step * np.arange(1, bins + 1):
            rising, falling = (mel[2] - centre + step) / step, (centre + step - mel[2]) / step
            row.append(np.log(max(1e-10, np.clip(np.minimum(rising, falling), 0, None) @ power)))
        rows.append(row)
    logarithms = np.array(rows)
    logarithms = np.log(np.maximum(np.exp(logarithms), np.exp(logarithms.max()) / 10 ** (decibels / 10)))
    return (logarithms - logarithms.mean(0)) / np.sqrt(logarithms.var(0) + 1e-5)


def test_features_equal_those_of_a_plain_twin() -> None:
    samples = chirp(0.7).astype(np.float32)
    frames = audio().features(samples)
    assert (frames.shape, frames.dtype) == ((68, 80), np.float32)
    np.testing.assert_allclose(frames, twin(samples.astype(np.float64), 80), atol=1e-4)
    np.testing.assert_allclose(frames.mean(0), 0, atol=1e-5)


def test_features_far_below_the_largest_are_raised() -> None:
    samples = chirp(0.7).astype(np.float32)
    frames = audio(dynamic_range=20.0).features(samples)
    np.testing.assert_allclose(frames, twin(samples.astype(np.float64), 80, decibels=20), atol=1e-4)
    silent = audio(dynamic_range=80.0).features(np.pad(samples, (0, SAMPLE_RATE)))
    assert len(np.unique(silent[-90:], axis=0)) == 1  # silence has the same value in all frames


def test_prepared_features_depend_on_the_options_that_change_them() -> None:
    assert audio().identity == audio(frequency_warp=0.1).identity != audio(dynamic_range=80.0).identity
    assert "dynamic_range" not in audio().identity  # corpora that were prepared before this option stay valid


def test_each_filter_reads_at_least_one_frequency() -> None:
    assert np.isfinite(audio().features(chirp(0.2).astype(np.float32))).all()
    assert (mel_filters(80).sum(0) > 0).all()


@pytest.mark.parametrize(("suffix", "rate", "channels"), [("wav", 48_000, 2), ("flac", 8_000, 1), ("ogg", 44_100, 6)])
def test_any_format_rate_and_number_of_channels_is_read(tmp_path: Path, suffix: str, rate: int, channels: int) -> None:
    """All files contain a tone of 440 Hz, so the same filter is loudest in all of them."""
    times = np.arange(rate) / rate
    tone = 0.5 * np.sin(2 * np.pi * 440 * times)
    soundfile.write(tmp_path / f"tone.{suffix}", np.stack([tone] * channels, 1), rate)
    samples = read_samples(tmp_path / f"tone.{suffix}")
    assert abs(len(samples) - SAMPLE_RATE) <= SAMPLE_RATE // 100
    spectrum = np.abs(np.fft.rfft(samples, SAMPLE_RATE))
    assert abs(int(spectrum.argmax()) - 440) <= 2
    content = (tmp_path / f"tone.{suffix}").read_bytes()
    np.testing.assert_array_equal(audio().encode(io.BytesIO(content)), audio().encode(tmp_path / f"tone.{suffix}"))


def test_masks_hide_ranges_of_frames_and_of_features() -> None:
    masks = Masks(number=1, width=9)
    frames = np.ones((200, 80), np.float32)
    modality = audio(time_masks=masks, frequency_masks=masks)
    assert modality.augments
    assert not audio().augments
    widths = set()
    for seed in range(50):
        hidden = modality.augment(frames, np.random.default_rng(seed)) == 0
        for axis in (0, 1):
            whole = np.flatnonzero(hidden.all(1 - axis))
            assert len(whole) == 0 or whole[-1] - whole[0] == len(whole) - 1
            widths.add(len(whole))
        np.testing.assert_array_equal(hidden, hidden.all(1)[:, None] | hidden.all(0))
    assert widths == set(range(10))
    assert (frames == 1).all()
    one, other = (modality.augment(frames, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    short = modality.augment(np.ones((3, 80), np.float32), np.random.default_rng(0))
    assert (short != 0).any()


def test_frequencies_are_warped_by_factors_up_to_the_limit() -> None:
    """A tone of 1 kHz is loudest in the filter at 1 kHz and, after the warp, in filters at the other frequencies."""
    modality = audio(bins=200, frequency_warp=0.25)
    centres = 700 * (10 ** (np.linspace(*(2595 * np.log10(1 + f / 700) for f in (20, 8000)), 202)[1:-1] / 2595) - 1)
    near = -np.abs(centres - 1000)[None].repeat(5, 0).astype(np.float32)
    warped = [modality.augment(near, np.random.default_rng(seed)) for seed in range(200)]
    assert all(frames.shape == near.shape and frames.dtype == np.float32 for frames in warped)
    loudest = [centres[frames[0].argmax()] for frames in warped]
    width = float(np.diff(centres).max())
    assert all(1000 / 1.25 - width <= hertz <= 1000 * 1.25 + width for hertz in loudest)
    assert min(loudest) < 850
    assert max(loudest) > 1180
    factor = loudest[0] / 1000  # the same factor for all frequencies
    other = -np.abs(centres - 3000)[None].astype(np.float32)
    found = centres[modality.augment(other, np.random.default_rng(0))[0].argmax()]
    assert found == pytest.approx(3000 * factor, abs=3 * 3000 * width / 1000)


def test_times_are_warped_by_factors_up_to_the_limit() -> None:
    ramp = np.arange(100, dtype=np.float32)[:, None].repeat(8, 1)
    modality = audio(bins=8, time_warp=0.25)
    assert modality.augments
    lengths = set()
    for seed in range(200):
        warped = modality.augment(ramp, np.random.default_rng(seed))
        np.testing.assert_allclose(warped, np.linspace(0, 99, len(warped))[:, None].repeat(8, 1), atol=1e-3)
        lengths.add(len(warped))
    assert min(lengths) in range(80, 86)
    assert max(lengths) in range(119, 126)
    one = modality.augment(ramp[:1], np.random.default_rng(0))
    np.testing.assert_array_equal(one, ramp[:1])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read as audio"),
        (b"RIFF\xff\xff\xff\xffWAVEfmt ", "cannot be read as audio"),
        (b"hello, this is text\n" * 99, "cannot be read as audio"),
        ((np.zeros(0), 16_000, "PCM_16"), "contains no audio"),
        ((np.full(16_000, np.nan), 16_000, "FLOAT"), "not finite or too large"),
        ((np.tile([3e38, -3e38], 22_050), 44_100, "FLOAT"), "not finite or too large"),
        ((np.zeros(900), 900, "PCM_16"), "has a sampling rate of 900 Hz"),
        ((np.zeros((16, 300)), 16_000, "PCM_16"), "has 300 channels"),
    ],
)
def test_files_that_are_no_sounds_are_refused_by_name(tmp_path: Path, content: Any, problem: str) -> None:
    file = tmp_path / "sound.wav"
    file.write_bytes(content) if isinstance(content, bytes) else soundfile.write(file, *content)
    with pytest.raises(ZooError, match=problem) as error:
        audio().encode(file)
    assert str(file) in error.value.summary
    assert error.value.hint


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"none\.wav` is missing"):
        audio().encode(tmp_path / "none.wav")


def test_unusual_sounds_are_read(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "many.wav", np.random.default_rng(0).uniform(-1, 1, (9_000, 64)), 192_000, "FLOAT")
    assert audio().encode(tmp_path / "many.wav").shape == (3, 80)
    soundfile.write(tmp_path / "short.wav", np.ones(3), 16_000)
    assert audio().encode(tmp_path / "short.wav").shape == (1, 80)
    soundfile.write(tmp_path / "silent.flac", np.zeros(16_000), 16_000)
    assert (audio().encode(tmp_path / "silent.flac") == 0).all()
    soundfile.write(tmp_path / "loud.wav", np.full(1_600, 3e38), 16_000, "FLOAT")
    assert np.isfinite(audio().encode(tmp_path / "loud.wav")).all()


def test_a_recording_of_ten_hours_is_refused_but_its_blocks_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "long.flac"
    with soundfile.SoundFile(file, "w", 1_000, 1) as sound:
        for _ in range(10):
            sound.write(np.zeros(3_600_000, np.int16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ZooError, match="is longer than 3,600 seconds"):
        audio().encode(file)
    first = next(read_blocks(file))
    assert 0 < len(first) <= 30 * SAMPLE_RATE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return a file with a random defect: cut, with changed bytes, or with changed bytes in its header."""
    changed = bytearray(content)
    kind = draw.randrange(4)
    if kind == 0:
        return bytes(changed[: draw.randrange(len(changed))])
    limit = len(changed) if kind == 1 else 64
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(limit)] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
    if kind == 3:
        start = draw.randrange(len(changed))
        changed[start:start] = changed[start : start + draw.randrange(200)]
    return bytes(changed)


def read_mutated(folder: Path, seeds: range) -> None:
    originals = []
    for suffix, options in (("wav", {}), ("flac", {}), ("ogg", {}), ("wav", {"subtype": "FLOAT"})):
        file = folder / f"original.{suffix}"
        soundfile.write(file, chirp(0.5), SAMPLE_RATE, **options)
        originals.append((suffix, file.read_bytes()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in seeds:
        draw = random.Random(seed)
        suffix, content = draw.choice(originals)
        file = folder / f"{seed}.{suffix}"
        file.write_bytes(mutated(content, draw))
        with suppress(ZooError):  # any other error is a failure
            assert np.isfinite(audio().encode(file)).all(), seed
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    read_mutated(tmp_path, range(40))


@pytest.mark.slow
def test_many_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    read_mutated(tmp_path, range(40, 600))


def _write_corpus(folder: Path, split: str, count: int) -> list[Path]:
    """Write recordings of random noise, a list of them, and their texts. Return the paths of the recordings."""
    files = [folder / f"{split}{number}.wav" for number in range(count)]
    for number, file in enumerate(files):
        soundfile.write(file, np.random.default_rng(number).uniform(-0.5, 0.5, 8_000), 16_000)
    (folder / f"{split}.lst").write_text("".join(f"{file.name}\n" for file in files))
    (folder / f"{split}.en").write_text("".join(f"{number % 10} {number // 10}\n" for number in range(count)))
    return files


@pytest.fixture
def corpus(tmp_path: Path) -> Spec:
    """The spec of a corpus with 40 recordings for training, of which two are damaged, and two for the dev set."""
    train, _ = _write_corpus(tmp_path, "train", 40), _write_corpus(tmp_path, "dev", 2)
    train[3].write_bytes(train[3].read_bytes()[:20])
    train[7].write_bytes(b"")
    parts = {split: [{"source": f"{split}.lst", "target": f"{split}.en"}] for split in ("train", "dev")}
    corpus = {"source": "en", "folder": str(tmp_path), **parts, "test": []}
    return specs.load("speech/digits", {"corpus": corpus})


@pytest.mark.integration
def test_damaged_recordings_are_left_out_of_training_only(corpus: Spec, tmp_path: Path) -> None:
    report = RecordingReport()
    prepared = prepare(corpus, report)
    assert len(prepared.store("train")) == prepared.counts.kept == 38
    assert (prepared.counts.unusable, prepared.counts.empty) == (2, 0)
    (warning,) = [line for line in report.warnings if "left out" in line]
    first = str(tmp_path / "train3.wav")
    assert warning.startswith("2 of 40 pairs are left out of training, because their files cannot be used. The first: ")
    assert first in warning
    assert any(first in line for line in prepared.dropped_examples)
    Path(tmp_path / "dev0.wav").write_bytes(b"")
    with pytest.raises(ZooError, match=r"dev0\.wav"):
        prepare(corpus, Report())


@pytest.mark.integration
@pytest.mark.parametrize(
    ("problem", "function"),
    [(MemoryError, "_require_finite"), (ImportError, "import_module")],
    ids=["memory", "package"],
)
def test_no_recording_is_left_out_for_other_reasons(
    corpus: Spec, monkeypatch: pytest.MonkeyPatch, problem: type[Exception], function: str
) -> None:
    def fail(*_: object) -> None:
        raise problem("not now")

    monkeypatch.setattr(f"zoo.features.audio.{function}", fail)
    with pytest.raises(UnreadableError, match="not now"):
        prepare(corpus, Report())
