"""Speak digit strings with the speech synthesiser flite, for `specs/speech/digits-natural.yaml`.

    python -m tests.benchmarks.flite_digits OUT

flite's voices are computed from recordings of four people, so they sound more natural than espeak-ng's voices. Install
flite first, for example with `apt install flite`. The script writes 20,000 audio files to OUT, with a list of these
files (`train.sounds.en`) and their texts (`train.en`).
"""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile

from compiler.host import cores
from tests.benchmarks.sentences import parser_for, write_lists
from zoo.features.spoken_digits import MAX_DIGITS, WORDS, Samples, as_recorded, join_words, without_silence

COUNT = 20_000
"""Number of strings."""
SAMPLE_RATE = 16_000
PITCHES = {"awb": 130, "kal16": 105, "rms": 105, "slt": 175}
"""Mean pitch of each voice in hertz."""


def digits(random: np.random.Generator) -> list[int]:
    """Return random digits. In three of ten strings, two successive digits are equal: models often omit one."""
    shares = np.arange(1, MAX_DIGITS + 1) ** -0.5
    chosen = random.integers(10, size=1 + random.choice(MAX_DIGITS, p=shares / shares.sum()))
    if len(chosen) > 1 and random.random() < 0.3:
        second = random.integers(1, len(chosen))
        chosen[second] = chosen[second - 1]
    return [int(digit) for digit in chosen]


def speak(text: str, voice: str, stretch: float, pitch: float, spread: float) -> Samples:
    """Speak a text with flite. Return the audio samples without the silence at both ends.

    Args:
        text: The text to speak.
        voice: The name of the voice, a key of `PITCHES`.
        stretch: The factor by which all durations are multiplied.
        pitch: The mean pitch in hertz.
        spread: The standard deviation of the pitch in hertz.
    """
    numbers = {"duration_stretch": stretch, "int_f0_target_mean": pitch, "int_f0_target_stddev": spread}
    settings = (word for name, value in numbers.items() for word in ("--setf", f"{name}={value:.3f}"))
    command = ["flite", "-voice", voice, *settings, "-t", text, "-o", "/dev/stdout"]
    sound = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return without_silence(np.frombuffer(sound[44:], "<i2") / 32768)  # after the header of a WAV file


def record(folder: Path, number: int) -> str:
    """Speak random digits, and write them to the FLAC file with this number. Return the digits as text."""
    random = np.random.default_rng(number)
    chosen = digits(random)
    voice = str(random.choice(list(PITCHES)))
    pitch, spread = PITCHES[voice] * random.uniform(0.8, 1.25), random.uniform(5, 35)
    say = partial(speak, voice=voice, stretch=random.uniform(0.7, 1.35), pitch=pitch, spread=spread)
    words = [WORDS[digit] for digit in chosen]
    if random.random() < 0.4:  # fluent
        samples = say(" ".join(word + str(random.choice(["", "", ","])) for word in words))
    else:
        samples = join_words([say(word) for word in words], SAMPLE_RATE, random)
    samples, rate = as_recorded(samples, SAMPLE_RATE * random.uniform(0.9, 1.12), random)
    if random.random() < 0.35:  # as recordings that are cut closely
        samples = without_silence(samples, random.uniform(0.02, 0.12))
    soundfile.write(folder / f"{number:06d}.flac", samples, rate, subtype="PCM_16")
    return " ".join(map(str, chosen))


def main() -> None:
    """Speak all digit strings, and write the lists of audio files and texts."""
    parser = parser_for(__doc__, out=Path)
    out: Path = parser.parse_args().out
    if shutil.which("flite") is None:
        parser.error("the program flite is not installed: install it, such as with `apt install flite`")
    (out / "train").mkdir(parents=True)
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        texts = list(pool.map(partial(record, out / "train"), range(COUNT), chunksize=16))
    files = [f"train/{number:06d}.flac" for number in range(COUNT)]
    write_lists(out, "train", {"sounds.en": files, "en": texts})


if __name__ == "__main__":
    main()
