"""Rules that split text for models without SentencePiece models: tokenisation, truecasing and BPE.

The model's files and the user's options specify the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specs import ZooError
from zoo.files.reading import MAX_VOCABULARY_BYTES, damaged, is_present, read_text
from zoo.interop.sentencepiece_model import SentencePieceModel
from zoo.text.codes import BPECodes
from zoo.text.language_codes import base_language
from zoo.text.rules import LANGUAGE, MAX_CONTENT, TextRules
from zoo.text.vocabulary import SIDES

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
        models: The model's SentencePiece models. If there are any, no text rules are needed.
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
    """Raise ZooError if the user passed `--tokenizer` or `--bpe` for a model that comes with its own tokenizer.

    Args:
        options: The user's options.
        reason: Why the options do not apply, for the error message, such as "its SentencePiece model splits raw text".
    """
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
        raise ZooError(problem, hint="restore the file from its source, or use another file with `--bpe`") from None
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
