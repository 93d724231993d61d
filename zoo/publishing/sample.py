"""`sample.json`: a few sentences of a model's own test set and its outputs, so that its score can be reproduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from specs import Grammar, HeldOut, Spec, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.metrics import Metric, metrics_for
from zoo.evaluation.outputs import ModelOutputs
from zoo.files.files import write_json
from zoo.files.manifest import Manifest
from zoo.generation.translator import Translator
from zoo.report import Report

NAME = "sample.json"
TOLERANCE = 1.0
"""Points that the score may be off: a tie in a beam search may fall otherwise on another machine."""
SENTENCES, _LONGEST = 32, 100
"""In a sample, and tokens of one."""
_LINE = 10_000  # characters of one
_Lines = Annotated[tuple[Annotated[str, Field(max_length=_LINE)], ...], Field(min_length=1, max_length=200)]
_Word = Annotated[str, Field(max_length=1_000)]


@dataclass(frozen=True)
class Sample:
    """Sentences of a set, their references, the model's outputs when it was published, and what these score."""

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    set: Literal["dev", "test"]
    sentences: Annotated[int, Field(ge=1, lt=2**31)]
    """Of the whole set."""
    sources: _Lines
    references: _Lines
    outputs: _Lines
    metric: _Word
    score: float
    signature: _Word

    def write(self, folder: Path) -> None:
        """Into a bundle's folder."""
        write_json(folder / NAME, asdict(self))


@dataclass(frozen=True)
class Reproduced:
    """A sample answered anew: how many outputs are the same, and the score then and now, in points."""

    set: str
    sentences: int
    identical: int
    metric: str
    score: float
    here: float


_SAMPLE = TypeAdapter(Sample)


def is_free(spec: Spec) -> bool:
    """Whether the text of its dev and test sets is anybody's: all of it of the built-in grammar."""
    scored = [*spec.corpus.dev, *spec.corpus.test]
    held_out = any(isinstance(part, HeldOut) for part in scored)
    parts = [part for part in scored if not isinstance(part, HeldOut)] + [*(spec.corpus.train if held_out else ())]
    return all(isinstance(part, Grammar) for part in parts)


def sampled(translator: Translator, report: Report) -> Sample | None:
    """Of the test set, else of the dev set; None where neither has a sentence that is short enough.

    Raises ZooError where their text is not here.
    """
    spec = translator.spec
    split: Literal["dev", "test"] = "test" if spec.corpus.test else "dev"
    pairs = list(zip(*read_split(spec, split, report, translator.vocabulary), strict=True))
    short = [pair for pair in pairs if _is_short(pair, translator)]
    chosen = [short[number * len(short) // SENTENCES] for number in range(SENTENCES)]
    chosen = list(dict.fromkeys(chosen)) if short else []
    if not chosen:
        return None
    sources, references = zip(*chosen, strict=True)
    answers, metric = _asked(translator, sources, references)
    found = metric.compute(answers)
    return Sample(
        *(split, len(pairs), sources, references, tuple(answers.texts)),
        metric=metric.name,
        score=float(found[metric.name]),
        signature=str(found[metric.signature]),
    )


def _is_short(pair: tuple[str, str], translator: Translator) -> bool:
    if max(map(len, pair)) > _LINE:
        return False
    most = min(_LONGEST, translator.spec.corpus.max_length, translator.spec.decoding.max_source_length)
    return 0 < len(translator.vocabulary.encode(pair[0], "source")) <= most


def read(listed: Manifest) -> Sample | None:
    """That of a bundle; None where it has none. Raises ZooError where it is damaged."""
    if NAME not in listed.entries:
        return None
    written, path = listed.content(NAME), listed.folder / NAME
    try:
        found = _SAMPLE.validate_json(written)
    except ValidationError as error:
        problem = f"`{path}` is damaged: {error.error_count()} of its values are not what it must say"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1) from None
    if not len(found.sources) == len(found.references) == len(found.outputs):
        raise ZooError(f"`{path}` is damaged: its sentences do not belong together", exit_code=1)
    return found


def reproduced(sample: Sample, translator: Translator) -> Reproduced:
    """Answers it anew. Raises ZooError where the score is another by more than TOLERANCE, or is not of its task."""
    answers, metric = _asked(translator, sample.sources, sample.references)
    if metric.name != sample.metric:
        problem = f"its sample is scored by `{sample.metric}`, and models of its task are by `{metric.name}`"
        raise ZooError(problem, exit_code=1)
    found = metric.compute(answers)
    here = float(found[metric.name])
    same = sum(one == other for one, other in zip(answers.texts, sample.outputs, strict=True))
    if not abs(here - sample.score) <= TOLERANCE:
        raise ZooError(
            f"the score of its sample is {metric.format_score(here)} {metric.title} here, and was "
            f"{metric.format_score(sample.score)}: {same} of {len(sample.sources)} outputs are the same",
            hint="its weights, its spec or its sample were changed, or this machine or backend computes something else",
            exit_code=1,
        )
    return Reproduced(sample.set, len(sample.sources), same, metric.title, sample.score, here)


def _asked(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> tuple[ModelOutputs, Metric]:
    metric, *_ = metrics_for(translator.spec.task)
    return ModelOutputs(translator, sources, references, search="beam"), metric
