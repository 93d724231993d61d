"""Reference log-probabilities of a published model, to check that it computes the same results everywhere.

`proof.safetensors` has the log-probabilities that the model assigned to a few sentence pairs when it was published. The
check fails if the weights have changed, or if a machine or backend computes different values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float32, Int64
from safetensors import SafetensorError
from torch import Tensor

from compiler.padded_batch import PaddedBatch
from compiler.program import Scorer
from specs import PAD, Features, Spec, ZooError
from zoo.files.atomic import atomic_file
from zoo.files.reading import read_bytes
from zoo.generation.config import GenerationOptions
from zoo.generation.translation import pad_sequences
from zoo.generation.translator import Translator
from zoo.models.weights import check_header
from zoo.text.vocabulary import Side

NAME = "proof.safetensors"
TOLERANCE = 1e-4
"""Largest accepted difference in a token's log-probability between machines, in float32."""
_MAX_TOKENS = 100
"""Maximum length of a reference sentence in tokens."""
_MAX_CHARACTERS = 10_000
_POSITIONS = 16
"""Number of positions in the random features that the encoder reads in place of text."""
_SAMPLE_SENTENCES = ("The old dog sees a small house.", "Today we read two books.", "1984, 2017!", "x y z")
_RESTORE_HINT = "restore the file from the model's source"
_MAX_FILE_BYTES = 64_000_000  # the file is read into memory
_MAX_LENGTH, _MAX_ROWS, _MAX_CELLS = 10_000, 1_000, 100_000  # far more than any published file has


@dataclass(frozen=True)
class ReferenceLogProbabilities:
    """Token IDs of a few examples, and the log-probability of each target token. Padding has the value 0."""

    target: Int64[Tensor, "rows 1+target"]
    log_probabilities: Float32[Tensor, "rows target"]
    source: Int64[Tensor, "rows source"] | Float32[Tensor, "rows frames width"] | None = None
    """Token IDs or features. None if the model has no encoder. Features have no padding."""

    @property
    def stream(self) -> PaddedBatch:
        """The sources as a padded batch. Their lengths are derived from the padding, because no text contains PAD."""
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
        """Compare the reference log-probabilities with the log-probabilities that a compiled model computes.

        Args:
            program: Compiled model to check.
            device: The device of the compiled model. The default is the CPU.

        Returns:
            The largest absolute difference.

        Raises:
            ZooError: The difference is larger than `TOLERANCE`.
        """
        # One row at a time, because the logits of all rows could need a lot of memory.
        actual = torch.cat([self._score(row, program, device) for row in range(len(self.target))])
        difference = float((actual - self.log_probabilities).abs().max())
        if difference <= TOLERANCE:
            return difference
        raise ZooError(
            f"the model does not reproduce its reference log-probabilities: they differ by {difference:.2g}, which is "
            f"more than {TOLERANCE:g}",
            hint="restore the model from its source, or use another machine: the weights, the spec or "
            f"`{NAME}` were changed, or this machine computes wrong results",
            exit_code=1,
        )


@torch.no_grad()
def compute(translator: Translator, examples: Sequence[tuple[str, ...]]) -> ReferenceLogProbabilities:
    """Compute the log-probabilities that a model assigns to examples.

    Args:
        translator: The model in float32 on the CPU.
        examples: For each example, a tuple with one text per text stream: (source, target), or (target,) if the
            model's input is not text. The language pair is the default direction of the spec.
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


def translated_examples(translator: Translator) -> list[tuple[str, ...]]:
    """Return a few fixed sentences with the model's own translations, as (source, translation).

    If the model's input is not text, return each sentence without a translation.
    """
    if "source" not in translator.spec.task.token_streams:
        return [(sentence,) for sentence in _SAMPLE_SENTENCES]
    sources = [sentence for sentence in _SAMPLE_SENTENCES if _is_short(sentence, "source", translator)] or ["a"]
    source, target = translator.spec.default_direction
    search: GenerationOptions = {"search": "beam", "beam": 1, "shortlist": False}
    targets = translator.translate(sources, source=source, target=target, split=False, protect=False, **search)
    # An untrained model may never end a sentence. In that case, any target is good enough.
    short = (target if _is_short(target, "target", translator) else "a" for target in targets)
    return list(zip(sources, short, strict=True))


def _is_short(text: str, side: Side, translator: Translator) -> bool:
    """Return whether a text has 1 to 100 tokens and does not exceed the model's maximum length."""
    spec = translator.spec
    max_tokens = min(_MAX_TOKENS, spec.corpus.max_length, spec.decoding.max_source_length)
    return len(text) <= _MAX_CHARACTERS and 0 < len(translator.vocabulary.encode(text, side)) <= max_tokens


def read(file: Path, spec: Spec) -> ReferenceLogProbabilities:
    """Read the reference log-probabilities of a model with this spec.

    Raises:
        ZooError: The file is missing, damaged or empty, or does not fit the spec.
    """
    try:
        content = read_bytes(file, _MAX_FILE_BYTES)
        check_header(BytesIO(content), file)
        references = ReferenceLogProbabilities(**safetensors.torch.load(content))
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
    """Return why the reference log-probabilities are invalid for a model with this spec. None if they are valid."""
    target, expected, source = references.target, references.log_probabilities, references.source
    features = spec.architecture.source
    tensors = [target, expected, *([] if source is None else [source])]
    source_type = (torch.float32, 3) if isinstance(features, Features) else (torch.int64, 2)
    types = [(torch.int64, 2), (torch.float32, 2), *([source_type] if spec.task.reads else [])]
    if [(each.dtype, each.dim()) for each in tensors] != types:
        return "its tensors have wrong types or shapes"
    if not all(each.numel() for each in tensors):
        return "it is empty"
    rows, length = expected.shape
    wrong_width = source is not None and isinstance(features, Features) and source.shape[2] != features.width
    if wrong_width or target.shape != (rows, length + 1) or any(len(each) != rows for each in tensors):
        return "the shapes of its tensors do not match"
    positions = spec.architecture.max_positions or _MAX_LENGTH
    width = length if source is None else max(length, source.shape[1])
    if width > positions * spec.architecture.source_stride or rows > _MAX_ROWS or rows * width > _MAX_CELLS:
        return "its tensors are too large"
    tokens = [target] if source is None or source.is_floating_point() else [target, source]
    for ids, count in zip(tokens, reversed(spec.vocabulary.sizes), strict=False):
        if int(ids.min()) < 0 or int(ids.max()) >= count:
            return f"it has token IDs outside the vocabulary of {count:,}"
    if not all(bool((ids != PAD).any(1).all()) for ids in (target[:, 1:], *tokens[1:])):
        return "one of its sentences consists of padding only"
    are_finite = all(bool(each.isfinite().all()) for each in tensors)
    return None if are_finite else "some of its values are not finite"
