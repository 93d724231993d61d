"""Conversion of other toolkits' vocabularies: lists of tokens, and the models and rules that split text into tokens.

SentencePiece models split raw text. Lists of words come with text rules (`zoo.interop.text_rules`).
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.interop.sentencepiece_model import (
    WORD_LIST_KIND,
    SentencePieceModel,
    TokenType,
    is_language_token,
    without_source_end,
    word_list_tokenizer,
)
from zoo.interop.tensors import Numbering, TokenList
from zoo.interop.text_rules import FoundRules
from zoo.text.codes import SEPARATOR
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Vocabulary

_WORDS_OF_SIDES = (("source", "src", "srcvocab"), ("target", "trg", "tgt", "trgvocab"))
"""Words for source and target in the names of SentencePiece models. Firefox uses the last word of each side."""
_FILES_OF_SIDE = ("{}.spm", "{}.model", "{}.spm.model", "spm.{}.model", "{}.*.spm", "*.{}.spm")
_FILES_OF_BOTH_SIDES = ("sentencepiece.model", "sentencepiece.bpe.model", "spm.model", "spiece.model", "vocab.spm")
_MAX_LANGUAGES = 8  # language tokens in a message
_WITHOUT_MODEL = (
    "The model comes without a SentencePiece model. Sources must be tokenised text, with spaces between the tokens. "
    "Translations are tokenised the same way."
)
_SUBWORD_NMT = (
    "Tokens that end in `@@` come from subword-nmt or fastBPE. To translate raw text, import the model again with its "
    "codes: `--tokenizer moses --bpe FILE`."
)
_JOINER = "￭"
_PYONMTTOK = f"Tokens with `{_JOINER}` come from OpenNMT's tokenizer (pyonmttok), which zoo does not apply."


@dataclass(frozen=True)
class ImportedVocabulary:
    """Converted vocabulary, with information for the other steps of an import."""

    vocabulary: Vocabulary
    source: Numbering
    target: Numbering
    fields: dict[str, Any]
    """Fields of `vocabulary` in the spec."""
    notes: tuple[str, ...]
    """Notes to show to the user."""
    languages: Mapping[str, Any] | None = None
    """Fields of `languages` in the spec, if the model is multilingual."""
    direction: tuple[str, str] | None = None
    """Codes of the source and target languages, if the model's files contain them."""


def find_sentencepiece_files(folder: Path, languages: tuple[str, str] | None) -> tuple[Path, Path] | None:
    """Find the source and target SentencePiece models in a folder. Both paths may be the same file.

    The name of a model contains the side (`source.spm`, `vocab.trg.spm`) or the language (`vocab.de.spm`). A model for
    both sides has a common name, such as `sentencepiece.model`, or is the only `.spm` file in the folder.

    Raises:
        ZooError: There is a model for one side only.
    """
    names = os.listdir(folder)

    def find(patterns: Iterable[str]) -> Path | None:
        found = (fnmatch.filter(names, pattern) for pattern in patterns)
        return next((folder / files[0] for files in found if len(files) == 1), None)

    sides = [
        find(pattern.format(word) for word in (*words, code) if word for pattern in _FILES_OF_SIDE)
        for words, code in zip(_WORDS_OF_SIDES, languages or ("", ""), strict=True)
    ]
    both = find(_FILES_OF_BOTH_SIDES) or (None if any(sides) else find(["*.spm"]))
    source, target = (side or both for side in sides)
    if source and target:
        return source, target
    if source or target:
        missing = "target" if source else "source"
        problem = f"`{folder}` has a SentencePiece model for one side, but not for the {missing}"
        raise ZooError(problem, hint=f"add the missing model as `{missing}.spm`")
    return None


def find_models(folder: Path, languages: tuple[str, str] | None) -> list[SentencePieceModel]:
    """Read the SentencePiece models in a folder: none, one for both sides, or one for each side.

    Raises:
        ZooError: A model is damaged, or there is a model for one side only.
    """
    files = find_sentencepiece_files(folder, languages)
    return [SentencePieceModel(file) for file in dict.fromkeys(files or ())]


def convert_vocabulary(
    models: Sequence[SentencePieceModel],
    source: TokenList,
    target: TokenList,
    *,
    shared: bool,
    where: Path,
    source_has_end: bool = True,
    control: Collection[str] = (),
    rules: FoundRules | None = None,
) -> ImportedVocabulary:
    """Convert the vocabulary of another toolkit's model.

    Args:
        models: One SentencePiece model for both sides, or one per side. Empty if the vocabulary is a list of words.
        source: The source tokens.
        target: The target tokens.
        shared: Whether both sides have the same token IDs. If so, `target` describes both sides.
        where: The file or folder of the token lists, for error messages.
        source_has_end: Whether source sentences of the original model end with EOS.
        control: Names of tokens that never occur in text, such as language tokens.
        rules: Rules that split raw text into words. If None, a model with a list of words expects tokenised text.

    Raises:
        ZooError: A SentencePiece model is missing, or cannot be converted to these token IDs.
    """
    of_sides = [models[:1], models[-1:]]
    if shared:
        numberings = [_numbering(target, models)] * 2
    else:
        numberings = [_numbering(tokens, model) for tokens, model in zip((source, target), of_sides, strict=True)]
    if rules and _has_joiners(target):
        problem = f"`{where}` contains tokens with joiners (`{_JOINER}`) from pyonmttok, which zoo does not support"
        raise ZooError(problem, hint="omit `--tokenizer` and `--bpe`, and pass texts that pyonmttok has tokenised")
    if rules and not rules.sides[0].codes and _has_subwords(target):
        problem = f"`{where}` lists subwords, which end in `{SEPARATOR}`, but there are no BPE codes to split words"
        raise ZooError(problem, hint="add the codes to the folder as `bpecodes`, or use `--bpe FILE`")
    tokenizers = [
        model[0].renumbered(numbering, control) if model else word_list_tokenizer(numbering, str(where), of_side)
        for model, numbering, of_side in zip(of_sides, numberings, rules.sides if rules else (None, None), strict=True)
    ]
    if not source_has_end:
        tokenizers[0] = without_source_end(tokenizers[0], str(where))
    single = shared and len(models) < 2 and source_has_end and (not rules or rules.sides[0] == rules.sides[1])
    vocabulary = Vocabulary(*tokenizers[:1] if single else tokenizers)
    source_size, target_size = vocabulary.sizes
    fields = {
        "kind": models[0].kind if models else WORD_LIST_KIND,
        "size": source_size,
        "target_size": None if source_size == target_size else target_size,
        "byte_fallback": vocabulary.byte_fallback,
        "shared": shared,
        "separate_models": shared and not single,
    }
    list_notes = [rules.note] if rules else [] if models else _word_list_notes(target)
    notes = (*_language_notes(numberings[0]), *list_notes)
    return ImportedVocabulary(vocabulary, numberings[0], numberings[1], fields, notes)


def _numbering(tokens: TokenList, models: Sequence[SentencePieceModel]) -> Numbering:
    """Assign zoo's token IDs. SentencePiece tokens that are not in `tokens` are read as the unknown token."""
    types = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.BYTE)
    known = {*tokens.names, *(SPACE + name for name in tokens.names if is_language_token(name))}
    return tokens.numbering([name for model in models for name in model.names(*types) if name not in known])


def _language_notes(source: Numbering) -> list[str]:
    languages = [name for name in source.names if is_language_token(name)]
    if not languages:
        return []
    others = f" and {len(languages) - _MAX_LANGUAGES} more" if len(languages) > _MAX_LANGUAGES else ""
    listed = ", ".join(languages[:_MAX_LANGUAGES]) + others
    return [f"the model translates into several languages: begin each source with a language token, such as {listed}"]


def _has_subwords(target: TokenList) -> bool:
    """Return whether at least 5% of the tokens are subword-nmt or fastBPE subwords."""
    return sum(name.endswith(SEPARATOR) for name in target.names) >= len(target.names) / 20


def _has_joiners(target: TokenList) -> bool:
    """Return whether at least 1% of the tokens contain a joiner of OpenNMT's tokenizer."""
    return sum(_JOINER in name for name in target.names) >= len(target.names) / 100


def _word_list_notes(target: TokenList) -> list[str]:
    notes = [_WITHOUT_MODEL, *([_SUBWORD_NMT] if _has_subwords(target) else [])]
    return [*notes, *([_PYONMTTOK] if _has_joiners(target) else [])]
