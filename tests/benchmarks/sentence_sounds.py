"""Speak English sentences with many voices, for `specs/speech/everyday-en.yaml`.

    python -m tests.benchmarks.sentence_sounds SENTENCES.en SENTENCES.de OUT

Line n of SENTENCES.de translates line n of SENTENCES.en. For train, dev and test, OUT gets a list of sounds
(`train.sounds.en`), their texts (`train.en`) and translations (`train.de`). No sentence and no voice of dev and test is
in the training set. The voices are those of the recipe `speech/digits`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile

from compiler.host import cores
from zoo.features.spoken_digits import Speaker, as_recorded

SIZES = {"test": 500, "dev": 500, "train": 60_000}
"""Number of sounds in each set. There are fewer for training if there are not enough sentences."""
MAX_CHARACTERS = 60

_speaker = cache(Speaker)
"""The library of espeak-ng in this process, which can be initialised once."""


def read_pairs(sources: Path, targets: Path) -> list[tuple[str, str]]:
    """Return the pairs whose source is short and is not repeated, in random order."""
    lines = zip(sources.read_text("utf-8").splitlines(), targets.read_text("utf-8").splitlines(), strict=True)
    pairs = {source: target for source, target in lines if 0 < len(source) <= MAX_CHARACTERS}
    return random.Random(0).sample([*pairs.items()], len(pairs))


def speak(task: tuple[str, str, int, Path]) -> None:
    """Write a sentence as a FLAC file, given its text, its split, its number and the path of the file."""
    text, split, number, path = task
    draws, speaker = np.random.default_rng([list(SIZES).index(split), number]), _speaker()
    speaker.choose_at_random(split, draws)
    soundfile.write(path, *as_recorded(speaker.speak(text), speaker.sample_rate, draws), subtype="PCM_16")


def write(pairs: Sequence[tuple[str, str]], out: Path, split: str) -> None:
    """Speak the source of each pair, and write the sounds and lists of a set."""
    (out / split).mkdir(parents=True)
    files = [f"{split}/{number}.flac" for number in range(len(pairs))]
    tasks = [(text, split, number, out / files[number]) for number, (text, _) in enumerate(pairs)]
    with get_context("spawn").Pool(cores()) as pool:
        for _ in pool.imap_unordered(speak, tasks, chunksize=16):
            pass
    for suffix, lines in (
        ("sounds.en", files),
        ("en", [each for each, _ in pairs]),
        ("de", [each for _, each in pairs]),
    ):
        (out / f"{split}.{suffix}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"{split}: {len(pairs):,} sounds")


def main() -> None:
    """Speak the sentences that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("sources", "targets", "out"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    pairs, start = read_pairs(arguments.sources, arguments.targets), 0
    for split, count in SIZES.items():
        write(pairs[start : start + count], arguments.out, split)
        start += count


if __name__ == "__main__":
    main()
