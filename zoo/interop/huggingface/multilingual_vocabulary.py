"""Vocabularies of transformers' M2M100Tokenizer, NllbTokenizer and MBart50Tokenizer.

IDs 0 to 3 are `<s>`, `<pad>`, `</s>` and `<unk>`. The text tokens follow, then the language tokens.
For M2M100Tokenizer, `vocab.json` lists the IDs of the text tokens. For the other tokenizers, text tokens have the order
of `sentencepiece.bpe.model`. Folders written by transformers 5 have `tokenizer.json` instead of that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, is_present, read_json
from zoo.interop.huggingface.config import TOKENIZER_CONFIG, read_optional_json
from zoo.interop.huggingface.t5_vocabulary import ADDED_TOKENS, SPECIAL_TOKENS, TOKENIZER, character_map
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenEntry, TokenType, new_model
from zoo.interop.settings import Settings
from zoo.interop.vocabulary import ImportedVocabulary, TokenList, convert_vocabulary
from zoo.text.tokenizer import Tokenizer, damaged_vocabulary
from zoo.text.vocabulary import Vocabulary

SENTENCEPIECE, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
SPECIAL_NAMES = ("<s>", "<pad>", "</s>", "<unk>")
"""Names of the tokens with the IDs 0 to 3 in transformers."""
START, PAD_ROW, END, UNKNOWN = range(4)
MASK = "<mask>"
_M2M100_CODES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_MBART50_CODES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN "
    "pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
M2M100 = tuple(_M2M100_CODES.split())
"""Languages of M2M-100, in the order of their tokens (Fan et al. 2020)."""
WMT21 = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
"""Languages of the models that Facebook AI submitted to WMT 2021, in the order of their tokens (Tran et al. 2021)."""
MBART50 = tuple(_MBART50_CODES.split())
"""Languages of mBART-50, in the order of their tokens (Tang et al. 2020)."""
LISTS = {"m2m100": M2M100, "wmt21": WMT21}
"""Languages of an M2M100Tokenizer, by its setting `language_codes`."""


@dataclass(frozen=True)
class TokenizerClass:
    """A tokenizer of transformers for many languages."""

    name: str
    kind: str
    """Algorithm of its SentencePiece model."""
    language_token: str
    """Token of a language, with `{}` in place of its code."""


M2M100_TOKENIZER = TokenizerClass("M2M100Tokenizer", "bpe", "__{}__")
NLLB_TOKENIZER = TokenizerClass("NllbTokenizer", "bpe", "{}")
MBART50_TOKENIZER = TokenizerClass("MBart50Tokenizer", "unigram", "{}")
CLASSES = {each.name: each for each in (M2M100_TOKENIZER, NLLB_TOKENIZER, MBART50_TOKENIZER)}

_MAX_TOKENS = 1 << 20
_MAX_MESSAGE = 300  # characters
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]+)*")
_SPECIAL_SETTINGS = {
    **dict.fromkeys(("bos_token", "cls_token"), "<s>"),
    **dict.fromkeys(("eos_token", "sep_token"), "</s>"),
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": MASK,
}
_LISTED = ("extra_special_tokens", "additional_special_tokens")
_NORMALIZERS = ("Precompiled", "Replace", "Strip")
"""Types of normaliser steps that SentencePiece also performs. Replace and Strip remove spaces."""


@dataclass(frozen=True)
class MultilingualVocabulary:
    """A converted vocabulary for many languages."""

    imported: ImportedVocabulary
    languages: dict[str, Any]
    """Fields of `languages` in the spec."""
    direction: tuple[str | None, str | None]
    """Source and target language that the settings of the tokenizer name."""


def tokenizer_class(folder: Path, config: Settings) -> TokenizerClass:
    """Return the class of the tokenizer that the settings name, or else the one that fits the files.

    Raises:
        ZooError: The settings name a class that zoo does not read.
    """
    named = _tokenizer_config(folder).get("tokenizer_class") or config.any("tokenizer_class")
    if named is None:
        if config.any("model_type") == "mbart":
            return MBART50_TOKENIZER
        return M2M100_TOKENIZER if is_present(folder / VOCABULARY) else NLLB_TOKENIZER
    if (name := str(named).removesuffix("Fast")) in CLASSES:
        return CLASSES[name]
    problem = f"the tokenizer of `{folder}` is `{named}`, but zoo reads only {', '.join(CLASSES)}"
    hint = (
        "choose an mBART-50 model, because MBartTokenizer puts language tokens elsewhere"
        if name == "MBartTokenizer"
        else None
    )
    raise ZooError(problem[:_MAX_MESSAGE], hint=hint)


def read_multilingual_vocabulary(folder: Path, class_: TokenizerClass, rows: int, start: int) -> MultilingualVocabulary:
    """Read the vocabulary of a multilingual model.

    Args:
        folder: The folder of the model.
        class_: The class of the tokenizer.
        rows: The number of rows of the embedding. It may be larger than the number of tokens.
        start: transformers' ID of the token that decoding starts with.

    Raises:
        ZooError: A file is missing or damaged, or the tokenizer has a property that zoo does not support.
    """
    if rows > _MAX_TOKENS:
        raise damaged_vocabulary(str(folder), f"its config says that it has {rows:,} tokens"[:200])
    settings = Settings(_tokenizer_config(folder), str(folder / TOKENIZER_CONFIG))
    _check_settings(settings)
    added = _added_tokens(folder, settings)
    model, text_tokens = _read_text_tokens(folder, class_, set(added))
    if model.kind != class_.kind:
        raise ZooError(f"`{model.file}` is a `{model.kind}` model, but {class_.name} has a `{class_.kind}` model")
    model.require_spaces(added=True)
    tokens = _language_tokens(folder, class_, settings, added)
    direction = settings.any("src_lang"), settings.any("tgt_lang")
    settings.require_all_known()
    names = dict(enumerate(text_tokens))
    has_mask = class_ is not M2M100_TOKENIZER and (MASK in added or not added)
    following = [*tokens, *([MASK] if has_mask else [])]
    for id, name in enumerate(following, start=len(text_tokens)):
        id = added.get(name, id)
        if id >= rows or names.get(id, name) != name:
            problem = f"the ID {id} of `{name}` is that of another token, or its embedding has only {rows:,} rows"
            raise damaged_vocabulary(str(folder), problem)
        names[id] = name
    listed = TokenList(
        tuple(names.get(id, "") for id in range(rows)), unknown=UNKNOWN, end=END, start=start, pad=PAD_ROW
    )
    known = set(model.names())
    imported = convert_vocabulary(
        [model], listed, listed, shared=True, where=folder, control=set(names.values()) - known
    )
    if class_ is not M2M100_TOKENIZER:  # transformers finds such tokens anywhere in a text
        assert isinstance(imported.vocabulary.source, Tokenizer)
        tokenizer = imported.vocabulary.source.with_added_tokens(dict.fromkeys(tokens), str(folder))
        imported = replace(imported, vocabulary=Vocabulary(tokenizer))
    languages = {
        "codes": [*tokens.values()],
        "token": class_.language_token,
        "source_token": "source",
        "target_token": "target",
    }
    return MultilingualVocabulary(imported, languages, direction)


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    """Return the settings of the tokenizer. Older folders have some of them in `special_tokens_map.json`."""
    return {**read_optional_json(folder / SPECIAL_TOKENS), **read_optional_json(folder / TOKENIZER_CONFIG)}


def _check_settings(settings: Settings) -> None:
    settings.require_known("transformers.multilingual.tokenizer")
    for key, expected in _SPECIAL_SETTINGS.items():
        if (value := settings.any(key)) is not None and _content(value) != expected:
            raise settings.error(key, f"differs from `{expected}`, which zoo expects")


def _content(entry: Any) -> str:
    """Return the text of an added token. The entry is this text, or a mapping of its text and options."""
    return str(entry["content"] if isinstance(entry, Mapping) else entry)


def _added_tokens(folder: Path, settings: Settings) -> dict[str, int]:
    """Return the added tokens that the files list: each token's name and its ID in transformers."""
    entries = {int(id): _content(entry) for id, entry in (settings.any("added_tokens_decoder") or {}).items()}
    if not entries:
        tokenizer = read_optional_json(folder / TOKENIZER)
        entries = {int(entry["id"]): _content(entry) for entry in tokenizer.get("added_tokens") or []}
    entries = entries or {int(id): name for name, id in read_optional_json(folder / ADDED_TOKENS).items()}
    return {name: id for id, name in sorted(entries.items())}


def _language_tokens(
    folder: Path, class_: TokenizerClass, settings: Settings, added: Mapping[str, int]
) -> dict[str, str]:
    """Return the language code for each language token, in the order of the tokenizer.

    Raises:
        ZooError: No file lists the languages, or an added token does not stand for a language.
    """
    special = {*SPECIAL_NAMES, MASK}
    listed = [_content(entry) for key in _LISTED for entry in settings.any(key) or []]
    others = [name for name in dict.fromkeys([*listed, *added]) if name not in special]
    list_name = settings.any("language_codes")
    if class_ is NLLB_TOKENIZER:
        codes: Sequence[str] = others
    elif class_ is MBART50_TOKENIZER:
        codes = MBART50
    elif (name := "m2m100" if list_name is None else list_name) in LISTS:
        codes = LISTS[name]
    else:
        raise settings.error("language_codes", f"must be one of {', '.join(LISTS)}")
    tokens = {class_.language_token.replace("{}", code): code for code in codes}
    if unknown := next(
        (name for name in others if name not in tokens or not _LANGUAGE_CODE.fullmatch(tokens[name])), ""
    ):
        raise ZooError(f"`{folder}` has the added token `{unknown}`, which is not a language"[:_MAX_MESSAGE])
    if len(tokens) < 2:
        hint = f"add its `{SPECIAL_TOKENS}` or `{TOKENIZER}` from the original model"
        raise ZooError(f"no file in `{folder}` lists the languages of the tokenizer", hint=hint)
    return tokens


def _read_text_tokens(folder: Path, class_: TokenizerClass, added: set[str]) -> tuple[SentencePieceModel, list[str]]:
    """Return the SentencePiece model, and the names of all tokens before the language tokens, in ID order."""
    file = folder / SENTENCEPIECE
    if class_ is M2M100_TOKENIZER:
        return SentencePieceModel(file), _read_ids(folder / VOCABULARY)
    if not is_present(file) and is_present(folder / TOKENIZER):
        return _from_tokenizer_file(folder / TOKENIZER, class_, {*added, *SPECIAL_NAMES, MASK})
    model = SentencePieceModel(file)
    if model.names()[:3] != ["<unk>", "<s>", "</s>"]:
        raise damaged_vocabulary(str(file), "its first tokens are not <unk>, <s> and </s>")
    return model, [*SPECIAL_NAMES, *model.names()[3:]]


def _read_ids(file: Path) -> list[str]:
    ids = read_json(file, MAX_VOCABULARY_BYTES)
    names = {id: name for name, id in ids.items() if isinstance(id, int) and 0 <= id < len(ids)}
    if len(names) != len(ids) or tuple(names[id] for id in range(min(4, len(names)))) != SPECIAL_NAMES:
        problem = (
            f"its IDs are not 0 to {len(ids) - 1:,}, each once, or it does not begin with {', '.join(SPECIAL_NAMES)}"
        )
        raise damaged_vocabulary(str(file), problem)
    return [names[id] for id in range(len(names))]


def _from_tokenizer_file(file: Path, class_: TokenizerClass, added: set[str]) -> tuple[SentencePieceModel, list[str]]:
    """Return a SentencePiece model that splits text like a `tokenizer.json`, and the names of the tokens by ID.

    Args:
        file: The file.
        class_: The class of the tokenizer.
        added: Names of tokens that are not part of a text.

    Raises:
        ZooError: The file is damaged, or SentencePiece cannot split text in the same way.
    """
    content = read_json(file, MAX_VOCABULARY_BYTES)
    model = content["model"]
    if str(model.get("type")).lower() != class_.kind:
        raise damaged_vocabulary(str(file), f"it does not contain a {class_.kind} model")
    normalizer = content.get("normalizer") or {}
    for step in normalizer.get("normalizers") or [normalizer]:
        if step and step.get("type") not in _NORMALIZERS:
            raise ZooError(
                f"`{file}` normalises text with `{step.get('type')}`, which zoo does not know"[:_MAX_MESSAGE]
            )
    if class_.kind == "unigram":
        scores = {str(name): float(score) for name, score in model["vocab"]}
        names = [name for name, _ in model["vocab"]]
    else:
        names = sorted(model["vocab"], key=model["vocab"].__getitem__)
        if sorted(model["vocab"].values()) != list(range(len(names))):
            raise damaged_vocabulary(str(file), "its IDs are not all numbers from 0 on, each once")
        scores = _scores_of_merges(file, names, model["merges"])
    if tuple(names[:4]) != SPECIAL_NAMES:
        raise damaged_vocabulary(str(file), f"its first tokens are not {', '.join(SPECIAL_NAMES)}")
    text_tokens = [name for name in names[4:] if name not in added]
    if text_tokens != names[4 : 4 + len(text_tokens)]:
        raise damaged_vocabulary(str(file), "an added token has an ID between those of other tokens")
    entries = [TokenEntry("<unk>", 0.0, TokenType.UNKNOWN)]
    entries += [TokenEntry(name, 0.0, TokenType.CONTROL) for name in ("<s>", "</s>")]
    entries += [TokenEntry(name, scores[name], TokenType.NORMAL) for name in text_tokens]
    written = new_model(class_.kind, entries, character_map(normalizer))
    return SentencePieceModel(file, written), [*SPECIAL_NAMES, *text_tokens]


def _scores_of_merges(file: Path, names: Sequence[str], merges: Sequence[Any]) -> dict[str, float]:
    """Return a score for each token, so that SentencePiece merges pairs in the order of `merges`.

    SentencePiece merges any pair whose text is a token, so `merges` must contain all of these pairs.

    Raises:
        ZooError: `merges` lacks such a pair.
    """
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    scores: dict[str, float] = {}
    for rank, (left, right) in enumerate(pairs):
        scores.setdefault(left + right, -float(rank))
    listed, known = set(pairs), set(names[4:])
    for name in known:
        if missing := next((pair for pair in _splits(name) if known.issuperset(pair) and pair not in listed), None):
            problem = f"`{file}` does not merge `{missing[0]}` and `{missing[1]}`, but SentencePiece would do so"
            raise ZooError(
                problem[:_MAX_MESSAGE], hint=f"add the original `{SENTENCEPIECE}`, which zoo then reads instead"
            )
    return {name: scores.get(name, -float(len(pairs))) for name in names}


def _splits(name: str) -> Iterator[tuple[str, str]]:
    return ((name[:index], name[index:]) for index in range(1, len(name)))
