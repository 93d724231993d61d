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
        language: Language code for the paper's BLEU. If None, the suffix of the references' file name is used, such as
            `de`. If the suffix is not a language, the paper's BLEU is not computed.
        tokenize: Tokenisation for sacreBLEU's BLEU, one of `TOKENIZATIONS`.
        lowercase: Whether BLEU and chrF ignore case.

    Returns:
        The score and the sacreBLEU signature of each metric, and the number of sentences.

    Raises:
        ZooError: A file cannot be read or is not UTF-8, the files have different numbers of lines, or an option is not
            valid.
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

    Args:
        given: The code that the user gave, if any.
        references: File of references. If `given` is None, the suffix of the file name is used, such as `de`.

    Returns:
        The code. None if the suffix is not a language for which the Moses tokeniser has rules.

    Raises:
        ZooError: `given` is not a language code. Moses would treat it as English without a warning.
    """
    if given is not None and not _LANGUAGE_CODE.fullmatch(given):
        raise ZooError(f"`{given}` is not a language code", hint="use two or three lower-case letters, such as de")
    if given is not None:
        return given
    code = language_suffix(references)
    return code if code and code in moses_languages() else None
