"""Modality `audio`: audio files as log-mel features, which are masked in training (SpecAugment)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

import specs
from specs import ZooError, install_hint
from specs.parts import Masks
from zoo.features import spoken_digits
from zoo.features.modality import FeatureModality, Frames, input_name, open_input
from zoo.files.reading import UnreadableError

if TYPE_CHECKING:
    from soundfile import SoundFile

SAMPLE_RATE = 16_000
"""Sampling rate in Hz. All audio is converted to this rate."""
WINDOW, HOP, FFT = 400, 160, 512
"""Length of a window (25 ms), distance between windows (10 ms), and length of the Fourier transform, in samples."""
MAX_SECONDS = 3_600
"""Maximum length, in seconds, of a recording that is encoded as a whole. The frames of such a recording take 115 MB."""
_HANN_WINDOW = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
_LOWEST_HZ, _FLOOR, _MIN_VARIANCE = 20.0, 1e-10, 1e-5
_FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3")
_SAMPLE_RATES, _MAX_CHANNELS = range(1_000, 768_001), 256
_BLOCK_VALUES, _BLOCK_SECONDS = 1 << 20, 30  # maximum size of a block: samples of all channels, and seconds
_BLOCK_FRAMES = 1 << 12  # number of frames that are computed at a time

Samples = npt.NDArray[np.float32]
"""Samples of one channel at SAMPLE_RATE, `[samples]`. Full scale is from -1 to 1."""


class Audio(FeatureModality):
    """Modality `audio`: log-mel features. In each file, each feature is normalised to mean 0 and variance 1.

    The spectrum of a window x is P_k = |Σ_t h_t x_t e^(-2πikt/512)|² with the Hann window h_t = ½ - ½ cos(2πt/400).
    Filter i is a triangle over mel(f) = 2595 log₁₀(1 + f/700). There are `bins` + 2 equally spaced points from
    mel(20 Hz) to mel(8 kHz). The filter is 0, 1 and 0 at the points i, i + 1 and i + 2. Before normalisation, a feature
    is ln max(Σ_k filter_ik P_k, 10⁻¹⁰). The option `dynamic_range` raises features that are far below the largest
    feature of their file.
    """

    suffixes = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3")
    cut_at_pauses = True
    options: specs.Audio

    def encode(self, file: str | Path | BinaryIO) -> Frames:
        """Return the frames of an audio file. See `read_samples` for errors."""
        return self.features(read_samples(file))

    def features(self, samples: Samples) -> Frames:
        """Compute the log-mel frames of audio samples. If the samples are shorter than a window, append silence."""
        padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
        windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
        bank, frames = mel_filters(self.options.bins), np.empty((len(windows), self.options.bins), np.float32)
        for start in range(0, len(windows), _BLOCK_FRAMES):
            block = windows[start : start + _BLOCK_FRAMES] * _HANN_WINDOW
            power = np.abs(np.fft.rfft(block, FFT)) ** 2
            # Unlike `@`, einsum starts no threads. They would compete with the threads of the search.
            mel = np.einsum("tf,fm->tm", power, bank)
            frames[start : start + _BLOCK_FRAMES] = np.log(np.maximum(mel, _FLOOR))
        if self.options.dynamic_range is not None:
            np.maximum(frames, frames.max() - self.options.dynamic_range * np.log(10) / 10, out=frames)
        frames -= frames.mean(0, np.float64)
        frames /= np.sqrt(np.square(frames, dtype=np.float64).mean(0) + _MIN_VARIANCE)
        return frames

    def digits(self) -> ModuleType:
        """Return the module that generates spoken digits."""
        return spoken_digits

    def place(self, frame: int) -> str:
        """Return the time of a frame, such as `1.25 s`."""
        return f"{frame * HOP / SAMPLE_RATE:.2f} s"

    def augment(self, frames: Frames, random: np.random.Generator) -> Frames:
        """Warp frequency and time, and mask random ranges of frames and of features (SpecAugment).

        A time mask hides at most a fifth of the frames. Masked values are set to 0, the mean of each feature.
        """
        changed = frames.copy()
        if self.options.frequency_warp:
            points = _filter_points(self.options.bins)
            sources = _mel(_hertz(points[1:-1]) / _random_factor(self.options.frequency_warp, random))
            changed = _interpolate((sources - points[1]) / (points[1] - points[0]), changed.T).T
        if self.options.time_warp:
            length = max(1, round(len(frames) * _random_factor(self.options.time_warp, random)))
            changed = _interpolate(np.linspace(0, len(frames) - 1, length), changed)
        _mask(changed, self.options.time_masks, len(changed) // 5, random)
        _mask(changed.T, self.options.frequency_masks, frames.shape[1], random)
        return changed


def _random_factor(warp: float, random: np.random.Generator) -> float:
    """Return a random factor from 1 / (1 + warp) to 1 + warp."""
    return float(np.exp(random.uniform(-1, 1) * np.log1p(warp)))


def _interpolate(positions: npt.NDArray[np.float64], rows: Frames) -> Frames:
    """Interpolate linearly between rows, at fractional positions. Positions are clamped to the first and last row."""
    positions = np.clip(positions, 0, len(rows) - 1)
    before = positions.astype(np.int64)
    after = np.minimum(before + 1, len(rows) - 1)
    weight = (positions - before).astype(np.float32)[:, None]
    return rows[before] * (1 - weight) + rows[after] * weight


def _mask(frames: Frames, masks: Masks, limit: int, random: np.random.Generator) -> None:
    """Set random ranges of rows to 0, in place. A range has at most `limit` rows."""
    for _ in range(masks.number):
        width = int(random.integers(min(masks.width, limit) + 1))
        start = int(random.integers(len(frames) - width + 1))
        frames[start : start + width] = 0


@cache
def mel_filters(bins: int) -> npt.NDArray[np.float64]:
    """Return the mel filters: the weight of each frequency of the Fourier transform, `[frequencies, bins]`."""
    frequencies = np.arange(FFT // 2 + 1) * (SAMPLE_RATE / FFT)
    points = _filter_points(bins)
    distance = (_mel(frequencies)[:, None] - points[1:-1]) / (points[1] - points[0])
    weights: npt.NDArray[np.float64] = np.maximum(0, 1 - np.abs(distance))
    return weights


@cache
def _filter_points(bins: int) -> npt.NDArray[np.float64]:
    """Return the corner points of the triangular filters, in mel, `[bins + 2]`."""
    low, high = _mel([_LOWEST_HZ, SAMPLE_RATE / 2])
    return np.linspace(low, high, bins + 2)


def _mel(frequency: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return 2595 * np.log10(1 + np.asarray(frequency, np.float64) / 700)


def _hertz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 700 * (10 ** (mel / 2595) - 1)


def read_samples(file: str | Path | BinaryIO) -> Samples:
    """Read an audio file. Return the mean of its channels, resampled to SAMPLE_RATE.

    Raises:
        ZooError: The file is empty, longer than MAX_SECONDS, or cannot be read (see `read_blocks`).
    """
    samples = np.concatenate(list(read_blocks(file, MAX_SECONDS)))
    if not len(samples):
        raise ZooError(f"`{input_name(file)}` contains no audio", hint="remove the file, or record it again")
    return samples


def read_blocks(file: str | Path | BinaryIO, max_seconds: float = math.inf) -> Iterator[Samples]:
    """Read an audio file block by block. Yield the samples that `read_samples` would return.

    Raises:
        ZooError: The file is missing, damaged, longer than `max_seconds`, or not WAV, FLAC, OGG or MP3.
    """
    soundfile, soxr = _packages()
    name = input_name(file)
    try:
        with open_input(file) as stream, soundfile.SoundFile(stream) as sound:
            _require_supported(sound, name)
            resample = soxr.ResampleStream(sound.samplerate, SAMPLE_RATE, 1, dtype="float32")
            size, last, count = min(_BLOCK_VALUES // sound.channels, _BLOCK_SECONDS * sound.samplerate), False, 0
            while not last:
                block = sound.read(size, dtype="float32", always_2d=True)
                last = len(block) < size
                _require_finite(block, name)
                mono = block.mean(1, dtype=np.float64).astype(np.float32)
                samples = resample.resample_chunk(mono, last=last)
                _require_finite(samples, name)  # values near the largest float32 overflow
                count += len(samples)
                if count > max_seconds * SAMPLE_RATE:
                    problem = f"`{name}` is longer than {max_seconds:,g} seconds"
                    raise ZooError(problem, hint="split the recording into shorter files")
                yield samples
    except (soundfile.LibsndfileError, OverflowError, MemoryError) as error:
        reason = getattr(error, "error_string", None) or str(error)
        hint = "the file must be an undamaged WAV, FLAC, OGG or MP3 file"
        kind = UnreadableError if isinstance(error, MemoryError) else ZooError
        raise kind(f"`{name}` cannot be read as audio (WAV, FLAC, OGG or MP3): {reason}", hint=hint) from None


def _require_supported(sound: SoundFile, name: str) -> None:
    """Raise ZooError if the format, the sampling rate or the number of channels of a file is not supported."""
    if sound.format not in _FORMATS or sound.samplerate not in _SAMPLE_RATES or sound.channels > _MAX_CHANNELS:
        found = f"{sound.format} with {sound.samplerate:,} Hz and {sound.channels:,} channels"
        rates = f"{_SAMPLE_RATES[0]:,} to {_SAMPLE_RATES[-1]:,} Hz"
        problem = f"`{name}` is {found}, but only {', '.join(_FORMATS)} with {rates} and up to {_MAX_CHANNELS} channels"
        hint = "convert the file, for example with `ffmpeg -i FILE -ac 1 -ar 16000 NEW.wav`"
        raise ZooError(f"{problem} are supported", hint=hint)


def _require_finite(samples: Samples, name: str) -> None:
    """Raise ZooError if a sample is infinite or NaN."""
    if not np.isfinite(samples).all():
        hint = "convert the file again, with samples from -1 to 1"
        raise ZooError(f"`{name}` has samples that are infinite, NaN or too large", hint=hint)


def _packages() -> tuple[Any, Any]:
    """Import the packages soundfile and soxr."""
    try:
        return import_module("soundfile"), import_module("soxr")
    except (ImportError, OSError) as error:  # OSError: the libsndfile library is missing
        problem = f"reading audio requires the packages soundfile and soxr: {error}"
        raise UnreadableError(problem, hint=install_hint("speech")) from None
