"""`zoo import --check`: the same sentences by the engine that a model comes from, and by ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import torch

from compiler import TRANSLATE
from specs import BOS, EOS, UNK, ZooError
from zoo.generation.building import built
from zoo.generation.scoring import forced
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.interop.imported import Answer, Format, Imported
from zoo.interop.numbering import SPECIAL
from zoo.interop.sentence_model import is_language
from zoo.report import Progress, Report
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Vocabulary

TOLERANCE = 1e-3
"""Largest difference of a translation's log-probability, over all its tokens, between two engines in float32."""
Found = TypeVar("Found")
_SENTENCES = 1_000
_SHOWN = 500  # characters of what an engine may say
_WARM = 4


@dataclass(frozen=True)
class Comparison:
    """What two engines made of the same sentences, each on one thread, in float32."""

    engine: str
    sentences: int
    identical: int
    """Whose translations are the same tokens, or, where the engine does not say them, the same text."""
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


def require_engine(of: Format) -> None:
    """Raises ZooError where a format has no engine to check with, or where it is not installed."""
    if of.engine is None:
        problem = f"models of {of.name} cannot be checked: zoo runs no engine of that format"
        raise ZooError(problem, hint="leave `--check` out")
    if find_spec(of.engine) is None:
        hint = f"`pip install {of.engine}`, or leave `--check` out"
        raise ZooError(f"there is no engine to check with: `{of.engine}` is not installed", hint=hint)


def compared(of: Format, place: Path, imported: Imported, texts: Sequence[str], report: Report) -> Comparison:
    """Of up to 1,000 texts, where there is the engine; what is too long for the model is left out, with a warning.

    Raises ZooError where they are not of one model, where the engine fails, and where nothing is left to compare.
    """
    with _its_own(of):
        engine = of.open(place, imported)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        translator, backend = _opened(imported, report)
        texts = _taken(texts[:_SENTENCES], translator, report)
        with report.progress(f"check, by {engine.version}", len(texts), "sentences") as progress, _its_own(of):
            answers, theirs = _timed(engine.translate, texts, progress)
        with report.progress("check, by zoo", len(texts), "sentences") as progress:
            found, ours = _timed(partial(_best, translator), texts, progress)
        rows = _rows(answers, imported.vocabulary)
        difference = _difference(translator, texts, answers, rows, report)
    finally:
        torch.set_num_threads(threads)
    identical = sum(
        answer.text == each.text if row is None else row == list(each.tokens)
        for row, answer, each in zip(rows, answers, found, strict=True)
    )
    done = Comparison(engine.version, len(texts), identical, difference, theirs, ours, backend)
    if not difference <= TOLERANCE:
        raise ZooError(
            f"what was read is another model than `{engine.version}` runs: log-probabilities of the same translations "
            f"differ by {difference:.2g}, and {TOLERANCE:g} is allowed",
            hint="without `--check` it is imported all the same",
            exit_code=1,
        )
    return done


@contextmanager
def _its_own(of: Format) -> Iterator[None]:
    """What goes wrong in a foreign engine is no fault of zoo."""
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        told = next(iter(str(error).splitlines()), "")
        problem = f"`{of.engine}` fails: {type(error).__name__}: {told}"[:_SHOWN]
        hint = "check with other sentences, or leave `--check` out"
        raise ZooError(problem, hint=hint, exit_code=1) from error


def _taken(texts: Sequence[str], translator: Translator, report: Report) -> list[str]:
    """Those that the model takes as they are: a longer one it refuses, or translates in parts."""
    most = translator.intake().most
    taken = [text for text in texts if 0 < len(translator.vocabulary.encode(text)) <= most]
    if not taken:
        problem = f"there is no sentence to check with: the model takes 1 to {most:,} tokens"
        raise ZooError(problem, hint="check with shorter sentences")
    if left_out := len(texts) - len(taken):
        are = "is" if left_out == 1 else "are"
        told = f"{left_out:,} of {len(texts):,} sentences {are} left out of the check"
        report.warn(f"{told}: the model takes 1 to {most:,} tokens")
    return taken


def _opened(imported: Imported, report: Report) -> tuple[Translator, str]:
    """With the backend that the spec's own choice leads to here."""
    program = built(imported.spec, TRANSLATE, imported.tensors, report, device="cpu", precision="float32")
    return Translator(program, imported.vocabulary, imported.spec, report=report), program.backend


def _best(translator: Translator, texts: Sequence[str]) -> list[Translation]:
    return [best for best, *_ in translator.hypotheses(texts, workers=1)]


def _timed(
    translate: Callable[[Sequence[str]], Sequence[Found]], texts: Sequence[str], progress: Progress
) -> tuple[Sequence[Found], float]:
    """What was found, and how many a second; a few are translated before the clock runs."""
    translate(texts[:_WARM])
    begun = perf_counter()
    answers = translate(texts)
    seconds = perf_counter() - begun
    progress.advance(len(texts))
    return answers, len(texts) / seconds


def _rows(answers: Sequence[Answer], vocabulary: Vocabulary) -> list[list[int] | None]:
    """Our numbers of the tokens of each; None where an engine does not say them, or one is none of ours."""
    numbers = {name: number for number, name in enumerate(vocabulary.token_strings(range(vocabulary.sizes[1])))}
    # Codes of languages have a space before them here.
    numbers |= {bare: number for name, number in numbers.items() if is_language(bare := name.removeprefix(SPACE))}
    numbers[SPECIAL[UNK]] = UNK
    known = [None if answer.tokens is None else [numbers.get(name) for name in answer.tokens] for answer in answers]
    return [None if row is None else whole if len(whole := [n for n in row if n is not None]) == len(row) else None
            for row in known]  # fmt: skip


def _difference(
    translator: Translator,
    texts: Sequence[str],
    answers: Sequence[Answer],
    rows: Sequence[list[int] | None],
    report: Report,
) -> float:
    """Of the log-probabilities that both give to the engine's translations, to each as a whole.

    What was cut where it grew too long is left out: whether EOS counts there is a matter of taste.
    """
    encode = translator.vocabulary.encode
    targets = [encode(answer.text, "target") if row is None else row for answer, row in zip(answers, rows, strict=True)]
    sources = [encode(text) for text in texts]
    decoding, positions = translator.spec.decoding, translator.positions or math.inf
    longest = [
        min(decoding.length_factor * len(source) + decoding.extra_length, positions - 1)  # BOS takes one
        for source in sources
    ]
    ended = [index for index, target in enumerate(targets) if len(target) < longest[index]]
    if not ended:
        hint = "check with other sentences"
        raise ZooError("no translation of these sentences came to an end: there is nothing to compare", hint=hint)
    with report.progress("check, log-probabilities", len(ended), "sentences") as progress:
        scores = forced(
            translator.program,
            [[*sources[index], translator.vocabulary.source_end] for index in ended],
            [[BOS, *targets[index], EOS] for index in ended],
            tokens=translator.tokens,
            device=translator.device,
            progress=progress,
        )
    differences = [
        abs(score.log_probability - answers[index].log_probability) for score, index in zip(scores, ended, strict=True)
    ]
    return float(torch.tensor(differences).max())  # one that is no number stays, which `max` passes over
