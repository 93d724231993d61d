"""Reader of Marian's vocabularies: SentencePiece models (.spm), or lists of tokens (.yml) with SentencePiece models."""

from __future__ import annotations

from pathlib import Path

import yaml

from specs import UNK, ZooError
from zoo.files.reading import is_present, read_bytes
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.vocabulary import ImportedVocabulary, TokenList, convert_vocabulary
from zoo.text.tokenizer import damaged_vocabulary

_LISTS = (".yml", ".yaml", ".json")
_END, _UNKNOWN = "</s>", "<unk>"


def read_vocabulary(files: tuple[Path, Path], rows: tuple[int, int]) -> ImportedVocabulary:
    """Read the vocabularies of the source and the target.

    Args:
        files: The vocabulary files of the source and the target.
        rows: The number of rows of the source embedding and of the target embedding.

    Raises:
        ZooError: A file is damaged or belongs to another model, or there is no SentencePiece model that splits text
            into the tokens of a list.
    """
    source, target = files
    shared = source == target or read_bytes(source) == read_bytes(target)
    if any(file.suffix in _LISTS for file in files):
        models = _models_of_list(source)
        lists = [_read_list(file, count) for file, count in zip(files, rows, strict=True)]
    else:
        models = [SentencePieceModel(file) for file in (files[:1] if shared else files)]
        lists = [_tokens_of_model(model, count) for model, count in zip(models, rows, strict=False)]
    return convert_vocabulary(models, lists[0], lists[-1], shared=shared, where=source.parent)


def _models_of_list(file: Path) -> list[SentencePieceModel]:
    models = [file.with_name(f"{side}.spm") for side in ("source", "target")]
    if not all(map(is_present, models)):
        raise ZooError(
            f"`{file.name}` is a list of tokens, but `{file.parent}` lacks `source.spm` or `target.spm`, which split "
            "text into these tokens",
            hint="add the SentencePiece models of the source and the target; other tokenizers are not supported",
        )
    return [SentencePieceModel(model) for model in models]


def _tokens_of_model(model: SentencePieceModel, rows: int) -> TokenList:
    end = model.id(_END)
    if end is None or len(model.entries) != rows:
        reason = f"it has {len(model.entries):,} tokens but the embedding has {rows:,} rows, or it lacks `{_END}`"
        raise damaged_vocabulary(str(model.file), reason)
    types = [entry.type for entry in model.entries]
    unknown = types.index(TokenType.UNKNOWN) if TokenType.UNKNOWN in types else UNK
    return TokenList(tuple(model.names()), unknown=unknown, end=end)


def _read_list(file: Path, rows: int) -> TokenList:
    ids = _parse_list(file)
    names = {id: name for name, id in ids.items() if id < rows}
    # As in lists of Nematus, the first two names may be empty or different.
    end = 0 if names.get(0, "") in ("", "eos", _END) else ids.get(_END)
    unknown = 1 if names.get(1, "") in ("", "UNK", _UNKNOWN) else ids.get(_UNKNOWN)
    if end is None or unknown is None:
        raise damaged_vocabulary(str(file), f"it lacks `{_END}` or `{_UNKNOWN}`")
    return TokenList(tuple(names.get(id, "") for id in range(rows)), unknown=unknown, end=end)


def _parse_list(file: Path) -> dict[str, int]:
    """Return the ID of each token name. Reading YAML events accepts no content other than text and numbers."""
    try:
        text = read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged_vocabulary(str(file), f"byte {error.start + 1} is not UTF-8") from None
    scalars: list[str] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.ScalarEvent):
                scalars.append(event.value)
            elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent):
                raise ValueError
        names, ids = scalars[::2], [int(number) for number in scalars[1::2]]
    except (yaml.YAMLError, ValueError):
        names, ids = [], []
    if not names or len(names) != len(ids) or len({*names}) != len(names) or min(ids) < 0:
        raise damaged_vocabulary(str(file), "it is not a list of tokens and their IDs")
    return dict(zip(names, ids, strict=True))
