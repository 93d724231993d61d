"""Conversion of other toolkits' vocabularies: lists of tokens, and the models and rules that split text into tokens.

SentencePiece models split raw text. Lists of words come with text rules (tokenisation, truecasing, BPE), which the
model's files and the user's options specify.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, damaged, is_present, read_text
from zoo.interop.sentencepiece_model import (
    WORD_LIST_KIND,
    SentencePieceModel,
    TokenType,
    is_language_token,
    without_source_end,
    word_list_tokenizer,
)
from zoo.interop.tensors import Numbering, TokenList
from zoo.text.codes import SEPARATOR, BPECodes
from zoo.text.language_codes import base_language
from zoo.text.rules import LANGUAGE, MAX_CONTENT, TextRules
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import SIDES, Vocabulary

_WORDS_OF_SIDES = (("source", "src", "srcvocab"), ("target", "trg", "tgt", "trgvocab"))
"""Words for source and target in the names of SentencePiece models. Firefox uses the last word of each side."""
_FILES_OF_SIDE = ("{}.spm", "{}.model", "{}.spm.model", "spm.{}.model", "{}.*.spm", "*.{}.spm")
_FILES_OF_BOTH_SIDES = ("sentencepiece.model", "sentencepiece.bpe.model", "spm.model", "spiece.model", "vocab.spm")
_MAX_LANGUAGES = 8  # language tokens in a message
_WITHOUT_MODEL = (
    "The model comes without a SentencePiece model. Sources must be tokenised text, with spaces between the tokens. "
    "Translations are tokenised in the same way."
)
_SUBWORD_NMT = (
    "Tokens that end in `@@` come from subword-nmt or fastBPE. To translate raw text, import the model again with its "
    "codes: `--tokenizer moses --bpe FILE`."
)
_JOINER = "￭"
_PYONMTTOK = f"Tokens with `{_JOINER}` come from OpenNMT's tokenizer (pyonmttok), which zoo does not apply."
TOKENIZERS = ("moses", "space")
_CODES = ("bpecodes", "code", "bpe.codes")
"""Usual names of a file with BPE codes for both languages. fairseq uses the first two names."""
_CODES_OF_SIDES = ("source.bpe", "target.bpe")
_CASES = ("{side}.tcmodel", "truecase-model.{language}")


@dataclass(frozen=True)
class TextOptions:
    """User options that specify how a model's training text was tokenised."""

    tokenizer: str | None = None
    """Tokenizer, one of `TOKENIZERS`. If None, the files of the model determine it."""
    bpe: Path | None = None
    """File with BPE codes. If None, look for it in the model's folder."""


@dataclass(frozen=True)
class ModelText:
    """Tokenisation of the text that a model was trained on, according to the model's files."""

    languages: tuple[str, str] | None
    """Codes of the source and target languages."""
    tokenizer: str | None = None
    """Name of the tokenizer, if the model's files contain it."""
    default_tokenizer: str | None = None
    """Tokenizer to use if the model has BPE codes, but its files name no tokenizer."""
    needs_codes: bool = False
    """Whether the model requires BPE codes, according to its files."""
    codes: str | None = None
    """Name of the file with the BPE codes."""
    dash_splits: bool = True
    escape: bool = True


@dataclass(frozen=True)
class FoundRules:
    """Rules that tokenise source and target texts."""

    sides: tuple[TextRules, TextRules]
    note: str
    """Note for the user that describes the rules."""


def find_rules(
    models: Sequence[SentencePieceModel], folder: Path, options: TextOptions, text: ModelText
) -> FoundRules | None:
    """Return the rules that tokenise text for a model. Return None if SentencePiece or the user tokenises the text.

    Args:
        models: The SentencePiece models, which need no text rules.
        folder: The folder of the model.
        options: The user's options, which take precedence over the model's files.
        text: The tokenisation according to the model's files.

    Raises:
        ZooError: A file is missing or damaged, or the tokenizer is not supported.
    """
    if models:
        refuse_options(options, "its SentencePiece model splits raw text")
        return None
    codes = [options.bpe] * 2 if options.bpe else _find_codes(folder, text.codes)
    if not codes and options.tokenizer == "space":
        return None
    if not codes and text.needs_codes:
        hint = "add `--bpe FILE`, or `--tokenizer space` if you pass texts that are already split"
        raise ZooError(f"`{folder}` lacks the BPE codes that this model needs to split text", hint=hint)
    tokenizer = options.tokenizer or text.tokenizer or (text.default_tokenizer if codes else None)
    if tokenizer is None and not codes:
        return None
    if tokenizer not in TOKENIZERS:
        problem = f"the model in `{folder}` has BPE codes, but its files do not name a tokenizer"
        if tokenizer:
            problem = f"the model in `{folder}` was trained with the tokenizer `{tokenizer}`, which is not supported"
        hint = "add `--tokenizer moses`, or `--tokenizer space` if you pass texts that are already tokenised"
        raise ZooError(problem, hint=hint)
    if tokenizer == "moses" and text.languages is None:
        problem = "Moses tokenises each language differently, but the languages of the model are unknown"
        raise ZooError(problem, hint="add `--languages SOURCE TARGET`, such as `--languages en de`")
    rules = []
    for number, side in enumerate(SIDES):
        language = base_language(text.languages[number]) if text.languages else "en"
        names = [name.format(side=side, language=language) for name in _CASES]
        cases = next((folder / name for name in names if is_present(folder / name)), None)
        rules.append(
            TextRules(
                tokenizer="moses" if tokenizer == "moses" else "space",
                language=language if re.fullmatch(LANGUAGE, language) else "en",
                dash_splits=text.dash_splits,
                escape=text.escape,
                codes=_read_codes(codes[number]) if codes else None,
                cases=_read_cases(cases) if cases else None,
            )
        )
    return FoundRules((rules[0], rules[1]), _note(rules, codes))


def refuse_options(options: TextOptions, reason: str) -> None:
    """Raise ZooError if the user gave options for tokenisation, although the model does not need them."""
    if options != TextOptions():
        problem = f"`--tokenizer` and `--bpe` do not apply to this model: {reason}"
        raise ZooError(problem, hint="omit these options")


def _find_codes(folder: Path, named: str | None) -> list[Path]:
    """Find the files with BPE codes for the source and the target. Return the same file twice for joint BPE codes.

    Args:
        folder: The folder of the model.
        named: The path of a file with BPE codes, according to the model's files. The file is looked up in `folder`.

    Returns:
        Two paths, or an empty list if there are no such files.
    """
    names = [Path(named).name, *_CODES] if named else _CODES
    for pair in [*((name, name) for name in names), _CODES_OF_SIDES]:
        files = [folder / name for name in pair]
        if all(map(is_present, files)):
            return files
    return []


def _read_codes(file: Path) -> str:
    content = read_text(file, MAX_VOCABULARY_BYTES)
    try:
        BPECodes(content)
    except ValueError as error:
        problem = f"`{file}` does not contain subword-nmt or fastBPE codes: {error}"
        raise ZooError(problem, hint="restore the file from its source, or give another file with `--bpe`") from None
    return _require_short(content, file)


def _require_short(content: str, file: Path) -> str:
    """Return `content`, which was read from a file with text rules. Raise ZooError if it is too long."""
    if len(content) > MAX_CONTENT:
        raise damaged(file, f"text rules have at most {MAX_CONTENT:,} characters, but these have {len(content):,}")
    return content


def _read_cases(file: Path) -> str:
    """Read the words in a Moses truecase model, whose lines look like `The (9/14) the (5)`."""
    words = "\n".join(" ".join(line.split()[::2]) for line in read_text(file, MAX_VOCABULARY_BYTES).split("\n"))
    return _require_short(words, file)


def _note(rules: Sequence[TextRules], codes: Sequence[Path]) -> str:
    """Return a note for the user that describes the source and target text rules."""
    source, target = rules
    steps = []
    if source.tokenizer == "moses":
        details = [source.language]
        if source.dash_splits:
            details.append("hyphens split")
        if source.escape:
            details.append("XML escaped")
        steps.append(f"Moses ({', '.join(details)})")
    if source.cases is not None:
        steps.append("truecasing")
    if codes:
        steps.append(f"BPE codes of {' and '.join(f'`{file.name}`' for file in dict.fromkeys(codes))}")
    joined = f", joined and detokenised by Moses ({target.language})" if target.tokenizer == "moses" else " and joined"
    return f"Texts are split as in training: {', '.join(steps)}. Translations are plain text{joined}."


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
    both sides has a usual name, or is the only `.spm` file.

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
        raise ZooError(problem, hint="add the codes to the folder as `bpecodes`, or give them with `--bpe FILE`")
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
    """Return whether at least 5 % of the tokens are subword-nmt or fastBPE subwords."""
    return sum(name.endswith(SEPARATOR) for name in target.names) >= len(target.names) / 20


def _has_joiners(target: TokenList) -> bool:
    """Return whether at least 1 % of the tokens contain a joiner of OpenNMT's tokenizer."""
    return sum(_JOINER in name for name in target.names) >= len(target.names) / 100


def _word_list_notes(target: TokenList) -> list[str]:
    notes = [_WITHOUT_MODEL, *([_SUBWORD_NMT] if _has_subwords(target) else [])]
    return [*notes, *([_PYONMTTOK] if _has_joiners(target) else [])]
