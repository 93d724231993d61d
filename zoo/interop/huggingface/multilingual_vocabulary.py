"""Vocabularies of transformers' M2M100Tokenizer, NllbTokenizer and MBart50Tokenizer.

IDs 0 to 3 are `<s>`, `<pad>`, `</s>` and `<unk>`. The text tokens follow, then the language tokens.
For M2M100Tokenizer, `vocab.json` lists the IDs of the text tokens. For the other tokenizers, text tokens have the order
of `sentencepiece.bpe.model`. Folders written by transformers 5 contain `tokenizer.json` instead of this model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from specs import BOS, EOS, PAD, UNK, Languages, Spec, ZooError
from zoo.files.atomic import write_json
from zoo.files.reading import MAX_VOCABULARY_BYTES, damaged, is_present, read_json
from zoo.interop.formats import cannot_export
from zoo.interop.huggingface.tokenizer import (
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WrittenIds,
    added_entries,
    content_of,
    decoder_entry,
    never_generated,
    read_saved_model,
    replacement_of_start,
    tokenizer_settings,
)
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.tables import END, FAIRSEQ_SPECIAL, PAD_ROW, START, TOOLKITS, UNKNOWN, Settings
from zoo.interop.tensors import TokenList
from zoo.interop.vocabulary import ImportedVocabulary, convert_vocabulary
from zoo.models.loading import Model
from zoo.text.rules import AddedTokens
from zoo.text.vocabulary import Vocabulary

_FORMAT = "hf-multilingual"
SENTENCEPIECE, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
MASK = "<mask>"
LANGUAGES = {name: tuple(codes.split()) for name, codes in TOOLKITS["transformers.multilingual.languages"].items()}
"""Languages that tokenizers support, in the order of the language tokens."""
_MAX_MESSAGE = 300  # characters
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]+)*")
_START_NAME = f"{FAIRSEQ_SPECIAL[START]}<{START}>"
"""Name of `<s>` in an imported model that begins translations with another token."""
_UNNAMED = re.compile(r"<\d+>")
_LISTED = ("extra_special_tokens", "additional_special_tokens")


@dataclass(frozen=True)
class TokenizerClass:
    """Multilingual tokenizer class in transformers. The SentencePiece model determines the IDs of its text tokens."""

    name: str
    kind: str
    """Algorithm of the SentencePiece model, `bpe` or `unigram`."""
    language_token: str
    """Language token, with `{}` in place of the language code."""
    lists: tuple[str, ...] = ()
    """Keys of the supported lists in `LANGUAGES`, the default first. Empty if a model's files list its languages."""
    finds_tokens: ClassVar[bool] = True
    """Whether the tokenizer finds language tokens and `<mask>` anywhere in a text."""

    def languages(self, settings: Settings, others: Sequence[str]) -> Sequence[str]:
        """Return the language codes, in the order of the language tokens.

        Args:
            settings: The tokenizer's settings.
            others: Names of added tokens that are not special tokens.

        Raises:
            ZooError: The `language_codes` setting is an unknown key in `LANGUAGES`.
        """
        named = settings.any("language_codes")
        if len(self.lists) > 1 and named not in (None, *self.lists):
            raise settings.error("language_codes", f"must be one of {', '.join(self.lists)}")
        if not self.lists:
            return others
        return LANGUAGES[named if named in self.lists else self.lists[0]]

    def read_text_tokens(self, folder: Path, added: Collection[str]) -> tuple[SentencePieceModel, list[str]]:
        """Return the SentencePiece model, and the names of all tokens before the language tokens, in ID order."""
        file, saved = folder / SENTENCEPIECE, folder / TOKENIZER
        if not is_present(file) and is_present(saved):
            control = {*added, *FAIRSEQ_SPECIAL, MASK} - {FAIRSEQ_SPECIAL[UNKNOWN]}
            model = read_saved_model(saved, self.kind, FAIRSEQ_SPECIAL[UNKNOWN], control)
            return model, _beginning_with_special(saved, model.names())
        model = SentencePieceModel(file)
        if model.names()[:3] != ["<unk>", "<s>", "</s>"]:
            raise damaged(file, "its first tokens are not <unk>, <s> and </s>")
        return model, [*FAIRSEQ_SPECIAL, *model.names()[3:]]

    def is_text(self, name: str, *, is_control: bool) -> bool:
        """Return whether a token represents text. In transformers, such tokens have lower IDs than language tokens.

        Args:
            name: The name of the token, which is neither a special token nor a language token.
            is_control: Whether the token is a control token of the SentencePiece model.
        """
        return not is_control

    def model_tokens(self, sentencepiece: SentencePieceModel, text: Sequence[int]) -> Sequence[int]:
        """Return zoo's IDs of the tokens that follow the special tokens in the exported SentencePiece model.

        Args:
            sentencepiece: The SentencePiece model with zoo's IDs.
            text: zoo's IDs of the text tokens, in the order of transformers' IDs.
        """
        return text

    def write_tokens(self, folder: Path, names: Sequence[str], languages: Languages, *, has_mask: bool) -> None:
        """Write the tokenizer's settings.

        Args:
            folder: The folder of the exported model.
            names: Names of all tokens before the language tokens, in ID order.
            languages: Languages of the model.
            has_mask: Whether `<mask>` is a token in the model.
        """
        tokens = [languages.token_of(code) for code in languages.codes]
        added = enumerate([*tokens, *([MASK] if has_mask else [])], start=len(names))
        numbered = {**dict(enumerate(FAIRSEQ_SPECIAL)), **dict(added)}
        decoder = {str(id): decoder_entry(name, lstrip=name == MASK) for id, name in numbered.items()}
        settings = {"tokenizer_class": self.name, "added_tokens_decoder": decoder, "extra_special_tokens": tokens}
        write_json(folder / TOKENIZER_CONFIG, settings)


class _M2M100(TokenizerClass):
    """M2M100Tokenizer. `vocab.json` lists the IDs of text tokens. Language tokens in raw text are ordinary text."""

    finds_tokens = False

    def read_text_tokens(self, folder: Path, added: Collection[str]) -> tuple[SentencePieceModel, list[str]]:
        """Return the SentencePiece model, and the names in `vocab.json`, in ID order."""
        return SentencePieceModel(folder / SENTENCEPIECE), _read_ids(folder / VOCABULARY)

    def is_text(self, name: str, *, is_control: bool) -> bool:
        """Return whether a token represents text. Control tokens such as `<128104>` only fill unused IDs."""
        return not (is_control and _UNNAMED.fullmatch(name))

    def model_tokens(self, sentencepiece: SentencePieceModel, text: Sequence[int]) -> Sequence[int]:
        """Return zoo's IDs of all tokens except special and control tokens, in the order of these IDs."""
        types = [entry.type for entry in sentencepiece.entries]
        return [id for id in range(EOS + 1, len(types)) if types[id] is not TokenType.CONTROL]

    def write_tokens(self, folder: Path, names: Sequence[str], languages: Languages, *, has_mask: bool) -> None:
        """Write the token IDs and the tokenizer settings."""
        write_json(folder / VOCABULARY, {name: id for id, name in enumerate(names)})
        language_list = next(name for name in self.lists if LANGUAGES[name] == languages.codes)
        write_json(folder / TOKENIZER_CONFIG, {"tokenizer_class": self.name, "language_codes": language_list})


M2M100_TOKENIZER = _M2M100("M2M100Tokenizer", "bpe", "__{}__", ("m2m100", "wmt21"))
NLLB_TOKENIZER = TokenizerClass("NllbTokenizer", "bpe", "{}")
MBART50_TOKENIZER = TokenizerClass("MBart50Tokenizer", "unigram", "{}", ("mbart50",))
CLASSES = {each.name: each for each in (M2M100_TOKENIZER, NLLB_TOKENIZER, MBART50_TOKENIZER)}


def tokenizer_class(folder: Path, config: Settings) -> TokenizerClass:
    """Return the tokenizer class that is named in the settings. By default, return the class that fits the files.

    Raises:
        ZooError: The class that is named in the settings is not supported.
    """
    named = tokenizer_settings(folder).get("tokenizer_class") or config.any("tokenizer_class")
    if named is None:
        if config.any("model_type") == "mbart":
            return MBART50_TOKENIZER
        return M2M100_TOKENIZER if is_present(folder / VOCABULARY) else NLLB_TOKENIZER
    if (name := str(named).removesuffix("Fast")) in CLASSES:
        return CLASSES[name]
    problem = f"the tokenizer of `{folder}` is `{named}`, but zoo reads only {', '.join(CLASSES)}"
    hint = "choose an mBART-50 model, because MBartTokenizer puts language tokens at different positions"
    raise ZooError(problem[:_MAX_MESSAGE], hint=hint if name == "MBartTokenizer" else None)


def read_multilingual_vocabulary(folder: Path, class_: TokenizerClass, rows: int, start: int) -> ImportedVocabulary:
    """Read the vocabulary of a multilingual model.

    Args:
        folder: The folder of the model.
        class_: The class of the model's tokenizer in transformers.
        rows: The number of rows in the embedding. It may be larger than the number of tokens.
        start: transformers' ID of the decoder's start token.

    Raises:
        ZooError: A file is missing or damaged, or the tokenizer has a property that zoo does not support.
    """
    settings = Settings(tokenizer_settings(folder), str(folder / TOKENIZER_CONFIG))
    settings.require_known("transformers.multilingual.tokenizer")
    added = {content_of(entry): id for id, entry in added_entries(folder, settings.values).items()}
    model, text_tokens = class_.read_text_tokens(folder, added)
    model.require_fit(class_.name, class_.kind)
    tokens = _language_tokens(folder, class_, settings, added)
    direction = settings.any("src_lang"), settings.any("tgt_lang")
    settings.require_all_known()
    names = dict(enumerate(text_tokens))
    has_mask = class_.finds_tokens and (MASK in added or not added)
    following = [*tokens, *([MASK] if has_mask else [])]
    for id, name in enumerate(following, start=len(text_tokens)):
        id = added.get(name, id)
        if id >= rows or names.get(id, name) != name:
            problem = f"the ID {id} of `{name}` belongs to another token, or the embedding has only {rows:,} rows"
            raise damaged(folder, problem)
        names[id] = name
    in_order = tuple(names.get(id, "") for id in range(rows))
    listed = TokenList(in_order, unknown=UNKNOWN, end=END, start=start, pad=PAD_ROW)
    control = set(names.values()) - set(model.names())
    imported = convert_vocabulary([model], listed, listed, shared=True, where=folder, control=control)
    if class_.finds_tokens:
        tokenizer = imported.vocabulary.source.extended(AddedTokens(dict.fromkeys(tokens)), str(folder))
        imported = replace(imported, vocabulary=Vocabulary(tokenizer))
    codes = [*tokens.values()]
    languages = {"codes": codes, "token": class_.language_token, "source_token": "source", "target_token": "target"}
    known = direction if all(code in codes for code in direction) else None
    return replace(imported, languages=languages, direction=known)


def _language_tokens(
    folder: Path, class_: TokenizerClass, settings: Settings, added: Mapping[str, int]
) -> dict[str, str]:
    """Return the language codes, keyed by language token, in the order of the tokenizer.

    Raises:
        ZooError: No file lists the languages, or an added token is not a language token.
    """
    special = {*FAIRSEQ_SPECIAL, MASK}
    listed = [content_of(entry) for key in _LISTED for entry in settings.any(key) or []]
    others = [name for name in dict.fromkeys([*listed, *added]) if name not in special]
    tokens = {class_.language_token.replace("{}", code): code for code in class_.languages(settings, others)}
    if unknown := next(
        (name for name in others if name not in tokens or not _LANGUAGE_CODE.fullmatch(tokens[name])), ""
    ):
        raise ZooError(f"`{folder}` has the added token `{unknown}`, which is not a language token"[:_MAX_MESSAGE])
    if len(tokens) < 2:
        hint = f"add `{SPECIAL_TOKENS}` or `{TOKENIZER}` from the original model"
        raise ZooError(f"no file in `{folder}` lists the languages of the tokenizer", hint=hint)
    return tokens


def _read_ids(file: Path) -> list[str]:
    ids = read_json(file, MAX_VOCABULARY_BYTES)
    names = {id: name for name, id in ids.items() if isinstance(id, int) and 0 <= id < len(ids)}
    if len(names) != len(ids):
        raise damaged(file, f"its IDs are not 0 to {len(ids) - 1:,}, each once")
    return _beginning_with_special(file, [names[id] for id in range(len(names))])


def _beginning_with_special(file: Path, names: list[str]) -> list[str]:
    if tuple(names[:4]) != FAIRSEQ_SPECIAL:
        raise damaged(file, f"its first tokens are not {', '.join(FAIRSEQ_SPECIAL)}")
    return names


def fitting_class(spec: Spec) -> TokenizerClass:
    """Return the transformers tokenizer class that fits a spec. Raise ZooError if no class fits."""
    languages, vocabulary = spec.languages, spec.vocabulary
    if languages is None or (languages.source_token, languages.target_token) != ("source", "target"):
        raise _unsupported(
            "in these models, sources begin with the token of the source language, and translations begin with the "
            "token of the target language (`languages.source_token: source`, `target_token: target`)"
        )
    if vocabulary.byte_fallback or not vocabulary.shared or vocabulary.separate_models:
        raise _unsupported("these tokenizers have one model for source and target, without `vocabulary.byte_fallback`")
    for class_ in (M2M100_TOKENIZER, MBART50_TOKENIZER, NLLB_TOKENIZER):
        codes = [LANGUAGES[name] for name in class_.lists] or [languages.codes]
        if (vocabulary.kind, languages.token) == (class_.kind, class_.language_token) and languages.codes in codes:
            return class_
    raise _unsupported(
        f"it has a vocabulary of kind `{vocabulary.kind}` and tokens `{languages.token}` for its "
        f"{len(languages.codes)} languages: NllbTokenizer has a bpe model and tokens `{{}}`, M2M100Tokenizer a bpe "
        "model and tokens `__{}__` for the languages of M2M-100, and MBart50Tokenizer a unigram model and tokens `{}` "
        "for the languages of mBART-50"
    )


def written_ids(model: Model, class_: TokenizerClass) -> WrittenIds:
    """Return the token IDs of an exported model: special, text, language and other tokens, in this order.

    Args:
        model: The published model.
        class_: The class of the model's tokenizer in transformers.

    Raises:
        ZooError: The model never generates BOS, and EOS cannot replace BOS because their embeddings differ.
    """
    tokenizer, languages = model.vocabulary.source, model.spec.languages
    assert languages is not None
    names = [str(tokenizer.model.id_to_piece(id)) for id in range(tokenizer.size)]
    never = never_generated(model)
    start = replacement_of_start(model, {EOS: END}, _FORMAT)
    own_start = names.index(_START_NAME) if _START_NAME in names else None
    heads = [own_start if start == END else BOS, PAD, EOS, UNK]
    of_languages = dict.fromkeys(tokenizer.model.piece_to_id([languages.token_of(code) for code in languages.codes]))
    tokens = [id for id in range(EOS + 1, len(names)) if id != own_start and not never[id]]
    others = [id for id in tokens if id not in of_languages]
    text = [id for id in others if class_.is_text(names[id], is_control=tokenizer.model.is_control(id))]
    rest = sorted(set(others) - set(text), key=lambda id: (names[id] != MASK, id))
    rows = [*heads, *text, *of_languages, *rest]
    return WrittenIds(rows, len(names), pad=PAD_ROW, end=END, start=start, other=UNKNOWN)


def _unsupported(reason: str) -> ZooError:
    return cannot_export(_FORMAT, reason)


def write_vocabulary(model: Model, class_: TokenizerClass, folder: Path, ids: WrittenIds) -> None:
    """Write the SentencePiece model and the files of the tokenizer class."""
    tokenizer, languages = model.vocabulary.source, model.spec.languages
    assert languages is not None
    sentencepiece = SentencePieceModel(folder / SENTENCEPIECE, tokenizer.content)
    first_language = int(ids.foreign[tokenizer.model.piece_to_id(languages.token_of(languages.codes[0]))])
    text = [id for id in ids.order[len(FAIRSEQ_SPECIAL) : first_language] if id is not None]
    special = {UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
    order = [UNK, BOS, EOS, *class_.model_tokens(sentencepiece, text)]
    (folder / SENTENCEPIECE).write_bytes(sentencepiece.reordered(order, special, {UNK: 0, BOS: 1, EOS: 2}))
    names = [*FAIRSEQ_SPECIAL, *(sentencepiece.entries[id].name for id in text)]
    class_.write_tokens(folder, names, languages, has_mask=MASK in sentencepiece.names())
