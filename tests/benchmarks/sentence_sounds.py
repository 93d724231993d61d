"""Speak English sentences with many voices, for `specs/speech/everyday-en.yaml`.

    python -m tests.benchmarks.sentence_sounds SENTENCES HELD_OUT OUT

Line n of SENTENCES.de is the translation of line n of SENTENCES.en. The dev set and the test set come from HELD_OUT.en
and HELD_OUT.de. For each of the sets train, dev and test, the script writes a list of audio files (`train.sounds.en`),
their texts (`train.en`) and translations (`train.de`) to OUT. The training set shares no sentence and no voice with the
dev set and the test set. The voices are the same as in the recipe `speech/digits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache, partial
from itertools import cycle, islice, repeat
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile

from compiler.host import cores
from tests.benchmarks.sentences import parser_for, read_pairs, write_lists
from zoo.features.spoken_digits import ENGLISH, Speaker, as_recorded

SIZES = {"test": 500, "dev": 300, "train": 160_000}
"""Number of audio files in each set. If the training set has fewer sentences, different voices repeat them."""
_ATTEMPTS = 20

_speaker = cache(Speaker)
"""The espeak-ng library in this process, which can be initialised once."""


def speak(split: str, accents: Sequence[str], text: str, file: Path, seed: tuple[int, ...]) -> None:
    """Speak a text with a random voice of a set, such as `train`, and write it to a FLAC file."""
    draws, speaker = np.random.default_rng(seed), _speaker()
    speaker.choose_at_random(split, draws, accents)
    recording = as_recorded(speaker.speak(text), speaker.sample_rate, draws)
    unfinished = file.with_suffix(".partial")
    soundfile.write(unfinished, *recording, subtype="PCM_16", format="FLAC")
    unfinished.rename(file)


def speak_all(texts: Sequence[str], folder: Path, split: str, accents: Sequence[str] = ENGLISH) -> list[Path]:
    """Speak texts with random voices of a set, such as `train`. Return the audio files, in the new folder `folder`."""
    folder.mkdir(parents=True)
    files = [folder / f"{number}.flac" for number in range(len(texts))]
    for attempt in range(_ATTEMPTS):
        missing = [number for number, file in enumerate(files) if not file.exists()]
        if not missing:
            return files
        # espeak-ng crashes with a few voices and words. Other voices then speak what is missing.
        seeds = zip(repeat(list(SIZES).index(split)), missing, repeat(attempt))
        with suppress(BrokenProcessPool), ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
            some = [texts[number] for number in missing], [files[number] for number in missing]
            list(pool.map(partial(speak, split, accents), *some, seeds, chunksize=16))
    raise RuntimeError(f"espeak-ng crashed {_ATTEMPTS} times: install another version of espeakng-loader")


def main() -> None:
    """Speak the sentences of all sets, and write their lists."""
    arguments = parser_for(__doc__, sentences=str, held_out=str, out=Path).parse_args()
    prefixes = (arguments.sentences, arguments.held_out)
    sentences, held_out = (read_pairs(Path(f"{prefix}.en"), Path(f"{prefix}.de")) for prefix in prefixes)
    kept = {english for english, _ in held_out}
    sets = {
        "test": held_out[: SIZES["test"]],
        "dev": held_out[SIZES["test"] :][: SIZES["dev"]],
        "train": islice(cycle(pair for pair in sentences if pair[0] not in kept), SIZES["train"]),
    }
    for split, pairs in sets.items():
        english, german = zip(*pairs, strict=True)
        sounds = speak_all(english, arguments.out / split, split)
        names = [path.relative_to(arguments.out) for path in sounds]
        write_lists(arguments.out, split, {"sounds.en": names, "en": english, "de": german})
        print(f"{split}: {len(sounds):,} sounds")


if __name__ == "__main__":
    main()
