"""Reader of Marian's binary shortlists, such as `lex.50.50.deen.s2t.bin` of Firefox Translations.

The file begins with six integers: a magic number, a checksum of what follows it, the number of most frequent target
tokens, the maximum length of a list, the number of offsets, and the number of tokens in all lists. The offsets follow,
which delimit the list of each source token, and then the lists. Integers have 8 bytes, and tokens 4 bytes, in
little-endian order. Target tokens are numbered by frequency, so the most frequent ones have the lowest IDs.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from zoo.files.reading import is_present, open_file, read_bytes
from zoo.interop.marian.archive import damaged
from zoo.interop.numbering import Numbering
from zoo.interop.vocabulary import ImportedVocabulary
from zoo.models.shortlist import MAX_BYTES, Shortlist, invalid_reason

MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_CHECKED_FROM = 16  # the checksum covers the file from this byte on
_MASK = (1 << 64) - 1


def shortlist_files(folder: Path) -> list[Path]:
    """Return the binary shortlists in a folder, judging by their names and first bytes."""
    return [file for file in sorted(folder.glob("*.bin")) if is_present(file) and _begins_with_magic(file)]


def read_shortlist(file: Path, vocabulary: ImportedVocabulary, rows: tuple[int, int]) -> Shortlist:
    """Read a shortlist, and convert it to zoo's token IDs.

    As in Marian, a source token may also be copied to the target if both sides have the same vocabulary.

    Args:
        file: The shortlist.
        vocabulary: The converted vocabulary.
        rows: Numbers of source and target tokens in the original model.

    Raises:
        ZooError: The file is damaged, or it belongs to another vocabulary.
    """
    content = read_bytes(file, MAX_BYTES)
    if len(content) < _HEADER.size:
        raise damaged(file, "it is truncated")
    _, checksum, frequent, _, offset_count, token_count = _HEADER.unpack_from(content)
    if len(content) != _HEADER.size + 8 * offset_count + 4 * token_count or not offset_count:
        raise damaged(file, f"its {len(content):,} bytes do not match its header")
    if _checksum(content) != checksum:
        raise damaged(file, "its checksum does not match its content")
    written = np.frombuffer(content, "<u8", offset_count, _HEADER.size).astype(np.int64)
    # The file ends with the last source token that has a list.
    offsets = np.pad(written, (0, max(0, rows[0] + 1 - offset_count)), mode="edge")
    tokens = np.frombuffer(content, "<u4", token_count, _HEADER.size + 8 * offset_count).astype(np.int64)
    common = np.arange(min(frequent, rows[1]))
    if problem := invalid_reason(common, offsets, tokens, rows):
        raise damaged(file, problem)
    ids = _ids_of_rows(vocabulary.target, rows[1])
    lists = []
    for token in vocabulary.source.tokens:
        row = token.row
        own = [] if row is None else ids[tokens[offsets[row] : offsets[row + 1]]].tolist()
        lists.append([*own, int(ids[row])] if vocabulary.vocabulary.shared and row is not None else own)
    known = (np.unique([each for each in own if each >= 0]).astype(np.int64) for own in lists)
    return Shortlist.from_lists(ids[common][ids[common] >= 0], known)


def _ids_of_rows(numbering: Numbering, rows: int) -> np.ndarray:
    """Return zoo's ID of each token of the original model, or -1 for a token that zoo does not have."""
    ids = np.full(rows, -1)
    for id, token in enumerate(numbering.tokens):
        if token.row is not None and not token.input_only:
            ids[token.row] = id
    return ids


def _begins_with_magic(file: Path) -> bool:
    with open_file(file) as stream:
        return stream.read(8) == MAGIC.to_bytes(8, "little")


def _checksum(content: bytes) -> int:
    """Combine all complete 8-byte integers after the checksum, as `boost::hash_combine` does."""
    words = np.frombuffer(content, "<u8", (len(content) - _CHECKED_FROM) // 8, _CHECKED_FROM)
    state = 0
    for word in words.tolist():
        state ^= (word + 0x9E3779B9 + (state << 6) + (state >> 2)) & _MASK
    return state
