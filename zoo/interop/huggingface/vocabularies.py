"""`vocab.json`, `source.spm` and `target.spm` as our vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from zoo.files.reading import read_bytes, read_json
from zoo.interop.joined import Joined, cut_otherwise, joined
from zoo.interop.numbering import Numbering
from zoo.interop.sentence_model import SentenceModel, Type
from zoo.text.tokenizer import damaged

_UNKNOWN = "<unk>"
_MOST = 1 << 20  # tokens


class Special(NamedTuple):
    """Foreign numbers of EOS, of what decoding starts with (None: of a side that is not decoded), and of PAD."""

    end: int
    start: int | None
    pad: int


def read(folder: Path, rows: tuple[int, int], special: Special, *, shared: bool) -> Joined:
    """Of embeddings with so many rows.

    Raises ZooError where a file is missing or damaged.
    """
    models = [folder / "source.spm", folder / "target.spm"]
    first, second = SentenceModel(models[0]), SentenceModel(models[1])
    if not shared:
        # Nothing begins a source: what has that number there is another token, unless it is called alike.
        begin, other = (_name(folder / name, special) for name in ("vocab.json", "target_vocab.json"))
        start = special.start if begin == other else None
        source = _numbering(folder / "vocab.json", rows[0], [first], special._replace(start=start))
        target = _numbering(folder / "target_vocab.json", rows[1], [second], special)
        return joined(first, second, source, target)
    both = _numbering(folder / "vocab.json", rows[0], [first, second], special)
    alike = read_bytes(models[0]) == read_bytes(models[1])
    return joined(first, None if alike else second, both, both)


def _numbering(file: Path, rows: int, models: list[SentenceModel], special: Special) -> Numbering:
    end, start, pad = special
    names: dict[int, str] = {}
    for name, number in read_json(file).items():
        if not _is_number(number) or number in names:
            raise damaged(str(file), f"`{name}` has no number of its own")
        names[number] = name
    unknown = next((number for number, name in names.items() if name == _UNKNOWN), None)
    if rows > _MOST:
        raise damaged(str(file), f"its config says that it has {rows:,} tokens"[:200])
    if unknown is None or unknown >= rows or end >= rows or (start is not None and start >= rows):
        raise damaged(str(file), f"it has no `{_UNKNOWN}`, or the embedding has too few rows ({rows:,})")
    listed = {name for number, name in names.items() if number < rows}
    return Numbering.of(
        [names.get(number, "") for number in range(rows)],
        unknown=unknown,
        end=end,
        start=start,
        pad=pad,
        first=[name for model in models for name in model.named(Type.BYTE)],
        read_as_unknown=cut_otherwise(models, listed),
    )


def _name(file: Path, special: Special) -> str | None:
    """Of what decoding starts with."""
    return next((name for name, number in read_json(file).items() if number == special.start), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
