"""Marian's vocabularies, .spm or .yml, as ours."""

from __future__ import annotations

from pathlib import Path

import yaml

from specs import UNK, ZooError
from zoo.files.reading import file_exists, read_bytes
from zoo.interop.joined import Joined, cut_otherwise, joined
from zoo.interop.numbering import Numbering
from zoo.interop.sentence_model import SentenceModel, Type
from zoo.text.tokenizer import damaged

_LISTS = (".yml", ".yaml", ".json")
_END, _UNKNOWN = "</s>", "<unk>"


def read(files: tuple[Path, Path], rows: tuple[int, int]) -> Joined:
    """Those of source and target, whose matrices have so many rows.

    Raises ZooError for words whose cutting nothing says, and where a file is damaged or of another model.
    """
    source, target = files
    if any(file.suffix in _LISTS for file in files):
        return _of_lists(source, target, rows)
    first = SentenceModel(source)
    if _same(source, target):
        numbering = _numbered(first, rows[0])
        return joined(first, None, numbering, numbering)
    second = SentenceModel(target)
    return joined(first, second, _numbered(first, rows[0]), _numbered(second, rows[1]))


def _of_lists(source: Path, target: Path, rows: tuple[int, int]) -> Joined:
    """Lists of tokens, into which text is cut by SentencePiece models that lie beside them."""
    models = [source.with_name(f"{side}.spm") for side in ("source", "target")]
    if not all(map(file_exists, models)):
        raise ZooError(
            f"`{source.name}` lists tokens, and nothing says how text is cut into them: `source.spm` and `target.spm` "
            f"are not both in `{source.parent}`",
            hint="put the SentencePiece models of the source and the target there; other ways of cutting cannot be "
            "imported",
        )
    first, second = map(SentenceModel, models)
    if source == target or read_bytes(source) == read_bytes(target):
        both = _listed(source, rows[0], first, second)
        return joined(first, second, both, both)
    return joined(first, second, _listed(source, rows[0], first), _listed(target, rows[1], second))


def _numbered(model: SentenceModel, rows: int) -> Numbering:
    """Of a SentencePiece model whose own numbers the matrices go by."""
    end = model.number(_END)
    if end is None or len(model.entries) != rows:
        raise damaged(str(model.file), f"it has {len(model.entries):,} tokens, its model {rows:,}, or no `{_END}`")
    unknown = next((number for number, each in enumerate(model.entries) if each.type is Type.UNKNOWN), UNK)
    return Numbering.of(model.named(), unknown=unknown, end=end, first=model.named(Type.BYTE))


def _listed(file: Path, rows: int, *models: SentenceModel) -> Numbering:
    """Of a list. What the models cut text into and the list does not have is read as unknown."""
    numbers = _list(file)
    names = {number: name for name, number in numbers.items() if number < rows}
    # As in Nematus' lists: the first two may be empty, or called otherwise.
    end = 0 if names.get(0, "") in ("", "eos", _END) else numbers.get(_END)
    unknown = 1 if names.get(1, "") in ("", "UNK", _UNKNOWN) else numbers.get(_UNKNOWN)
    if end is None or unknown is None:
        raise damaged(str(file), f"it has no `{_END}` or no `{_UNKNOWN}`")
    kept = {name for name, number in numbers.items() if number < rows}
    return Numbering.of(
        [names.get(number, "") for number in range(rows)],
        unknown=unknown,
        end=end,
        first=[name for model in models for name in model.named(Type.BYTE)],
        read_as_unknown=cut_otherwise(models, kept),
    )


def _list(file: Path) -> dict[str, int]:
    """Tokens and their numbers, read event by event: a list is nothing but text and numbers."""
    try:
        text = read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(str(file), f"byte {error.start + 1} is not UTF-8") from None
    scalars: list[str] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.ScalarEvent):
                scalars.append(event.value)
            elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent):
                raise ValueError
        names, numbers = scalars[::2], [int(number) for number in scalars[1::2]]
    except (yaml.YAMLError, ValueError):
        names, numbers = [], []
    if not names or len(names) != len(numbers) or len({*names}) != len(names) or min(numbers) < 0:
        raise damaged(str(file), "it is no list of tokens and their numbers")
    return dict(zip(names, numbers, strict=True))


def _same(one: Path, other: Path) -> bool:
    return one == other or read_bytes(one) == read_bytes(other)
