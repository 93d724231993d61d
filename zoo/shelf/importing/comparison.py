"""`zoo import --check`: the same sentences by the engine that a model comes from, and by ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import torch

from compiler import TRANSLATE
from specs import BOS, EOS, ZooError
from zoo.report import Progress, Report
from zoo.shelf.importing.imported import Answer, Format, Imported
from zoo.translation.building import built
from zoo.translation.scoring import forced
from zoo.translation.translator import Translator

TOLERANCE = 1e-3
"""Largest difference of a translation's log-probability, over all its pieces, between two engines in float32."""
Translate = Callable[[Sequence[str]], Sequence[Answer]]
_SENTENCES = 1_000
_WARM = 4


@dataclass(frozen=True)
class Comparison:
    """What two engines made of the same sentences, each on one thread, in float32."""

    engine: str
    sentences: int
    identical: int
    """Whose translations are the same pieces, or, where the engine does not say them, the same text."""
    difference: float
    """Largest one of the log-probabilities of the engine's translations."""
    theirs: float
    """Sentences a second."""
    ours: float
    backend: str

    @property
    def summary(self) -> str:
        """In one sentence."""
        return (
            f"{self.identical:,} of {self.sentences:,} translations are those of {self.engine}, whose "
            f"log-probabilities differ by {self.difference:.1g} at most; it translates {self.theirs:.1f} sentences a "
            f"second on one thread, and zoo's backend {self.backend} {self.ours:.1f}"
        )


def compared(of: Format, place: Path, imported: Imported, texts: Sequence[str], report: Report) -> Comparison:
    """Of up to 1,000 texts. Raises ZooError where the engine is not installed, or where they are not of one model."""
    if of.engine is None or find_spec(of.engine) is None:
        name = of.engine or "nothing"
        hint = f"`pip install {name}`, or leave `--check` out" if of.engine else "leave `--check` out"
        raise ZooError(f"there is no engine to check with: `{name}` is not installed", hint=hint)
    texts = texts[:_SENTENCES]
    engine = of.open(place, imported)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with report.progress("check", 2 * len(texts), "sentences") as progress:
            ours, translator, backend = _of_zoo(imported, report)
            answers, theirs = _timed(engine.translate, texts, progress)
            found, mine = _timed(ours, texts, progress)
        difference = _difference(translator, texts, answers, progress)
    finally:
        torch.set_num_threads(threads)
    identical = sum(_alike(answer, each) for answer, each in zip(answers, found, strict=True))
    done = Comparison(engine.version, len(texts), identical, difference, theirs, mine, backend)
    if not difference <= TOLERANCE:
        raise ZooError(
            f"what was read is another model than `{engine.version}` runs: log-probabilities of the same translations "
            f"differ by {difference:.2g}, and {TOLERANCE:g} is allowed",
            hint="without `--check` it is imported all the same",
            exit_code=1,
        )
    return done


def _of_zoo(imported: Imported, report: Report) -> tuple[Translate, Translator, str]:
    """By the backend that the spec's own choice leads to here, one batch at a time."""
    program = built(imported.spec, TRANSLATE, imported.tensors, report, device="cpu", precision="float32")
    translator = Translator(program, imported.vocabulary, imported.spec, report=report)

    def translate(texts: Sequence[str]) -> list[Answer]:
        found = translator.hypotheses(texts, workers=1)
        names = imported.vocabulary.named
        return [Answer(best.text, best.log_probability, names(best.pieces)) for best, *_ in found]

    return translate, translator, program.backend


def _timed(translate: Translate, texts: Sequence[str], progress: Progress) -> tuple[Sequence[Answer], float]:
    """The answers, and how many a second; a few are made before the clock runs."""
    translate(texts[:_WARM])
    begun = perf_counter()
    answers = translate(texts)
    seconds = perf_counter() - begun
    progress.advance(len(texts))
    return answers, len(texts) / seconds


def _alike(theirs: Answer, ours: Answer) -> bool:
    if theirs.pieces is None or ours.pieces is None:
        return theirs.text == ours.text
    return list(theirs.pieces) == list(ours.pieces)


def _difference(translator: Translator, texts: Sequence[str], answers: Sequence[Answer], progress: Progress) -> float:
    """Of the log-probabilities that both give to the engine's translations, to each as a whole."""
    vocabulary = translator.vocabulary
    numbers = {name: number for number, name in enumerate(vocabulary.named(range(vocabulary.sizes[1])))}
    rows = [
        [*((numbers[name] for name in each.pieces) if each.pieces else vocabulary.encode(each.text, "target"))]
        for each in answers
    ]
    sources = [[*vocabulary.encode(text), EOS] for text in texts]
    scores = forced(
        translator.program,
        sources,
        [[BOS, *row, EOS] for row in rows],
        tokens=translator.tokens,
        device=translator.device,
        progress=progress,
    )
    pairs = zip(scores, answers, strict=True)
    return max(abs(score.log_probability - answer.log_probability) for score, answer in pairs)
