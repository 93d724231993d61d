"""`dict.LANGUAGE.txt` of fairseq: a token and its count on each line."""

from __future__ import annotations

from pathlib import Path

from specs import ZooError
from zoo.files.reading import read_bytes
from zoo.interop.cutting import Listing

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_AGAIN = "#fairseq:overwrite"


def listing(file: Path) -> Listing:
    """Its tokens, behind the four that every list begins with. Decoding begins with EOS.

    Raises ZooError where the file is missing or damaged.
    """
    names = list(SPECIAL)
    known = set(names)
    try:
        lines = read_bytes(file).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ZooError(f"`{file}` is damaged: byte {error.start + 1} is not UTF-8", exit_code=1) from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, again = line.rstrip(), False
        if name.endswith(f" {_AGAIN}"):
            name, again = name.removesuffix(f" {_AGAIN}"), True
        name, _, count = name.rpartition(" ")
        if not name or not count.isdecimal() or (name in known and not again):
            problem = f"`{line.strip()[:50]}` is no token with its count, or one that was there before"
            raise ZooError(problem, where=f"{file}:{number}", hint="restore it from where it came from", exit_code=1)
        names.append(name)
        known.add(name)
    pad, end, unknown = map(SPECIAL.index, ("<pad>", "</s>", "<unk>"))
    return Listing(tuple(names), unknown=unknown, end=end, start=end, pad=pad)
