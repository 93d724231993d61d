"""Reference results that a bundle carries, so that anybody can check that the model computes the same.

`proof.safetensors` has reference log-probabilities: those that the model assigned to a few sentence pairs when it was
published. The check fails if the weights have changed, or if a machine or backend computes other values.

`reference_outputs.json` has reference outputs: sentences of the test set, their references, the model's outputs and
their score. Only models whose test set may be redistributed have this file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import safetensors.torch
import torch
from jaxtyping import Float32, Int64
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from compiler.padded_batch import PaddedBatch
from compiler.program import Scorer
from specs import PAD, Features, Grammar, HeldOut, Spec, ZooError
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.metrics import Metric, metrics_for
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.files.atomic import atomic_file, write_json
from zoo.files.manifest import Manifest
from zoo.files.reading import damaged, open_file
from zoo.generation.config import GenerationOptions
from zoo.generation.translation import pad_sequences
from zoo.generation.translator import Translator
from zoo.models.weights import check_header
from zoo.report import Report, size
from zoo.text.vocabulary import Side

NAME = "proof.safetensors"
OUTPUTS_NAME = "reference_outputs.json"
TOLERANCE = 1e-4
"""Largest accepted difference of a token's log-probability between machines, in float32."""
SCORE_TOLERANCE = 1.0
"""Largest accepted difference of the reference outputs' score, in points. Beam search may break ties differently."""
SENTENCES = 32
"""Number of reference outputs."""
_MAX_TOKENS = 100
"""Maximum length of a reference sentence in tokens."""
_MAX_CHARACTERS = 10_000
_EXAMPLES = 4
_POSITIONS = 16
"""Length of random features that the encoder reads in place of text. Unit: positions."""
_SAMPLE_SENTENCES = ("The old dog sees a small house.", "Today we read two books.", "1984, 2017!", "x y z")
_RESTORE_HINT = "restore the file from the source of the model"
_MAX_FILE_BYTES = 64_000_000  # the file is read into memory
_MAX_LENGTH, _MAX_ROWS, _MAX_CELLS = 10_000, 1_000, 100_000  # far more than any published file has


@dataclass(frozen=True)
class ReferenceLogProbabilities:
    """Token IDs of a few examples, and the log-probability of each target token. The value at padding is 0."""

    target: Int64[Tensor, "rows 1+target"]
    log_probabilities: Float32[Tensor, "rows target"]
    source: Int64[Tensor, "rows source"] | Float32[Tensor, "rows frames width"] | None = None
    """None if the model has no encoder. Features have no padding."""

    @property
    def stream(self) -> PaddedBatch:
        """The sources and their lengths. The lengths follow from the padding, because no source contains PAD."""
        assert self.source is not None
        if self.source.is_floating_point():
            return PaddedBatch.full(self.source)
        return PaddedBatch(self.source, (self.source != PAD).sum(1))

    def write(self, file: Path) -> None:
        """Write the tensors to a safetensors file."""
        tensors = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        with atomic_file(file) as partial:
            safetensors.torch.save_file(tensors, partial)

    def _score(self, row: int, program: Scorer, device: torch.device | str | None) -> Tensor:
        source = None if self.source is None else self.stream.rows(row, row + 1).to(device)
        return program.score(source, self.target[[row]].to(device)).cpu()

    @torch.no_grad()
    def check(self, program: Scorer, device: torch.device | str | None = None) -> float:
        """Compare the reference log-probabilities with those that a program computes.

        Args:
            program: The compiled model.
            device: The device of the program. The default is the CPU.

        Returns:
            The largest absolute difference.

        Raises:
            ZooError: The difference is larger than `TOLERANCE`.
        """
        # One row at a time, because the logits of all rows could need much memory.
        actual = torch.cat([self._score(row, program, device) for row in range(len(self.target))])
        difference = float((actual - self.log_probabilities).abs().max())
        if difference <= TOLERANCE:
            return difference
        raise ZooError(
            f"the model does not reproduce its reference log-probabilities: they differ by {difference:.2g}, but at "
            f"most {TOLERANCE:g} is accepted",
            hint="restore the model from its source, or use another machine: the weights, the spec or "
            f"`{NAME}` were changed, or this machine computes wrong results",
            exit_code=1,
        )


@torch.no_grad()
def compute(translator: Translator, examples: Sequence[tuple[str, ...]]) -> ReferenceLogProbabilities:
    """Compute reference log-probabilities.

    Args:
        translator: The model in float32 on the CPU.
        examples: Texts of each stream that is text, in the default direction of the spec.
    """
    preprocessor = translator.preprocessor(*translator.spec.default_direction)
    *sources, targets = zip(*examples, strict=True)
    target = pad_sequences(preprocessor.encode_pairs_side(targets, "target"), "cpu")
    source = PaddedBatch.pad(preprocessor.encode_pairs_side(sources[0], "source")) if sources else None
    if isinstance(features := translator.spec.architecture.source, Features):
        shape = (len(targets), _POSITIONS * features.total_stride, features.width)
        source = PaddedBatch.full(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    log_probabilities = translator.program.score(source, target)
    return ReferenceLogProbabilities(target, log_probabilities, None if source is None else source.values)


def choose_examples(dev: Sequence[tuple[str, ...]], translator: Translator) -> list[tuple[str, ...]]:
    """Return short examples of the dev set. If there are none, return translations by the model itself."""
    sides: list[Side] = ["source", "target"] if translator.spec.task.reads else ["target"]
    short = [each for each in dev if all(_is_short(*text, translator) for text in zip(each, sides, strict=True))]
    return short[:_EXAMPLES] or translated_examples(translator)


def translated_examples(translator: Translator) -> list[tuple[str, ...]]:
    """Return a few fixed sentences and the model's own translations of them.

    If the source is not text, only the sentences are returned.
    """
    if "source" not in translator.spec.task.token_streams:
        return [(sentence,) for sentence in _SAMPLE_SENTENCES]
    sources = [sentence for sentence in _SAMPLE_SENTENCES if _is_short(sentence, "source", translator)] or ["a"]
    source, target = translator.spec.default_direction
    search: GenerationOptions = {"search": "beam", "beam": 1, "shortlist": False}
    targets = translator.translate(sources, source=source, target=target, split=False, protect=False, **search)
    # An untrained model may never end a sentence. Any target is good enough then.
    short = (target if _is_short(target, "target", translator) else "a" for target in targets)
    return list(zip(sources, short, strict=True))


def _is_short(text: str, side: Side, translator: Translator) -> bool:
    """Return whether a text has from 1 to 100 tokens, and no more than the sentences that the model may read."""
    spec = translator.spec
    max_tokens = min(_MAX_TOKENS, spec.corpus.max_length, spec.decoding.max_source_length)
    return len(text) <= _MAX_CHARACTERS and 0 < len(translator.vocabulary.encode(text, side)) <= max_tokens


def read(file: Path, spec: Spec) -> ReferenceLogProbabilities:
    """Read the reference log-probabilities of a model with this spec.

    Raises:
        ZooError: The file is missing, damaged or empty, or does not fit the spec.
    """
    try:
        with open_file(file) as stream:
            check_header(stream, file)
            if (actual := os.fstat(stream.fileno()).st_size) > _MAX_FILE_BYTES:
                raise _invalid(file, f"it has {size(actual)}; the limit is {size(_MAX_FILE_BYTES)}")
            references = ReferenceLogProbabilities(**safetensors.torch.load_file(file))
    except TypeError:
        raise _invalid(file, "it has the wrong tensors") from None
    except (SafetensorError, OSError) as error:
        raise ZooError(f"`{file}` cannot be read: {error}", hint=_RESTORE_HINT, exit_code=1) from None
    if reason := _invalid_reason(references, spec):
        raise _invalid(file, reason)
    return references


def _invalid(file: Path, reason: str) -> ZooError:
    problem = f"`{file}` is not a valid file of reference log-probabilities: {reason}"
    return ZooError(problem, hint=_RESTORE_HINT, exit_code=1)


def _invalid_reason(references: ReferenceLogProbabilities, spec: Spec) -> str | None:
    """Return the reason why the tensors are invalid for a model with this spec. None if they are valid."""
    target, expected = references.target, references.log_probabilities
    if (references.source is not None) is not spec.task.reads:
        return "it has the wrong tensors"
    source = target[:, :0] if references.source is None else references.source
    features = spec.architecture.source
    if isinstance(features, Features):
        if source.dtype != torch.float32 or source.dim() != 3 or source.shape[2] != features.width:
            return "its features have the wrong type or shape"
        if not source.isfinite().all():
            return "some of its features are not finite"
        source = torch.ones(source.shape[:2], dtype=torch.int64)
    types = (source.dtype, target.dtype, expected.dtype)
    if types != (torch.int64, torch.int64, torch.float32) or any(
        each.dim() != 2 for each in (source, target, expected)
    ):
        return "its tensors have wrong types or shapes"
    rows, length = expected.shape
    if not (source.numel() or not spec.task.reads) or not expected.numel():
        return "it is empty"
    if source.shape[0] != rows or target.shape != (rows, length + 1):
        return "the shapes of its tensors do not match"
    positions = spec.architecture.max_positions or _MAX_LENGTH
    width = max(length, source.shape[1])
    if width > positions * spec.architecture.source_stride or rows > _MAX_ROWS or rows * width > _MAX_CELLS:
        return "its tensors are too large"
    for tokens, count in zip((source, target), spec.vocabulary.sizes, strict=True):
        if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) >= count):
            return f"it has token IDs outside the vocabulary of {count:,}"
    sides = [target[:, 1:], *([source] if spec.task.reads else [])]
    if not all(bool((side != PAD).any(1).all()) for side in sides):
        return "one of its sentences consists of padding only"
    return None if bool(expected.isfinite().all()) else "some of its log-probabilities are not finite"


_Lines = Annotated[tuple[Annotated[str, Field(max_length=_MAX_CHARACTERS)], ...], Field(min_length=1, max_length=200)]
_Word = Annotated[str, Field(max_length=1_000)]


@dataclass(frozen=True)
class ReferenceOutputs:
    """Sentences of a dev or test set, their references, and the model's outputs with their score.

    Attributes:
        set: Set from which the sentences are taken.
        sentences: Number of sentences in the whole set.
        sources: Source sentences.
        references: Their references.
        outputs: The model's outputs when it was published.
        metric: Name of the metric.
        score: Score of the outputs, in points.
        signature: Signature of the score.
    """

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    set: Literal["dev", "test"]
    sentences: Annotated[int, Field(ge=1, lt=2**31)]
    sources: _Lines
    references: _Lines
    outputs: _Lines
    metric: _Word
    score: float
    signature: _Word

    def write(self, folder: Path) -> None:
        """Write the reference outputs into a bundle's folder."""
        write_json(folder / OUTPUTS_NAME, asdict(self))


@dataclass(frozen=True)
class ReproducedOutputs:
    """Result of decoding the reference sentences again.

    Attributes:
        set: The set that the sentences are from.
        sentences: Number of decoded sentences.
        identical: Number of outputs that are the same as when the model was published.
        metric: Title of the metric, such as "BLEU".
        published_score: Score when the model was published, in points.
        new_score: Score now, in points.
    """

    set: str
    sentences: int
    identical: int
    metric: str
    published_score: float
    new_score: float


_OUTPUTS = TypeAdapter(ReferenceOutputs)


def is_redistributable(spec: Spec) -> bool:
    """Return whether the dev and test sets may be redistributed: all of their text is from the built-in grammar."""
    scored = [*spec.corpus.dev, *spec.corpus.test]
    is_held_out = any(isinstance(part, HeldOut) for part in scored)
    parts = [part for part in scored if not isinstance(part, HeldOut)] + [*(spec.corpus.train if is_held_out else ())]
    return all(isinstance(part, Grammar) for part in parts)


def decode_reference_outputs(translator: Translator, report: Report) -> ReferenceOutputs | None:
    """Decode and score sentences of the test set, or of the dev set if there is no test set.

    Returns:
        The reference outputs. None if the set has no short sentences, or the model reads no source.

    Raises:
        ZooError: The text of the set is not on this machine.
    """
    spec = translator.spec
    if not spec.task.reads:
        return None
    split: Literal["dev", "test"] = "test" if spec.corpus.test else "dev"
    pairs = read_split(spec, split, report, translator.vocabulary).examples(spec.default_direction)
    short = [
        (source, reference)
        for source, reference in pairs
        if _is_short(source, "source", translator) and len(reference) <= _MAX_CHARACTERS
    ]
    chosen = list(dict.fromkeys(short[number * len(short) // SENTENCES] for number in range(SENTENCES) if short))
    if not chosen:
        return None
    sources, references = zip(*chosen, strict=True)
    answers, metric = _decode(translator, sources, references)
    computed = metric.compute(answers)
    return ReferenceOutputs(
        split,
        len(pairs),
        sources,
        references,
        outputs=tuple(answers.texts),
        metric=metric.name,
        score=float(computed[metric.name]),
        signature=str(computed[metric.signature]),
    )


def read_outputs(listed: Manifest) -> ReferenceOutputs | None:
    """Read the reference outputs of a bundle. Return None if the bundle contains none.

    Args:
        listed: The manifest of the bundle.

    Raises:
        ZooError: The file is damaged.
    """
    if OUTPUTS_NAME not in listed.entries:
        return None
    content, path = listed.read_file(OUTPUTS_NAME), listed.folder / OUTPUTS_NAME
    try:
        parsed = _OUTPUTS.validate_json(content)
    except ValidationError as error:
        raise damaged(path, f"{error.error_count()} of its values are invalid", _RESTORE_HINT) from None
    if not len(parsed.sources) == len(parsed.references) == len(parsed.outputs):
        raise damaged(path, "its lists have different lengths", _RESTORE_HINT)
    return parsed


def reproduce(reference: ReferenceOutputs, translator: Translator) -> ReproducedOutputs:
    """Decode the reference sentences again and compare the score.

    Raises:
        ZooError: The score differs by more than `SCORE_TOLERANCE`, or its metric does not belong to the model's task.
    """
    answers, metric = _decode(translator, reference.sources, reference.references)
    if metric.name != reference.metric:
        problem = f"the reference outputs have the metric `{reference.metric}`, but the task uses `{metric.name}`"
        raise ZooError(problem, hint="restore the model from its source", exit_code=1)
    score = float(metric.compute(answers)[metric.name])
    identical = sum(one == other for one, other in zip(answers.texts, reference.outputs, strict=True))
    if not abs(score - reference.score) <= SCORE_TOLERANCE:
        raise ZooError(
            f"the model's reference outputs score {metric.format_score(score)} {metric.title} here, but scored "
            f"{metric.format_score(reference.score)} when it was published; {identical} of {len(reference.sources)} "
            "outputs are the same",
            hint="restore the model from its source, or use another machine or backend: the weights, the spec or "
            f"`{OUTPUTS_NAME}` were changed, or this machine or backend computes wrong results",
            exit_code=1,
        )
    return ReproducedOutputs(reference.set, len(reference.sources), identical, metric.title, reference.score, score)


def _decode(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> tuple[ModelOutputs, Metric]:
    metric, *_ = metrics_for(translator.spec.task)
    direction = translator.spec.default_direction
    texts = EvaluationSet({"source": sources, "target": references}, [direction] * len(sources))
    return ModelOutputs(translator, texts, search="beam", shortlist=False), metric
