"""Vocabularies of transformers' T5Tokenizer, which T5, mT5 and MADLAD-400 have.

The tokens are those of `tokenizer.json`, or else those of `spiece.model` and the sentinels `<extra_id_99>` to
`<extra_id_0>`. transformers (version 5) finds some of them in raw text: the special tokens and the entries of
`added_tokens_decoder`. If `tokenizer_config.json` has no `additional_special_tokens`, it also finds the sentinels and
the control and user-defined tokens of `spiece.model`. The unigram model splits the text between the found tokens. It
treats all its tokens as normal tokens.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specs import BOS, EOS, UNK, ZooError
from zoo.interop.huggingface.config import TOKENIZER_CONFIG, SpecialTokens, read_optional_json
from zoo.interop.numbering import Numbering
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenEntry, TokenType, new_model
from zoo.interop.vocabulary import ImportedVocabulary, TokenList, convert_vocabulary
from zoo.text.tokenizer import Tokenizer, damaged_vocabulary
from zoo.text.vocabulary import Vocabulary

SENTENCEPIECE = "spiece.model"
TOKENIZER, ADDED_TOKENS, SPECIAL_TOKENS = "tokenizer.json", "added_tokens.json", "special_tokens_map.json"
_CLASSES = (None, "T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast")
_DEFAULT_NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_OTHER_NAMES = ("bos_token", "sep_token", "cls_token", "mask_token")
_ADDITIONAL, _EXTRA = "additional_special_tokens", "extra_special_tokens"
_SENTINELS = 100
_MAX_TOKENS = 1 << 20
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
LANGUAGE_TOKEN = "<2{}>"
"""Token of a target language in MADLAD-400, with `{}` in place of its code."""
_LANGUAGE = re.compile(r"<2([a-z]{2,4}(_[A-Z][a-z]{3})?(_[A-Z]{2})?)>")
"""Token of a language, and not of a task (`<2translate>`), a script (`<2Latn>`) or a region (`<2CA>`)."""


@dataclass
class TokenizerTokens:
    """Tokens of a tokenizer, while its files are read."""

    model: SentencePieceModel
    names: list[str]
    """Names of the tokens, in the order of transformers' IDs. An ID without a token has an empty name."""
    unknown: int
    added: dict[str, int] = field(default_factory=dict)
    """Tokens that the tokenizer finds in raw text: each name and its ID in transformers."""
    special: set[str] = field(default_factory=set)
    """Added tokens that are not part of the text of a translation."""

    @classmethod
    def of(cls, file: Path) -> TokenizerTokens:
        """Return the tokens of a SentencePiece model. Raise ZooError if it is damaged."""
        model = SentencePieceModel(file)
        (unknown,) = model.names(TokenType.UNKNOWN)
        return cls(model, model.names(), model.names().index(unknown))

    def append(self, name: str) -> None:
        """Append a token to those of the unigram model, unless the model already has it."""
        if name not in self.names:
            self.names.append(name)
            self.model.entries.append(TokenEntry(name, 0.0, TokenType.NORMAL))

    def add(self, name: str, id: int | None = None, *, special: bool = True) -> None:
        """Add a token to those that are found in raw text. If it is new, it gets an ID.

        Raises:
            ZooError: The ID belongs to another token, or it is too large.
        """
        if id is None:
            id = self.names.index(name) if name in self.names else len(self.names)
        if not (isinstance(id, int) and 0 <= id < _MAX_TOKENS) or not name:
            raise damaged_vocabulary(str(self.model.file.parent), f"its added token `{name}` has no valid ID"[:200])
        self.names.extend([""] * (id + 1 - len(self.names)))
        if self.names[id] not in ("", name):
            problem = f"the IDs of its added token `{name}` and of `{self.names[id]}` are the same"[:200]
            raise damaged_vocabulary(str(self.model.file.parent), problem)
        self.names[id] = name
        self.added[name] = id
        if special:
            self.special.add(name)

    def set_types(self) -> None:
        """Give each token of the unigram model the type that it has in transformers."""
        for id, entry in enumerate(self.model.entries):
            if entry.type not in (TokenType.UNKNOWN, TokenType.BYTE):
                type_ = TokenType.CONTROL if entry.name in self.special else TokenType.NORMAL
                self.model.entries[id] = entry._replace(type=type_)


def read_t5_vocabulary(folder: Path, rows: int, special: SpecialTokens) -> ImportedVocabulary:
    """Read a vocabulary.

    Args:
        folder: The folder of the model.
        rows: The number of rows of the embedding. It may be larger than the number of tokens.
        special: The IDs of the special tokens according to `config.json`.

    Raises:
        ZooError: A file is missing or damaged, or the tokenizer has a property that zoo does not support.
    """
    config = read_optional_json(folder / TOKENIZER_CONFIG)
    # A list of additional tokens in the older file `special_tokens_map.json` replaces no sentinels.
    older = read_optional_json(folder / SPECIAL_TOKENS)
    config = {**{key: value for key, value in older.items() if key != _ADDITIONAL}, **config}
    if config.get("tokenizer_class") not in _CLASSES:
        problem = f"the tokenizer of `{folder}` is `{config['tokenizer_class']}`, but zoo reads only T5Tokenizer"
        raise ZooError(problem[:200])
    tokens = _read_tokens(folder, config)
    tokens.model.require_spaces(added=True)
    if tokens.model.kind != "unigram":
        raise ZooError(f"`{tokens.model.file}` is a `{tokens.model.kind}` model, but T5Tokenizer is a unigram model")
    end = tokens.added[special_name(config, "eos_token")]
    if end != special.end:
        problem = f"the tokenizer of `{folder}` ends a text with the token {end}, but `eos_token_id` is {special.end}"
        raise ZooError(problem, hint="correct `eos_token_id` in `config.json`", exit_code=1)
    languages = [LANGUAGE_TOKEN.replace("{}", code) for code in language_codes(tokens.names)]
    # transformers encodes the others as text, with a space before them.
    tokens.special.update(name for name in languages if name in tokens.added)
    tokens.set_types()
    return convert_tokens(tokens, rows, special, folder, languages=languages)


def language_codes(names: Collection[str]) -> list[str]:
    """Return the codes of the languages that have tokens such as `<2de>`, as in MADLAD-400. Empty for other models."""
    codes = [match[1] for name in names if (match := _LANGUAGE.fullmatch(name))]
    return codes if len(codes) > 1 else []


def convert_tokens(
    tokens: TokenizerTokens,
    rows: int,
    special: SpecialTokens,
    folder: Path,
    *,
    source_has_end: bool = True,
    languages: Collection[str] = (),
) -> ImportedVocabulary:
    """Convert the tokens of a tokenizer, which serves both sides, with its added tokens.

    Args:
        tokens: The tokens.
        rows: The number of rows of the embedding. It may be larger than the number of tokens.
        special: The IDs of the special tokens according to `config.json`.
        folder: The folder of the model, for error messages.
        source_has_end: Whether the tokenizer appends EOS to a source.
        languages: Tokens of languages. Texts that contain one are rejected.

    Raises:
        ZooError: The embedding has too few rows.
    """
    if len(tokens.names) > rows:
        problem = f"the tokenizer of `{folder}` has {len(tokens.names):,} tokens, but `vocab_size` is {rows:,}"
        raise ZooError(problem, hint="restore the files from the model's original source", exit_code=1)
    if rows > _MAX_TOKENS or max(special.end, special.start, special.pad, tokens.unknown) >= rows:
        raise damaged_vocabulary(str(folder), f"a special token has no row in the embedding of {rows:,} rows"[:200])
    names = (*tokens.names, *[""] * (rows - len(tokens.names)))
    pad = None if special.pad in (special.start, special.end, tokens.unknown) else special.pad
    listed = TokenList(names, unknown=tokens.unknown, end=special.end, start=special.start, pad=pad)
    imported = convert_vocabulary(
        [tokens.model],
        listed,
        listed,
        shared=True,
        where=folder,
        source_has_end=source_has_end,
        control=[name for name in languages if name in tokens.added],
    )
    ids = _added_ids(tokens, imported.source, special, pad) | dict.fromkeys(languages)
    sides = [imported.vocabulary.source, *([] if imported.vocabulary.shared else [imported.vocabulary.target])]
    with_added = [side.with_added_tokens(ids, str(folder)) for side in sides if isinstance(side, Tokenizer)]
    return replace(imported, vocabulary=Vocabulary(*with_added))


def _read_tokens(folder: Path, config: Mapping[str, Any]) -> TokenizerTokens:
    sentinels = config.get("extra_ids", _SENTINELS)
    if type(sentinels) is not int or not 0 <= sentinels < _MAX_TOKENS:
        raise damaged_vocabulary(str(folder / TOKENIZER_CONFIG), "`extra_ids` is not a number of tokens")
    is_listed = _ADDITIONAL in config or isinstance(config.get(_EXTRA), list)
    names = [f"<extra_id_{number}>" for number in range(sentinels)]
    tokenizer = read_optional_json(folder / TOKENIZER)
    if tokenizer:
        tokens = _from_tokenizer_file(folder / TOKENIZER, tokenizer, special_name(config, "unk_token"))
        decoder = {entry.get("id"): entry for entry in tokenizer.get("added_tokens") or []}
    else:
        tokens = TokenizerTokens.of(folder / SENTENCEPIECE)
        model = tokens.model
        for name in reversed(names):
            tokens.append(name)
        for name in () if is_listed else model.names(TokenType.CONTROL, TokenType.USER_DEFINED):
            tokens.add(name, special=name in model.names(TokenType.CONTROL))
        decoder = {id: {"content": name} for name, id in read_optional_json(folder / ADDED_TOKENS).items()}
    decoder = {int(id): entry for id, entry in (config.get("added_tokens_decoder") or decoder).items()}
    for id, entry in sorted(decoder.items()):
        _require_plain(entry, folder)
        tokens.add(entry["content"], id, special=bool(entry.get("special")))
    for name in (*special_names(config), *([] if is_listed else names)):
        tokens.add(name)
    return tokens


def _from_tokenizer_file(file: Path, tokenizer: Mapping[str, Any], unknown_name: str) -> TokenizerTokens:
    """Return the tokens of a `tokenizer.json`.

    Its `unk_id` counts only if no token has the name of the unknown token: transformers 5 always writes 2.
    """
    model = tokenizer["model"]
    if model.get("type") != "Unigram" or not isinstance(model.get("vocab"), list):
        raise damaged_vocabulary(str(file), "it does not contain a unigram model")
    ids = (id for id, (name, _) in enumerate(model["vocab"]) if name == unknown_name)
    unknown, fallback = next(ids, model.get("unk_id")), bool(model.get("byte_fallback", False))
    entries = []
    for id, (name, score) in enumerate(model["vocab"]):
        type_ = TokenType.BYTE if fallback and _BYTE.fullmatch(name) else TokenType.NORMAL
        entries.append(TokenEntry(name, float(score), TokenType.UNKNOWN if id == unknown else type_))
    if type(unknown) is not int or not 0 <= unknown < len(entries):
        raise damaged_vocabulary(str(file), "it has no unknown token")
    content = new_model("unigram", entries, character_map(tokenizer.get("normalizer")), byte_fallback=fallback)
    return TokenizerTokens(SentencePieceModel(file, content), [entry.name for entry in entries], unknown)


def character_map(normalizer: Mapping[str, Any] | None) -> bytes | None:
    """Return the compiled rules of the normalisation, or None if characters stay as they are."""
    steps = (normalizer.get("normalizers") or [normalizer]) if normalizer else []
    maps = [step.get("precompiled_charsmap") for step in steps if step.get("type") == "Precompiled"]
    return base64.b64decode(maps[0], validate=True) if maps and maps[0] else None


def _require_plain(entry: Mapping[str, Any], folder: Path) -> None:
    """Raise ZooError if an added token is found in another way than by its characters.

    Texts for tokens that are searched for after the normalisation must be ASCII, which it does not change. `lstrip` and
    `rstrip` have no effect, because T5Tokenizer removes the spaces around added tokens in any case.
    """
    if entry.get("single_word") or (entry.get("normalized") and not entry["content"].isascii()):
        problem = (
            f"the added token `{entry['content']}` of `{folder}` is found only as a whole word or in normalised text"
        )
        raise ZooError(problem[:300], hint="remove it from the tokenizer")


def special_names(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all special tokens that a tokenizer has by its settings or by default."""
    yield from filter(None, (special_name(config, key) for key in (*_DEFAULT_NAMES, *_OTHER_NAMES)))
    for listed in (config.get(_ADDITIONAL) or [], config.get(_EXTRA) or []):
        for entry in listed.values() if isinstance(listed, Mapping) else listed:
            yield entry["content"] if isinstance(entry, Mapping) else entry


def special_name(config: Mapping[str, Any], key: str) -> str:
    """Return the name of a special token, or an empty text if there is none."""
    value = config.get(key, _DEFAULT_NAMES.get(key))
    return str(value["content"] if isinstance(value, Mapping) else value or "")


def _added_ids(
    tokens: TokenizerTokens, numbering: Numbering, special: SpecialTokens, pad: int | None
) -> dict[str, int | None]:
    """Return zoo's ID of each added token. None: a padding token of its own, which attention never sees in zoo."""
    ids: dict[int | None, int | None] = {
        token.row: id for id, token in enumerate(numbering.tokens) if not token.input_only
    }
    ids |= {tokens.unknown: UNK, special.end: EOS}
    if special.start not in (tokens.unknown, special.end):
        ids[special.start] = BOS
    if pad is not None:
        ids[pad] = None
    return {name: ids[row] for name, row in tokens.added.items()}
