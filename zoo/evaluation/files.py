"""Scores of existing translations in a file against a file of references."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from specs import ZooError
from zoo.data.text_files import language_suffix
from zoo.evaluation.scores import Scores
from zoo.evaluation.text_metrics import (
    bleu,
    corpus_score,
    filtered_set_warning,
    line_count_hint,
    moses_languages,
    paper_bleu,
)
from zoo.report import Report
from zoo.text.lines import read_lines

_LANGUAGE_CODE = re.compile("[a-z]{2,3}")


def evaluate_files(
    hypotheses: Path | str,
    references: Path | str,
    *,
    language: str | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    report: Report | None = None,
) -> Scores:
    """Score a file of translations, one sentence per line.

    Args:
        hypotheses: File of translations.
        references: File of references.
        language: Language code for the paper's BLEU. None takes it from the suffix of the references' file name; if
            that is not a language, the paper's BLEU is left out.
        tokenize: Tokenisation of sacreBLEU's BLEU.
        lowercase: Whether BLEU and chrF ignore case.
        report: Where a warning goes.

    Raises:
        ZooError: A file cannot be read, is not UTF-8, or the files differ in the number of lines.
    """
    outputs, targets = read_aligned(hypotheses, references, report)
    result = asdict(bleu(outputs, targets, tokenize=tokenize, lowercase=lowercase))
    scores: Scores = {"bleu": result.pop("score"), **result}
    code = resolve_language(language, references)
    if code is not None:
        paper = paper_bleu(outputs, targets, code, lowercase=lowercase)
        scores |= {"paper_bleu": paper.score, "paper_bleu_signature": paper.signature}
    chrf = corpus_score("CHRF", outputs, targets, lowercase=lowercase)
    ter = corpus_score("TER", outputs, targets)
    return scores | {
        "chrf": chrf.score,
        "chrf_signature": chrf.signature,
        "ter": ter.score,
        "ter_signature": ter.signature,
        "sentences": len(targets),
    }


def read_aligned(
    hypotheses: Path | str, references: Path | str, report: Report | None = None
) -> tuple[list[str], list[str]]:
    """Return the lines of both files, and warn if they look like a filtered test set.

    Raises:
        ZooError: As `evaluate_files`.
    """
    outputs, targets = read_lines(hypotheses), read_lines(references)
    if len(outputs) != len(targets):
        problem = f"`{hypotheses}` has {len(outputs):,} lines and `{references}` has {len(targets):,}"
        raise ZooError(problem, hint=line_count_hint(len(outputs), len(targets)))
    if warning := filtered_set_warning(len(targets)):
        (report or Report()).warn(warning)
    return outputs, targets


def resolve_language(given: str | None, references: Path | str) -> str | None:
    """Return the language for the paper's BLEU: the given code, or a file name's suffix that Moses knows, else None.

    Raises:
        ZooError: The given language is not a code. Moses would treat it as English without a warning.
    """
    if given is not None and not _LANGUAGE_CODE.fullmatch(given):
        raise ZooError(f"`{given}` is not a language code", hint="use two or three lower-case letters, such as de")
    if given is not None:
        return given
    code = language_suffix(references)
    return code if code and code in moses_languages() else None
