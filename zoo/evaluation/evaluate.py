"""A translator against references: BLEU, perplexity per word piece, and its speed."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack

from specs import ZooError
from zoo.evaluation.bleu import Bleu, bleu
from zoo.evaluation.perplexity import perplexity
from zoo.evaluation.samples import samples
from zoo.report import Report
from zoo.search.request import Choice
from zoo.text.lines import read_lines
from zoo.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class Scores:
    """BLEU in points with its signature, perplexity per word piece, and the time that translating took."""

    bleu: float
    signature: str
    perplexity: float
    sentences: int
    seconds: float
    sentences_per_second: float

    def as_dict(self) -> dict[str, float | int | str]:
        """The same as plain data, for scores.json."""
        return asdict(self)


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    report: Report,
    *,
    show: bool = False,
    **choice: Unpack[Choice],
) -> Scores:
    """Translates the sources and scores translations and references; progress goes to `report`.

    With `show` it hears of some of the translations, too.
    Raises ZooError where there are not as many references as sources, or none.
    """
    if len(sources) != len(references):
        raise ZooError(
            f"there are {len(sources):,} sources and {len(references):,} references",
            hint="line n of the references translates line n of the sources: both need as many lines",
        )
    if not sources:
        raise ZooError("there is nothing to evaluate: no sentence")
    start = time.perf_counter()
    found = translator.hypotheses(sources, report=report, **choice)
    seconds = time.perf_counter() - start
    translated = [translations[0].text for translations in found]
    if show:
        report.say(samples(sources, references, translated))
    result = bleu(translated, references)
    forced = translator.forced(sources, references, tokens=choice.get("tokens"), report=report)
    return Scores(
        bleu=result.score,
        signature=result.signature,
        perplexity=perplexity(forced),
        sentences=len(sources),
        seconds=seconds,
        sentences_per_second=len(sources) / seconds,
    )


def evaluate_files(
    hypotheses: Path | str, references: Path | str, *, tokenize: str = "13a", lowercase: bool = False
) -> Bleu:
    """BLEU of one file against another, a sentence a line.

    Raises ZooError where they cannot be read, are not UTF-8, or differ in the number of their lines.
    """
    found, wanted = read_lines(hypotheses), read_lines(references)
    if len(found) != len(wanted):
        raise ZooError(
            f"`{hypotheses}` has {len(found):,} lines and `{references}` has {len(wanted):,}",
            hint="line n of the one is compared with line n of the other: both need as many lines",
        )
    return bleu(found, wanted, tokenize=tokenize, lowercase=lowercase)
