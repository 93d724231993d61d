"""Run a program on random sentences, and compare its results with the interpreter, the reference for all backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from compiler.emitted import EmittedProgram
from compiler.graph import Purpose, interpret
from compiler.lowering import lower
from compiler.operations.operation import ValueKind
from compiler.padded_batch import PaddedBatch
from compiler.program import DecoderOnly, Program
from specs import BOS, EOS, PAD, Spec

ROWS, SOURCE_LENGTH, TARGET_LENGTH = 4, 9, 7


def disagreement(program: Program, seed: int = 0, weights: Mapping[str, Tensor] | None = None) -> dict[Purpose, float]:
    """Return how much the results of a compiled model differ from the results of the reference interpreter.

    The compiled model and the interpreter run on the same random sentences. The interpreter runs the unoptimised graph.
    The compiled model's decoder reads one to four tokens per step. Sentences join and leave the batch until all targets
    end.

    Args:
        program: The compiled model to check. If it can be trained, it is set to evaluation mode.
        seed: The seed for the random tokens.
        weights: The tensors of the weights file. Required if the compiled model has rounded weights (bfloat16 or int8).

    Returns:
        For each of the purposes TRAIN, SCORE and DECODE_STEP that the model was compiled for, the largest absolute
        difference, divided by the largest absolute value from the interpreter.
    """
    source, target = _random_batch(program.spec, seed)
    weights = {n: t.cpu().float() for n, t in (program.weights() if weights is None else weights).items()}
    differences = {}
    if isinstance(program, EmittedProgram):
        program.eval()  # without dropout
    with torch.no_grad():
        for purpose in (Purpose.TRAIN, Purpose.SCORE, Purpose.DECODE_STEP):
            if purpose in program.graphs:
                actual = _run(program, purpose, source, target)
                expected = _expected(program.spec, purpose, source, target, weights)
                differences[purpose] = float((actual - expected).abs().max() / expected.abs().max())
    return differences


def run_once(program: Program) -> None:
    """Score and decode random sentences. Backends that compile a model on its first run then compile it now."""
    source, target = _random_batch(program.spec, seed=0)
    with torch.no_grad():
        for purpose in (Purpose.SCORE, Purpose.DECODE_STEP):
            _run(program, purpose, source, target)


def _random_batch(spec: Spec, seed: int) -> tuple[PaddedBatch, Tensor]:
    generator, vocabularies = torch.Generator().manual_seed(seed), spec.vocabulary.sizes
    max_length = spec.architecture.max_positions or SOURCE_LENGTH

    def rows(length: int, vocabulary: int) -> PaddedBatch:
        tokens = torch.randint(EOS + 1, vocabulary, (ROWS, length), generator=generator)
        ends = [max(0, length - 1 - row) for row in range(ROWS)]
        return PaddedBatch.pad([[*row[:end].tolist(), EOS] for row, end in zip(tokens, ends, strict=True)])

    # The decoder reads BOS but not the last EOS, so a target takes as many positions as it has tokens.
    lengths = (min(length, max_length) for length in (SOURCE_LENGTH, TARGET_LENGTH))
    source, target = (rows(length, size) for length, size in zip(lengths, vocabularies, strict=True))
    type_ = lower(spec, Purpose.ENCODE).inputs["source"]
    if type_.kind is ValueKind.FLOAT:  # features, with lengths that no stride divides
        _, frames, width = type_.shape
        shapes = [(frames(source=length + 1) - 1, width.constant) for length in source.lengths.tolist()]
        source = PaddedBatch.pad([torch.randn(shape, generator=generator) for shape in shapes])
    return source, torch.cat([torch.full((ROWS, 1), BOS), target.values], dim=1)


def _run(program: Program, purpose: Purpose, source: PaddedBatch, target: Tensor) -> Tensor:
    """Run the compiled model for one purpose. Return the target's log-probabilities or, for training, the losses."""
    if purpose is Purpose.DECODE_STEP:
        return _decode(program, source, target)
    source, target = source.to(program.device), target.to(program.device)
    if purpose is Purpose.TRAIN:
        assert isinstance(program, EmittedProgram)
        loss = program(source, target)
        return torch.stack([loss.smoothed, loss.plain]).cpu()
    return program.score(source, target).cpu()


def _decode(program: Program, source: PaddedBatch, target: Tensor) -> Tensor:
    """Return the log-probabilities of the target's tokens, computed step by step.

    Each decoder step reads a random number of tokens. A sentence leaves the batch at the end of its target. The second
    half of the sentences joins the batch after the first step.
    """
    generator, (rows, length) = torch.Generator().manual_seed(0), target[:, 1:].shape
    found, positions = torch.zeros(rows, length), torch.zeros(rows, dtype=torch.long)
    sentences = torch.arange(rows // 2)
    state, waiting = _start(program, source.rows(0, rows // 2)), True
    while len(sentences):
        read = positions[sentences]
        new = min(int(torch.randint(1, 5, (), generator=generator)), length - int(read.max()))
        index = read[:, None] + torch.arange(new)
        log_probabilities, state = program.advance(state, target[sentences[:, None], index].to(program.device))
        labels = target[sentences[:, None], index + 1]
        found[sentences[:, None], index] = log_probabilities.float().cpu().gather(-1, labels[..., None])[..., 0]
        positions[sentences] += new
        if waiting:
            others = torch.arange(rows // 2, rows)
            state = program.join(state, _start(program, source.rows(rows // 2, rows)))
            sentences, waiting = torch.cat([sentences, others]), False
        (left,) = (positions[sentences] < length).nonzero(as_tuple=True)
        if 0 < len(left) < len(sentences):
            parents = torch.zeros(len(left), 1, dtype=torch.long, device=program.device)
            state = program.select(state, left, parents)
        sentences = sentences[left]
    return found * (target[:, 1:] != PAD)


def _start(program: Program, source: PaddedBatch) -> Any:
    """Return the decoder state before the first token. A model without an encoder ignores the values of `source`."""
    if Purpose.ENCODE in program.graphs:
        return program.encode(source.to(program.device))
    return cast(DecoderOnly, program).begin(len(source.lengths))


def _expected(
    spec: Spec, purpose: Purpose, source: PaddedBatch, target: Tensor, weights: Mapping[str, Tensor]
) -> Tensor:
    """Return the values that `_run` should return. The interpreter computes them for the whole target at once."""
    purpose, output = (Purpose.TRAIN, "loss") if purpose is Purpose.TRAIN else (Purpose.SCORE, "log_probabilities")
    inputs = {**source.inputs, "target": target}
    return interpret(lower(spec, purpose), weights, inputs)[output]
