"""Scores of existing translations in a file against a file of references."""

from __future__ import annotations

import re
from pathlib import Path

from specs import ZooError
from specs.corpus_paths import language_suffix
from zoo.evaluation.metrics import get_metric
from zoo.evaluation.scores import Scores
from zoo.evaluation.text_metrics import TEXT_METRICS, moses_languages, read_aligned, text_metric

_LANGUAGE_CODE = re.compile("[a-z]{2,3}")


def evaluate_files(
    outputs: Path | str,
    references: Path | str,
    *,
    language: str | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Scores:
    """Score a file of translations, one sentence per line.

    Args:
        outputs: File of translations.
        references: File of references.
        language: Language code for the paper's BLEU. None takes it from the suffix of the references' file name; if
            that is not a language, the paper's BLEU is left out.
        tokenize: Tokenisation of sacreBLEU's BLEU.
        lowercase: Whether BLEU and chrF ignore case.

    Raises:
        ZooError: A file cannot be read, is not UTF-8, or the files differ in the number of lines.
    """
    texts, targets = read_aligned(outputs, references)
    code = resolve_language(language, references)
    scores: Scores = {}
    for name in TEXT_METRICS:
        if name != "paper_bleu" or code is not None:
            metric = text_metric(name, code, tokenize=tokenize, lowercase=lowercase)
            scores[name] = metric.score(texts, targets)
            scores[get_metric(name).signature] = metric.signature()
    return scores | {"sentences": len(targets)}


def resolve_language(given: str | None, references: Path | str) -> str | None:
    """Return the language code for the paper's BLEU.

    Without a given code, the suffix of the references' file name is used. Return None if Moses has no rules for it.

    Raises:
        ZooError: The given language is not a code. Moses would treat it as English without a warning.
    """
    if given is not None and not _LANGUAGE_CODE.fullmatch(given):
        raise ZooError(f"`{given}` is not a language code", hint="use two or three lower-case letters, such as de")
    if given is not None:
        return given
    code = language_suffix(references)
    return code if code and code in moses_languages() else None
