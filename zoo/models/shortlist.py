"""Vocabulary shortlists: for each source token, the target tokens that a translation may contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from specs import EOS
from zoo.files.atomic import atomic_file
from zoo.files.reading import damaged

if TYPE_CHECKING:
    from jaxtyping import Int64, Integer

NAME = "shortlist.safetensors"
"""Name of the file in the folder of a run or bundle."""
MAX_BYTES = 1 << 30
_RESTORE_HINT = "restore the file from the model's source, or create it again with `zoo shortlist RUN`"


class Shortlist:
    """Table that lists, for each source token, the target tokens that the search may choose.

    To translate a sentence, the search considers only the target tokens that are listed for the sentence's source
    tokens, and the tokens in `common`.

    Attributes:
        common: Target tokens that every translation may contain, including EOS, in ascending order.
        offsets: Start index in `tokens` of each source token's list, followed by the length of `tokens`.
        tokens: The lists of target tokens for all source tokens, concatenated.
    """

    def __init__(
        self,
        common: Integer[np.ndarray, " common"],
        offsets: Int64[np.ndarray, " source+1"],
        tokens: Integer[np.ndarray, " tokens"],
    ) -> None:
        self.common, self.offsets, self.tokens = np.union1d(common, [EOS]), offsets, tokens

    @classmethod
    def from_lists(cls, common: Sequence[int] | np.ndarray, lists: Iterable[Sequence[int] | np.ndarray]) -> Self:
        """Create a shortlist from the common tokens and a list of target tokens for each source token."""
        arrays = [np.asarray(each, np.int32) for each in lists]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return cls(np.asarray(common, np.int32), offsets, np.concatenate([np.zeros(0, np.int32), *arrays]))

    def tokens_of(self, source: Iterable[int], prefix: Sequence[int] = ()) -> Int64[np.ndarray, " listed"]:
        """Return the target tokens that the translation of a sentence may contain, in ascending order.

        Args:
            source: Token IDs of the source sentence.
            prefix: Token IDs that the translation must start with. The result always contains them.
        """
        lists = [self.tokens[self.offsets[token] : self.offsets[token + 1]] for token in set(source)]
        return np.unique(np.concatenate([self.common, prefix, *lists])).astype(np.int64)

    def write(self, file: Path) -> None:
        """Write the table as a safetensors file."""
        tensors = {"common": self.common.astype("int32"), "offsets": self.offsets, "tokens": self.tokens}
        with atomic_file(file) as partial:
            safetensors.numpy.save_file(tensors, partial)

    @classmethod
    def parse(cls, content: bytes, file: Path, sizes: tuple[int, int]) -> Self:
        """Parse the content of a shortlist file.

        Args:
            content: Content of the file.
            file: Path of the file, for error messages.
            sizes: Numbers of source and target tokens in the vocabulary.

        Raises:
            ZooError: The file is damaged, or was made for a different vocabulary.
        """
        try:
            tensors = safetensors.numpy.load(content)
            common, offsets, tokens = (tensors[name] for name in ("common", "offsets", "tokens"))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise damaged(file, f"it cannot be read: {error}", _RESTORE_HINT) from None
        if any(each.ndim != 1 or each.dtype not in (np.int32, np.int64) for each in tensors.values()):
            raise damaged(file, "its tensors have wrong types or shapes", _RESTORE_HINT)
        if problem := invalid_reason(common, offsets, tokens, sizes):
            raise damaged(file, problem, _RESTORE_HINT)
        return cls(common, offsets, tokens)


def invalid_reason(common: np.ndarray, offsets: np.ndarray, tokens: np.ndarray, sizes: tuple[int, int]) -> str | None:
    """Return why a shortlist is invalid for a vocabulary of these (source, target) sizes. None if it is valid."""
    if len(offsets) != sizes[0] + 1:
        return f"it has {len(offsets) - 1:,} source tokens, but the vocabulary has {sizes[0]:,}"
    if offsets[0] != 0 or offsets[-1] != len(tokens) or (offsets[1:] < offsets[:-1]).any():
        return "its offsets do not match its lists"
    if any(each.size and not 0 <= each.min() <= each.max() < sizes[1] for each in (common, tokens)):
        return f"it has token IDs outside the target vocabulary of {sizes[1]:,}"
    return None
