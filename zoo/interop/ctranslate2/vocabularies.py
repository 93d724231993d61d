"""The lists of tokens in a folder of CTranslate2."""

from __future__ import annotations

import json
from pathlib import Path

from specs import ZooError
from zoo.files.reading import file_exists, read_bytes


def listed(place: Path, unknown: str) -> tuple[list[str], list[str]]:
    """The tokens of the source and of the target, in the order of their numbers, as the engine reads them.

    Where the unknown token is not listed, it comes last. Raises ZooError where a list is missing or damaged.
    """
    shared = _list(place, "shared_vocabulary")
    source, target = (_list(place, f"{side}_vocabulary") if shared is None else shared for side in ("source", "target"))
    if (source is None and file_exists(place / "source_1_vocabulary.txt")) or file_exists(place / "source_1_vocabulary.json"):
        raise ZooError(f"`{place}` has several source vocabularies (source factors), and a model here reads one")
    for side, found in (("source", source), ("target", target)):
        if found is None:
            problem = f"`{place}` has no {side} vocabulary: neither {side}_vocabulary nor shared_vocabulary"
            raise ZooError(problem, hint="restore it from where the model came from", exit_code=1)
    return tuple(tokens if unknown in tokens else [*tokens, unknown] for tokens in (source or [], target or []))  # type: ignore[return-value]


def _list(place: Path, name: str) -> list[str] | None:
    """A JSON list, or a text of a token a line."""
    if file_exists(file := place / f"{name}.json"):
        try:
            found = json.loads(read_bytes(file))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ZooError(f"`{file}` is damaged: it is not a list of tokens", exit_code=1)
        return found
    if not file_exists(file := place / f"{name}.txt"):
        return None
    try:
        lines = read_bytes(file).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ZooError(f"`{file}` is damaged: byte {error.start + 1} is not UTF-8", exit_code=1) from None
    if lines[-1] == "":
        del lines[-1]
    # Tokens may end with a carriage return: lines do where all of them do.
    return [line[:-1] for line in lines] if all(line.endswith("\r") for line in lines) else lines
