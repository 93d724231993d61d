"""Join spoken digits into long recordings, to compare full attention with restricted attention (section 4).

    python -m tests.benchmarks.long_digits SECONDS OUT

The script joins successive digit strings of the recipe `speech/digits` into recordings of at most SECONDS seconds. For
each of the sets train, dev and test, it writes a list of the recordings (`train.sounds.en`) and their texts
(`train.en`) to OUT.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from tests.benchmarks.sentences import parser_for, write_lists
from zoo.features.audio import SAMPLE_RATE, Samples, read_samples
from zoo.features.spoken_digits import strings
from zoo.report import Report

STRINGS = {"train": 20_000, "dev": 300, "test": 1_000}
"""Number of digit strings in each set, as in the recipe `speech/digits`."""


def recordings(split: str, seconds: float) -> Iterator[tuple[Samples, str]]:
    """Yield the audio samples and the text of each joined recording in a set, such as `train`."""
    parts: list[Samples] = []
    texts: list[str] = []
    for file, text in strings(split, STRINGS[split], Report()):
        part = read_samples(file)
        if parts and sum(map(len, parts)) + len(part) > seconds * SAMPLE_RATE:
            yield np.concatenate(parts), " ".join(texts)
            parts, texts = [], []
        parts.append(part)
        texts.append(text)
    yield np.concatenate(parts), " ".join(texts)


def main() -> None:
    """Write the recordings, and the lists of recordings and texts, for all sets."""
    given = parser_for(__doc__, seconds=float, out=Path).parse_args()
    for split in STRINGS:
        (given.out / split).mkdir(parents=True)
        files: list[Path] = []
        texts: list[str] = []
        for samples, text in recordings(split, given.seconds):
            files.append(Path(split) / f"{len(files)}.flac")
            soundfile.write(given.out / files[-1], samples, SAMPLE_RATE, subtype="PCM_16")
            texts.append(text)
        write_lists(given.out, split, {"sounds.en": files, "en": texts})
        print(f"{split}: {len(files):,} recordings")


if __name__ == "__main__":
    main()
