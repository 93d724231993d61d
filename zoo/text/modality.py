"""Base class for token modalities. They read the raw data of a stream, and convert it to token IDs and back.

Each modality has its own file: `zoo/text/tokenizer.py` contains `text`, and `zoo/text/trees/tokenizer.py` contains
`trees`. The table `MODALITIES` in `zoo/text/vocabulary.py` lists the modalities. Each task in `specs/sections.py`
assigns a modality to each of its streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from specs import Vocabulary

Options = Mapping[str, Any]
"""Task options that determine how examples are encoded (see `BaseTask.encoding`)."""


class Modality(ABC):
    """Modality of a model's input or output, such as text, with a vocabulary learned from the training data.

    The raw data of an example is a string, such as a line of text or a bracketed tree. It is encoded as token IDs.
    In a batch, BOS and EOS are added, and sequences are padded with PAD.

    Attributes:
        content: The learned vocabulary, as the content of the file that stores it.
        size: Vocabulary size, including the special tokens.
    """

    names_files: ClassVar[bool] = False
    """Whether the raw data of an example is the path of a file."""
    chunk_examples: ClassVar[int] = 8192
    """Maximum number of examples that `zoo prepare` encodes at a time."""
    suffix: ClassVar[str]
    """Suffix of the file that stores the content."""
    sampled: ClassVar[bool] = True
    """Whether a sample of the examples is enough to learn from."""
    content: bytes
    size: int

    @staticmethod
    @abstractmethod
    def read(path: Path) -> Iterator[str]:
        """Yield the raw data of each example in a file."""

    @staticmethod
    def raw_data(file: Path, line: int, text: str) -> str:
        """Convert a cell in a table of examples to the raw data of an example. By default, return the text unchanged.

        Args:
            file: File that contains the table, for error messages.
            line: Number of the line, for error messages.
            text: Content of the cell.
        """
        return text

    @classmethod
    @abstractmethod
    def learn(
        cls, lines: Iterable[str], section: Vocabulary, stream: str, language_tokens: Sequence[str], options: Options
    ) -> Self:
        """Learn the vocabulary from the training data.

        Args:
            lines: Raw data of the examples.
            section: Settings for the vocabulary, including its sizes.
            stream: Name of the stream, such as `source`. It determines which size in `section` applies.
            language_tokens: Tokens to add for languages. Text is never encoded as these tokens, even if it contains
                their names.
            options: Task options that determine how examples are encoded.
        """

    @classmethod
    @abstractmethod
    def from_content(cls, content: bytes, name: str) -> Self:
        """Load a modality from the content of its vocabulary file. `name` is the file's name in error messages."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Convert the raw data of an example to token IDs. Raise ZooError if it cannot be encoded."""

    def encode_all(self, raw: Sequence[str], unusable: Callable[[str], None] | None = None) -> list[list[int]]:
        """Convert the raw data of each example to token IDs.

        Args:
            raw: The raw data of each example, such as a line of text.
            unusable: Not used. Only feature modalities, whose raw data are files, report unusable examples.
        """
        return list(map(self.encode, raw))

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Convert token IDs back to raw data, or to a similar string for display."""

    @abstractmethod
    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each ID as a string, for display."""

    def sample(self, ids: list[int], alpha: float) -> list[int]:
        """Sample alternative token IDs for an example (subword regularisation). By default, return `ids` unchanged."""
        return ids

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of token IDs on disk. In a batch, BOS and EOS are added to streams with an integer data type."""
        return np.dtype("uint16" if self.size <= 1 << 16 else "uint32")
