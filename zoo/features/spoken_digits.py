"""Synthetic recordings of digits, spoken by espeak-ng with many voices, as if recorded in many rooms.

espeak-ng is licensed under the GPL. `python -m zoo.features.spoken_digits SPLIT START END FOLDER` runs it in a separate
process, and writes one FLAC file for each string. The text, voice and room of a string depend only on its split and its
number. The samples also depend slightly on earlier strings in the same process and on the current time, because
espeak-ng has internal state.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.host import cores
from specs import ZooError, install_hint
from zoo.files import storage
from zoo.files.atomic import FolderExistsError, atomic_folder
from zoo.report import Report

VERSION = 8
"""Version of the strings. Increase it whenever a string changes, because prepared corpora depend on it."""
MAX_DIGITS = 8
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ENGLISH = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbcwmd", "en-us-nyc", "en-029")
"""English accents of espeak-ng."""
_DEV_VOICES = ("f2", "m5", "ian", "belinda", "paul", "klatt5", "Mario", "zac")
_TEST_VOICES = ("f4", "m7", "Annie", "Andy", "max", "linda", "klatt3", "edward", "steph2", "michel")
_WOMEN = ("f1", "f3", "f5", "Alicia", "Andrea", "anika", "aunty", "grandma", "shelby", "steph", "steph3")
_MEN = (
    *("m1", "m2", "m3", "m4", "m6", "m8", "klatt", "klatt2", "klatt4", "klatt6", "Alex", "AnxiousAndy", "Denis"),
    *("Diogo", "Gene", "Henrique", "Hugo", "Jacky", "Lee", "Marco", "Michael", "Mike", "Nguyen", "Reed"),
    *("RicishayMax", "Storm", "adam", "announcer", "antonio", "benjamin", "boris", "caleb", "david", "ed", "edward2"),
    *("grandpa", "gustave", "iven", "iven2", "john", "kaukovalta", "marcelo", "miguel", "mike2", "norbert", "pablo"),
    *("pedro", "quincy", "rob", "robert", "sandro", "travis", "victor", "whisper"),
)
VOICES = {"train": (*_MEN, *_WOMEN * 4), "dev": _DEV_VOICES, "test": _TEST_VOICES}
"""Voices of each split. The splits share no voices. There are few female voices, so each is repeated in training."""
_FLUENT = {"train": 0.6, "dev": 0.4, "test": 0.4}
"""Fraction of the strings that are spoken in one go. These strings are harder to learn than words spoken one by one."""
_REPEATED = 0.15
"""Probability that a digit in a training string is set to the digit before it."""
_RATE, _PITCH, _RANGE, _WORD_GAP = 1, 3, 4, 7
"""IDs of espeak-ng's parameters."""
_SYNCHRONOUS, _UTF8 = 2, 1
_SAMPLE_RATES, _RATE_SHARES = (8_000, 11_025, 16_000, 22_050), (0.35, 0.1, 0.45, 0.1)
_FFT_STEP = 4096  # numpy's Fourier transform is fast for multiples of powers of 2
Samples = npt.NDArray[np.floating[Any]]


def strings(split: str, count: int, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the audio file and text of the first `count` digit strings in a split. Generate missing files first.

    Raises:
        ZooError: espeak-ng is not installed, or fails.
    """
    folder = storage.prepared() / f"digits-{VERSION}-{split}-{count}"
    if not folder.is_dir():
        with suppress(FolderExistsError), atomic_folder(folder, replace=False) as partial:
            _speak(split, count, partial, report)
    for number in range(count):
        yield str(folder / f"{number:06d}.flac"), " ".join(map(str, _digits(split, seeded_random(split, number))))


def _speak(split: str, count: int, folder: Path, report: Report) -> None:
    """Write recordings of the first `count` digit strings in a split to `folder`, using one process per core."""
    parts = np.linspace(0, count, cores() + 1).astype(int).tolist()
    command = [sys.executable, "-m", __name__, split]
    read, write = os.pipe()
    with TemporaryFile("w+", errors="replace") as errors, ExitStack() as stack:
        processes = [
            stack.enter_context(Popen([*command, str(start), str(end), str(folder)], stdout=write, stderr=errors))
            for start, end in pairwise(parts)
        ]
        os.close(write)
        with open(read) as lines, report.progress(f"speaking {split}", count, "strings") as progress:
            for _ in lines:
                progress.advance()
        if any(process.wait() for process in processes):
            errors.seek(0)
            *_, last = errors.read().strip().splitlines() or ["a process was stopped"]
            hint = f"{install_hint('speech')}, which installs espeakng-loader"
            raise ZooError(f"the spoken digits could not be synthesised: {last}", hint=hint, exit_code=1)


def seeded_random(split: str, number: int) -> np.random.Generator:
    """Return the random number generator for a digit string, seeded with its split and its number."""
    return np.random.default_rng([list(VOICES).index(split), number])


def _digits(split: str, random: np.random.Generator) -> list[int]:
    """Choose the digits in a string at random."""
    # Without `p`, the distribution would be the same, but all strings would change.
    length = 1 + random.choice(MAX_DIGITS, p=np.full(MAX_DIGITS, 1 / MAX_DIGITS))
    digits = random.integers(10, size=length)
    if split == "train":  # more equal neighbours: models easily lose one of them
        for place in range(1, length):
            if random.random() < _REPEATED:
                digits[place] = digits[place - 1]
    return [int(digit) for digit in digits]


class Speaker:
    """Binding to the espeak-ng library."""

    def __init__(self) -> None:
        espeakng_loader = import_module("espeakng_loader")
        self._library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
        self._blocks: list[npt.NDArray[np.int16]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._receive)
        data = str(espeakng_loader.get_data_path()).encode()
        self.sample_rate = int(self._library.espeak_Initialize(_SYNCHRONOUS, 0, data, 0))
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, count: int, _: Any) -> int:
        if samples and count:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def choose_at_random(self, split: str, random: np.random.Generator, accents: Sequence[str] = ENGLISH) -> None:
        """Choose a random accent or language, voice, speed, pitch and pause length. Each split has its own voices."""
        voice = f"{random.choice(accents)}+{random.choice(VOICES[split])}"
        if self._library.espeak_SetVoiceByName(voice.encode()):
            raise ValueError(f"espeak-ng has no voice {voice}")
        parameters = {
            _RATE: random.integers(90, 260),
            # High voices are harder to learn, so they are more frequent in training.
            _PITCH: random.integers(5, 95, 2 if split == "train" else 1).max(),
            _RANGE: random.integers(5, 95),
            _WORD_GAP: random.choice([0, 0, 2, 6]),
        }
        for parameter, value in parameters.items():
            self._library.espeak_SetParameter(parameter, int(value), 0)

    def speak(self, text: str) -> Samples:
        """Synthesise speech for a text. Return the samples without leading and trailing silence."""
        self._blocks.clear()
        encoded = text.encode()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _UTF8, None, None)
        return without_silence(np.concatenate([np.zeros(1), *self._blocks]) / 32768)


def without_silence(samples: Samples, threshold: float = 0.01) -> Samples:
    """Remove leading and trailing samples that are quieter than `threshold` times the loudest sample."""
    loud = np.flatnonzero(np.abs(samples) > threshold * np.abs(samples).max(initial=1e-9))
    return samples[loud[0] : loud[-1] + 1] if len(loud) else samples


def _record(speaker: Speaker, split: str, number: int) -> tuple[npt.NDArray[np.float32], int]:
    """Synthesise the digit string at index `number` in a split. Return its samples and its sampling rate."""
    random = seeded_random(split, number)
    digits = _digits(split, random)
    speaker.choose_at_random(split, random)
    words = [WORDS[digit] for digit in digits]
    if random.random() < _FLUENT[split]:
        separators = (" ", " ", ", ")
        samples = speaker.speak("".join(word + str(random.choice(separators)) for word in words))
    else:
        samples = join_words([speaker.speak(word) for word in words], speaker.sample_rate, random)
    # Noisy strings are harder to learn, so they are more frequent in training.
    return as_recorded(samples, speaker.sample_rate, random, noises=2 if split == "train" else 1)


def as_recorded(
    samples: Samples, sample_rate: float, random: np.random.Generator, noises: int = 1
) -> tuple[npt.NDArray[np.float32], int]:
    """Simulate a recording of speech in a room, with silence at both ends. Return the samples and their sampling rate.

    The noise level is the highest of `noises` random levels.
    """
    soxr = import_module("soxr")
    rate = int(random.choice(_SAMPLE_RATES, p=_RATE_SHARES))
    # Resampling with a wrong rate shifts pitch and formants, as longer and shorter vocal tracts do.
    samples = soxr.resample(samples, sample_rate * random.uniform(0.85, 1.18), rate)
    samples = _in_a_room(np.pad(samples, random.integers(int(0.02 * rate), int(0.7 * rate), 2)), rate, random, noises)
    peak = np.abs(samples).max() or 1.0
    return (samples / peak * 10 ** random.uniform(-1.2, -0.02)).astype(np.float32), rate


def join_words(words: list[Samples], rate: int, random: np.random.Generator) -> Samples:
    """Join separately spoken words, with pauses and varying loudness."""
    longest = random.uniform(0.05, 0.6)
    parts = []
    for word in words:
        parts += [word * 10 ** random.uniform(-0.25, 0.25), np.zeros(int(random.uniform(0.0, longest) * rate))]
    return np.concatenate(parts)


def _in_a_room(samples: Samples, rate: int, random: np.random.Generator, noises: int) -> Samples:
    """Simulate a room and a microphone, and add noise. The noise level is the highest of `noises` random levels."""
    size = -(-(len(samples) + rate // 2) // _FFT_STEP) * _FFT_STEP
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    spectrum = np.fft.rfft(samples, size)
    if random.random() < 0.5:  # an echo that decays by 60 dB in `seconds`
        seconds, times = random.uniform(0.08, 0.7), np.arange(rate // 2) / rate
        echo = random.standard_normal(len(times)) * 10 ** (-3 * times / seconds)
        echo *= random.uniform(0.1, 1.0) / np.sqrt(np.square(echo).sum())
        echo[0] += 1
        spectrum *= np.fft.rfft(echo, size)
    octaves = np.log2(np.maximum(frequencies, 50) / 50)
    points = np.linspace(0, 8, 6)
    spectrum *= 10 ** (np.interp(octaves, points, random.uniform(-8, 8, 6)) / 20)
    if random.random() < 0.4:
        low, high = random.uniform(50, 350), random.uniform(2800, 7600)
        spectrum /= np.sqrt((1 + (low / np.maximum(frequencies, 1)) ** 6) * (1 + (frequencies / high) ** 12))
    filtered: Samples = np.fft.irfft(spectrum, size)[: len(samples)]
    if random.random() < 0.15:  # no noise at all, as in sounds that a program makes
        return filtered
    colour = np.maximum(frequencies, 50) ** -random.uniform(0, 1.2)
    real, imaginary = random.standard_normal((2, len(frequencies)))
    noise = np.fft.irfft((real + 1j * imaginary) * colour, size)[: len(samples)]
    level = np.sqrt(np.square(filtered).mean() / np.square(noise).mean())
    mixed: Samples = filtered + noise * level * 10 ** (-random.uniform(5, 50, noises).min() / 20)
    return mixed


def main(split: str, start: str, end: str, folder: str) -> None:
    """Write recordings of the digit strings `start` to `end` - 1. Print a line after each recording."""
    soundfile = import_module("soundfile")
    speaker = Speaker()
    for number in range(int(start), int(end)):
        samples, rate = _record(speaker, split, number)
        soundfile.write(Path(folder) / f"{number:06d}.flac", samples, rate, subtype="PCM_16")
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
