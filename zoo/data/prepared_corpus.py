"""Prepared corpus: the folder that `zoo prepare` writes, with all data for training."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from specs.corpus import Direction, Split
from zoo.data.cleaning import CleaningCounts
from zoo.data.store import Store
from zoo.files import manifest
from zoo.files.locks import hold_while_alive
from zoo.files.reading import read_json
from zoo.text.lines import read_lines
from zoo.text.vocabulary import Vocabulary

COUNTS_FILE, DROPPED_FILE = "counts.json", "dropped.txt"
# Opening a larger corpus checks only the sizes of its files. Training verifies their hashes in the background.
_HASHED_BYTES = 1 << 30


class PreparedCorpus:
    """Folder with all data for training: a vocabulary, and a token store for each of train, dev and test.

    Attributes:
        folder: The folder.
        fingerprint: Name of the folder, a hash of the corpus and its settings (see `zoo.data.prepare.fingerprint`).
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder that `prepare` wrote.

        Raises:
            ZooError: A file is missing or damaged.
        """
        self.folder = folder
        self.fingerprint = folder.name
        self._verified = manifest.check(folder, hashed_bytes=_HASHED_BYTES)
        hold_while_alive(self, folder)

    def verify(self) -> None:
        """Check the hashes of large files. When the folder was opened, only their sizes were checked.

        Raises:
            ZooError: A file is damaged or cannot be read.
        """
        self._verified = self._verified or manifest.check(self.folder)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary for sources and targets."""
        return Vocabulary.load(self.folder)

    @cached_property
    def counts(self) -> CleaningCounts:
        """Numbers of training pairs that were kept, held out, or dropped for each reason."""
        return CleaningCounts(**read_json(self.folder / COUNTS_FILE))

    @property
    def dropped_examples(self) -> list[str]:
        """Some of the training pairs that were dropped during cleaning, with reasons."""
        return read_lines(self.folder / DROPPED_FILE)

    def store(self, split: Split) -> Store:
        """Return the token store of a split."""
        return Store(self.folder / split)

    def texts(self, split: Split) -> dict[str, list[str]]:
        """Return the cleaned lines of each stream in the dev or test set."""
        streams = self.store(split).lengths
        return {name: read_lines(self.folder / split / f"{name}.txt") for name in streams}

    def directions(self, split: Split) -> list[Direction]:
        """Return the source and target language of each example in the dev or test set, for a multilingual model."""
        lines = read_lines(self.folder / split / "languages.txt")
        return [(source, target) for source, _, target in (line.partition(" ") for line in lines)]
