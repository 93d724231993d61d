"""Translations that are there already, in a file, against a file of references."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from specs import ZooError
from zoo.data.text_files import language_suffix
from zoo.evaluation.bleu import bleu
from zoo.evaluation.overlap import doubt, lines_hint, overlap
from zoo.evaluation.paper_bleu import known_languages, paper_bleu
from zoo.evaluation.scores import Scores
from zoo.report import Report
from zoo.text.lines import read_lines

_CODE = re.compile("[a-z]{2,3}")


def evaluate_files(
    hypotheses: Path | str,
    references: Path | str,
    *,
    language: str | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    report: Report | None = None,
) -> Scores:
    """Scores of one file against another, a sentence a line.

    `tokenize` is of sacreBLEU's BLEU; the paper's has Moses's tokens of `language`, which is the last ending of the
    references' name if it is not given, and is left out where that says none. Raises ZooError where the files cannot be
    read, are not UTF-8, or differ in the number of their lines.
    """
    found, wanted = together(hypotheses, references)
    if told := doubt(len(wanted)):
        (report or Report()).warn(told)
    plain = asdict(bleu(found, wanted, tokenize=tokenize, lowercase=lowercase))
    scores: Scores = {"bleu": plain.pop("score"), **plain}
    code = language_meant(language, references)
    if code is not None:
        paper = paper_bleu(found, wanted, code, lowercase=lowercase)
        scores |= {"paper_bleu": paper.score, "paper_bleu_signature": paper.signature}
    chrf = overlap("CHRF", found, wanted, lowercase=lowercase)
    ter = overlap("TER", found, wanted)
    return scores | {
        "chrf": chrf.score,
        "chrf_signature": chrf.signature,
        "ter": ter.score,
        "ter_signature": ter.signature,
        "sentences": len(wanted),
    }


def together(hypotheses: Path | str, references: Path | str) -> tuple[list[str], list[str]]:
    """The lines of both. Raises ZooError as `evaluate_files` does."""
    found, wanted = read_lines(hypotheses), read_lines(references)
    if len(found) != len(wanted):
        problem = f"`{hypotheses}` has {len(found):,} lines and `{references}` has {len(wanted):,}"
        raise ZooError(problem, hint=lines_hint(len(found), len(wanted)))
    return found, wanted


def language_meant(given: str | None, references: Path | str) -> str | None:
    """What is given, else the last ending of the file's name where that is a code that Moses knows, else None.

    Raises ZooError for what is given and no code: Moses would take it for English without a word.
    """
    if given is not None and not _CODE.fullmatch(given):
        raise ZooError(f"`{given}` is not a language's code", hint="write two or three small letters, such as de")
    if given is not None:
        return given
    code = language_suffix(references)
    return code if code and code in known_languages() else None
