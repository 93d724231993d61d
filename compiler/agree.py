"""How far a program is from the interpreter: what every backend is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from compiler.emitted import EmittedProgram
from compiler.graph import Purpose
from compiler.interpreter import interpret
from compiler.lower import lower
from compiler.program import Program
from specs import BOS, EOS, PAD, Spec

ROWS, SOURCE, TARGET = 4, 9, 7


def disagreement(program: Program, seed: int = 0, weights: Mapping[str, Tensor] | None = None) -> dict[Purpose, float]:
    """For each purpose, the largest difference from the graph before any pass, relative to the largest value.

    Runs on random tokens of uneven lengths; a decoder's step is run until the longest target ends. `weights` are the
    tensors of the file, where the program cannot give them back because it has rounded them.
    """
    source, target = _batch(program.spec, seed)
    weights = {n: t.cpu().float() for n, t in (program.weights() if weights is None else weights).items()}
    purposes = [p for p in _RUNS if p in program.graphs]
    with torch.no_grad(), _at_rest(program):
        found = {p: _RUNS[p](program, source, target, weights) for p in purposes}
    return {p: float((a - b).abs().max() / b.abs().max()) for p, (a, b) in found.items()}


def _batch(spec: Spec, seed: int) -> tuple[Tensor, Tensor]:
    generator, vocabularies = torch.Generator().manual_seed(seed), spec.vocabulary.sizes
    learned = spec.architecture.positional_encoding == "learned"
    most = spec.architecture.max_positions if learned else SOURCE

    def rows(width: int, vocabulary: int) -> Tensor:
        tokens = torch.randint(EOS + 1, vocabulary, (ROWS, width), generator=generator)
        for row in range(ROWS):
            end = max(0, width - 1 - row)
            tokens[row, end:] = PAD
            tokens[row, end] = EOS
        return tokens

    # BOS takes a position, too; the last EOS is not read.
    source, target = (rows(min(w, most), v) for w, v in zip((SOURCE, TARGET), vocabularies, strict=True))
    return source, torch.cat([torch.full((ROWS, 1), BOS), target], dim=1)


@contextmanager
def _at_rest(program: Program) -> Iterator[None]:
    """While it lasts, the program drops nothing."""
    if not isinstance(program, EmittedProgram):
        yield
        return
    was_training = program.training
    program.eval()
    try:
        yield
    finally:
        program.train(was_training)


def _train(program: Program, source: Tensor, target: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    assert isinstance(program, EmittedProgram)
    device = program.device
    loss = program(source.to(device), target.to(device))
    expected = interpret(lower(program.spec, Purpose.TRAIN), weights, {"source": source, "target": target})["loss"]
    return torch.stack([loss.smoothed, loss.plain]).cpu(), expected


def _score(program: Program, source: Tensor, target: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    device = program.device
    inputs = {"source": source, "target": target}
    expected = interpret(lower(program.spec, Purpose.SCORE), weights, inputs)["log_probabilities"]
    return program.score(source.to(device), target.to(device)).cpu(), expected


def _decode(program: Program, source: Tensor, target: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Step after step with the cache, against the interpreter's pass over the whole target."""
    assert program.search == "steps"
    device = program.device
    state = program.encode(source.to(device))
    steps = []
    for token in target[:, :-1].unbind(1):
        log_probabilities, state = program.decode_step(state, token.to(device))
        steps.append(log_probabilities.cpu())
    labels = target[:, 1:]
    picked = torch.stack(steps, 1).gather(-1, labels[..., None])[..., 0] * (labels != PAD)
    inputs = {"source": source, "target": target}
    return picked, interpret(lower(program.spec, Purpose.SCORE), weights, inputs)["log_probabilities"]


_RUNS = {Purpose.TRAIN: _train, Purpose.SCORE: _score, Purpose.DECODE_STEP: _decode}
