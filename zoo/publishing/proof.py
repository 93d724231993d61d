"""`proof.safetensors`: a few sentences and the log-probabilities that the model must give them.

A model whose weights were changed, or that is run by code or on a machine that computes something else, is caught.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float32, Int64
from safetensors import SafetensorError
from torch import Tensor

from compiler.program import Scoring
from specs import BOS, EOS, PAD, Spec, ZooError
from zoo.files.content import opened
from zoo.files.files import writing
from zoo.generation.batching import pad_sequences
from zoo.models.header import require_header
from zoo.report import size
from zoo.text.vocabulary import Vocabulary

NAME = "proof.safetensors"
TOLERANCE = 1e-4
"""Largest difference of a token's log-probability, in float32, between machines."""


@dataclass(frozen=True)
class Proof:
    """Tokens of a few pairs, and the log-probability of each target token, 0 at padding."""

    source: Int64[Tensor, "rows source"]
    target: Int64[Tensor, "rows 1+target"]
    log_probabilities: Float32[Tensor, "rows target"]

    def write(self, file: Path) -> None:
        """As safetensors."""
        with writing(file) as partial:
            safetensors.torch.save_file(vars(self), partial)

    @torch.no_grad()
    def check(self, program: Scoring, device: torch.device | None = None) -> float:
        """The largest difference of the program's log-probabilities. Raises ZooError where it is above TOLERANCE."""
        # One after the other: the logits of all would take any amount of memory.
        source, target = self.source.to(device), self.target.to(device)
        found = torch.cat(
            [program.score(source[row : row + 1], target[row : row + 1]).cpu() for row in range(len(source))]
        )
        difference = float((found - self.log_probabilities).abs().max())
        if difference <= TOLERANCE:
            return difference
        raise ZooError(
            f"the model gives other log-probabilities than its proof: they differ by {difference:.2g}, at most "
            f"{TOLERANCE:g} is allowed",
            hint="its weights, its spec or its proof were changed, or this machine computes something else",
            exit_code=1,
        )


@torch.no_grad()
def prove(program: Scoring, vocabulary: Vocabulary, pairs: Sequence[tuple[str, str]]) -> Proof:
    """The proof that these sentences and their translations make; the program must be of float32, on the CPU."""
    source = pad_sequences([[*vocabulary.encode(text, "source"), vocabulary.source_end] for text, _ in pairs], "cpu")
    target = pad_sequences([[BOS, *vocabulary.encode(text, "target"), EOS] for _, text in pairs], "cpu")
    return Proof(source, target, program.score(source, target))


def read(file: Path, spec: Spec) -> Proof:
    """The proof in a file, of a model of this spec.

    Raises ZooError where it is missing, damaged, empty, or not of such a model.
    """
    try:
        with opened(file) as stream:
            require_header(stream, file)
            if (found := os.fstat(stream.fileno()).st_size) > _BYTES:
                problem = f"`{file}` proves nothing: it has {size(found)}, and {size(_BYTES)} at most"
                raise ZooError(problem, exit_code=1)
            proof = Proof(**safetensors.torch.load_file(file))
    except TypeError:
        raise ZooError(f"`{file}` proves nothing: it has other tensors than a proof has", exit_code=1) from None
    except (SafetensorError, OSError) as error:
        raise ZooError(f"`{file}` cannot be read: {error}", exit_code=1) from None
    if fault := _fault(proof, spec):
        raise ZooError(f"`{file}` proves nothing: {fault}", exit_code=1)
    return proof


def _fault(proof: Proof, spec: Spec) -> str | None:
    source, target, expected = proof.source, proof.target, proof.log_probabilities
    types = (source.dtype, target.dtype, expected.dtype)
    if types != (torch.int64, torch.int64, torch.float32) or any(each.dim() != 2 for each in vars(proof).values()):
        return "its tensors are of other types"
    rows, longest = expected.shape
    if not source.numel() or not expected.numel():
        return "it is empty"
    if source.shape[0] != rows or target.shape != (rows, longest + 1):
        return "its tensors do not fit each other"
    limits = spec.architecture
    positions = limits.max_positions if limits.positional_encoding == "learned" else _LONGEST
    width = max(longest, source.shape[1])
    if width > positions or rows > _MOST or rows * width > _PLACES:
        return "it is larger than any that was published"
    for tokens, count in zip((source, target), spec.vocabulary.sizes, strict=True):
        if int(tokens.min()) < 0 or int(tokens.max()) >= count:
            return f"it has tokens that are none of {count:,}"
    if not bool((source != PAD).any(1).all() & (target[:, 1:] != PAD).any(1).all()):
        return "a sentence in it is nothing but padding"
    return None if bool(expected.isfinite().all()) else "it has log-probabilities that are no numbers"


_BYTES = 64_000_000  # all of it is held in memory
_LONGEST, _MOST, _PLACES = 10_000, 1_000, 100_000  # tokens of a sentence, sentences, both: many times what is published
