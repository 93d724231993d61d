"""Comparison of an imported model with the engine that it comes from (`zoo import --check`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import torch

from compiler import TRANSLATE
from specs import BOS, EOS, UNK, ZooError
from zoo.generation.compilation import build_with_message
from zoo.generation.scoring import score_targets
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.interop.formats import EngineTranslation, ImportedModel, ImportFormat, ScoringEngine
from zoo.interop.numbering import SPECIAL
from zoo.interop.sentencepiece_model import is_language_token
from zoo.report import Progress, Report
from zoo.system.timing import timed
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Vocabulary

TOLERANCE = 1e-3
"""Largest allowed difference of a whole translation's log-probability between two engines in float32."""
_MAX_SENTENCES = 1_000
_MAX_MESSAGE = 500  # characters of an engine's error message
_WARM_UP = 4  # sentences that are translated before the time is measured
Result = TypeVar("Result")


@dataclass(frozen=True)
class Comparison:
    """Comparison of another toolkit's engine with zoo on the same sentences, each on one thread in float32."""

    engine: str
    """Name and version of the engine."""
    sentences: int
    """Number of compared sentences."""
    identical: int | None
    """Number of translations with the same tokens, or with the same text if the engine does not return tokens.

    None for a `ScoringEngine`, whose translations are not compared.
    """
    difference: float
    """Largest difference between the log-probabilities that the engine and zoo assign to the same translation."""
    engine_speed: float
    """Speed of the engine, in sentences per second."""
    zoo_speed: float
    """Speed of zoo, in sentences per second."""
    backend: str
    """Name of zoo's backend that computed the translations."""

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.identical is None:
            agreement = (
                f"{self.sentences:,} translations were scored by {self.engine} and by zoo, and the log-probabilities "
                f"differ by at most {self.difference:.1g}"
            )
        else:
            agreement = (
                f"{self.identical:,} of {self.sentences:,} translations are identical to those of {self.engine}, and "
                f"log-probabilities differ by at most {self.difference:.1g}"
            )
        return (
            f"{agreement}; on one thread, {self.engine} translates {self.engine_speed:.1f} sentences per second, and "
            f"zoo's backend {self.backend} translates {self.zoo_speed:.1f}"
        )


def require_engine(format: ImportFormat) -> None:
    """Raise ZooError unless the engine of a format is installed, so that an imported model can be compared with it."""
    if format.engine is None:
        problem = f"cannot check a model of the format {format.name}: zoo runs no engine of that format"
        raise ZooError(problem, hint="run the command without `--check`")
    if find_spec(format.engine) is None:
        hint = f"`pip install {format.engine}`, or run the command without `--check`"
        raise ZooError(f"cannot check the model: its engine `{format.engine}` is not installed", hint=hint)


def compare_with_engine(
    format: ImportFormat, path: Path, model: ImportedModel, texts: Sequence[str], report: Report
) -> Comparison:
    """Translate texts with the engine that a model comes from and with zoo, and compare the results.

    A model of several languages translates in the default direction of its spec.

    Args:
        format: The format of the model. Its engine must be installed.
        path: The original model, before its import.
        model: The same model, imported.
        texts: The source sentences. Only the first 1,000 are used. Sentences that are too long for the model are left
            out, with a warning.
        report: Receives warnings and the progress.

    Raises:
        ZooError: The log-probabilities differ by more than `TOLERANCE`, the engine fails, or there is no sentence to
            compare.
    """
    with _engine_errors(format):
        engine = format.open_engine(path, model)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        program = build_with_message(model.spec, TRANSLATE, model.tensors, report, device="cpu", precision="float32")
        translator = Translator(program, model.vocabulary, model.spec, report=report)
        texts = _acceptable(texts[:_MAX_SENTENCES], translator, report)
        with (
            report.progress(f"check, by {engine.version}", len(texts), "sentences") as progress,
            _engine_errors(format),
        ):
            theirs, engine_speed = _timed(engine.translate, texts, progress)
            if isinstance(engine, ScoringEngine):
                theirs = engine.score(texts, theirs)
        with report.progress("check, by zoo", len(texts), "sentences") as progress:
            ours, zoo_speed = _timed(partial(_best, translator), texts, progress)
        rows = _token_ids(theirs, model.vocabulary)
        difference = _largest_difference(translator, texts, theirs, rows, report)
    finally:
        torch.set_num_threads(threads)
    if not difference <= TOLERANCE:
        raise ZooError(
            f"the imported model differs from the one that `{engine.version}` runs: log-probabilities of the same "
            f"translations differ by {difference:.2g}, but at most {TOLERANCE:g} is allowed",
            hint="import it without `--check` if you accept the difference",
            exit_code=1,
        )
    identical = None if isinstance(engine, ScoringEngine) else _identical(rows, theirs, ours)
    return Comparison(engine.version, len(texts), identical, difference, engine_speed, zoo_speed, program.backend)


@contextmanager
def _engine_errors(format: ImportFormat) -> Iterator[None]:
    """Convert any exception of another toolkit's engine to ZooError."""
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        problem = f"`{format.engine}` fails: {type(error).__name__}: {reason}"[:_MAX_MESSAGE]
        hint = "pass other sentences to `--check`, or run the command without `--check`"
        raise ZooError(problem, hint=hint, exit_code=1) from error


def _acceptable(texts: Sequence[str], translator: Translator, report: Report) -> list[str]:
    """Return the texts that are not empty and not too long for the model. Warn if texts are left out.

    Raises:
        ZooError: No text is left.
    """
    max_length = translator.preprocessor(*translator.spec.default_direction).max_source_length
    acceptable = [text for text in texts if 0 < len(translator.vocabulary.encode(text)) <= max_length]
    if not acceptable:
        problem = f"there is no sentence to check with: the model accepts sentences of 1 to {max_length:,} tokens"
        raise ZooError(problem, hint="pass a file with shorter sentences to `--check`")
    if omitted := len(texts) - len(acceptable):
        verb = "is" if omitted == 1 else "are"
        count = f"{omitted:,} of {len(texts):,} sentences {verb} left out of the check"
        report.warn(f"{count}: the model accepts sentences of 1 to {max_length:,} tokens")
    return acceptable


def _best(translator: Translator, texts: Sequence[str]) -> list[Translation]:
    source, target = translator.spec.default_direction
    hypotheses = translator.hypotheses(texts, source=source, target=target, split=False, protect=False, workers=1)
    return [best for best, *_ in hypotheses]


def _timed(
    translate: Callable[[Sequence[str]], Sequence[Result]], texts: Sequence[str], progress: Progress
) -> tuple[Sequence[Result], float]:
    """Translate a few texts as a warm-up, then all. Return all translations and the speed in sentences per second."""
    translate(texts[:_WARM_UP])
    seconds, results = timed(lambda: translate(texts))
    progress.advance(len(texts))
    return results, len(texts) / seconds


def _token_ids(translations: Sequence[EngineTranslation], vocabulary: Vocabulary) -> list[list[int] | None]:
    """Return zoo's token IDs for each translation. None if the engine returned no tokens, or tokens that zoo lacks."""
    ids = {name: id for id, name in enumerate(vocabulary.token_strings(range(vocabulary.sizes[1])))}
    # In zoo, tokens that select a language begin with a space.
    ids |= {bare: id for name, id in ids.items() if is_language_token(bare := name.removeprefix(SPACE))}
    ids[SPECIAL[UNK]] = UNK
    rows: list[list[int] | None] = []
    for translation in translations:
        tokens = translation.tokens
        known = tokens is not None and all(name in ids for name in tokens)
        rows.append([ids[name] for name in tokens] if tokens is not None and known else None)
    return rows


def _identical(
    rows: Sequence[list[int] | None], theirs: Sequence[EngineTranslation], ours: Sequence[Translation]
) -> int:
    """Return the number of translations with the same tokens, or with the same text if the engine has no tokens."""
    return sum(
        their.text == our.text if row is None else row == list(our.tokens)
        for row, their, our in zip(rows, theirs, ours, strict=True)
    )


def _largest_difference(
    translator: Translator,
    texts: Sequence[str],
    translations: Sequence[EngineTranslation],
    rows: Sequence[list[int] | None],
    report: Report,
) -> float:
    """Return the largest difference between the log-probabilities that the engine and zoo assign to a translation.

    Translations that reached the maximum length are left out, because not all engines add EOS to them.
    """
    encode, source_suffix = translator.vocabulary.encode, translator.vocabulary.source_suffix
    decoding, positions = translator.spec.decoding, translator.positions or math.inf
    languages = translator.preprocessor(*translator.spec.default_direction).languages
    sources, targets, expected = [], [], []
    for text, translation, row in zip(texts, translations, rows, strict=True):
        source = encode(text)
        target = [*languages.target_tokens, *encode(translation.text, "target")] if row is None else row
        max_length = decoding.length_factor * len(source) + decoding.extra_length + len(languages.target_tokens)
        if len(target) < min(max_length, positions - 1):  # BOS takes one position
            sources.append([*languages.source_tokens, *source, *source_suffix])
            targets.append([BOS, *target, EOS])
            expected.append(translation.log_probability)
    if not sources:
        problem = "cannot compare: every translation of these sentences reached the maximum length"
        raise ZooError(problem, hint="pass other sentences to `--check`")
    with report.progress("check, log-probabilities", len(sources), "sentences") as progress:
        scores = score_targets(
            translator.program,
            sources,
            targets,
            max_batch_tokens=translator.max_batch_tokens,
            device=translator.device,
            progress=progress,
        )
    differences = [abs(score.log_probability - value) for score, value in zip(scores, expected, strict=True)]
    return float(torch.tensor(differences).max())  # unlike the built-in max, this propagates NaN
