"""How fast a spec translates on this machine: random weights, made-up sentences, translations of a known length."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from compiler import Purpose, build, find_device, graphs, interpret, lower
from compiler.initial import initial_weights
from compiler.operations.residual import Norm
from compiler.program import Stepping, SteppingProgram
from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.generation.batching import Source, pad_sequences
from zoo.generation.compilation import BackendOptions
from zoo.generation.config import GenerationConfig
from zoo.generation.engine import resolve_workers, search
from zoo.generation.hypotheses import Hypothesis
from zoo.planning.room import require_to_translate
from zoo.report import Report
from zoo.system.clock import Host, Spread, host, spread, timed

LENGTH = 27
"""Tokens of a translation, EOS counted: as many as the decoder takes steps. Sources have up to four tokens fewer."""
MAX_WORK = 100_000
"""Sentences, or rounds, that anybody would wait for."""
CHECKED = 4
"""Sentences whose log-probabilities are compared with the interpreter's."""


@dataclass(frozen=True)
class Speed:
    """Figures of a program that translates `sentences`, `batch` at a time in each of its workers.

    A translation has `length` tokens, EOS counted, and takes as many steps.
    """

    name: str
    backend: str
    precision: str
    device: str
    host: Host
    sentences: int
    batch: int
    workers: int
    beam: int
    length: int
    rounds: int
    build_seconds: float
    first_seconds: float
    """From the built program to the first translation of its life."""
    latency_seconds: Spread
    """Of one sentence alone, later on."""
    sentences_per_second: Spread
    tokens_per_second: Spread
    """Target tokens, EOS counted."""
    step_milliseconds: Spread
    """A round's time over the steps that all its batches take."""
    disagreement: float
    """The largest difference of a translation's log-probability from the interpreter's in float32, in nats a token."""


@dataclass(frozen=True)
class Work:
    """What is measured: `rounds` times `sentences`, `batch` at a time in every worker. ZooError out of bounds."""

    batch: int = 32
    sentences: int = 64
    rounds: int = 5

    def __post_init__(self) -> None:
        for name, count in vars(self).items():
            if not 1 <= count <= MAX_WORK:
                raise ZooError(f"`{name}` is {count}: it must be a whole number from 1 to {MAX_WORK:,}")


def measure(
    spec: Spec, work: Work, *, folder: Path | None = None, report: Report | None = None, **how: Unpack[BackendOptions]
) -> Speed:
    """Measures the spec with its beam, length penalty and ending; compiled artefacts are kept in `folder`.

    Raises ZooError for a device, a backend or a precision that cannot be had, a backend that has a search of its own,
    and a vocabulary so small that the search runs out of tokens.
    """
    learned = spec.architecture.positional_encoding == "learned"
    if learned and spec.architecture.max_positions <= LENGTH:
        raise ZooError(
            f"sources of {LENGTH} tokens and EOS are measured, and `{spec.name}` has learned fewer positions",
            hint=f"set `architecture.max_positions={LENGTH + 1}`",
        )
    if spec.decoding.search != "beam":
        problem = f"beam search is measured, and `{spec.name}` has `decoding.search: {spec.decoding.search}`"
        raise ZooError(problem, hint="set `decoding.search=beam`")
    how = {**how, "device": find_device(how.get("device", "auto"))}
    require_to_translate(spec, how["device"])
    weights = unending(spec, initial_weights(spec, graphs(spec)))
    building, program = timed(lambda: build(spec, weights=weights, folder=folder, **how))
    if program.search == "own":
        raise ZooError(
            f"the backend `{program.backend}` searches by itself: this measures the search of zoo",
            hint="`python tests/benchmarks/decode.py` measures it beside the other backends",
        )
    sources = made_up(spec, work.sentences)
    translate = partial(translations, program, spec=spec, device=how["device"])
    first, _ = timed(partial(translate, sources[:1], batch=1))
    alone, whole = [], []
    with (report or Report()).progress("decode", work.rounds, "rounds") as progress:
        for number in range(work.rounds):
            alone.append(timed(partial(translate, [sources[number % work.sentences]], batch=1))[0])
            seconds, found = timed(partial(translate, sources, batch=work.batch))
            whole.append(seconds)
            progress.advance()
    best = [hypotheses[0] for hypotheses in found[:CHECKED]]
    steps = -(-work.sentences // work.batch) * LENGTH
    return Speed(
        **_circumstances(program, spec, work, how["device"]),
        build_seconds=building,
        first_seconds=first,
        latency_seconds=spread(alone),
        sentences_per_second=spread(work.sentences / seconds for seconds in whole),
        tokens_per_second=spread(work.sentences * LENGTH / seconds for seconds in whole),
        step_milliseconds=spread(1000 * seconds / steps for seconds in whole),
        disagreement=disagreement(spec, weights, sources[:CHECKED], best),
    )


def _circumstances(program: SteppingProgram, spec: Spec, work: Work, device: str) -> dict[str, Any]:
    """The fields of Speed that are known before anything is measured."""
    return {
        "name": spec.name,
        "backend": program.backend,
        "precision": program.precision,
        "device": device,
        "host": host(),
        "workers": resolve_workers(program, spec.decoding.workers),
        "beam": spec.decoding.beam,
        "length": LENGTH,
        **vars(work),
    }


def unending(
    spec: Spec, initial: Mapping[str, Tensor], tokens: Iterable[int] = (PAD, UNK, BOS, EOS)
) -> dict[str, Tensor]:
    """Weights of before training, changed so that a search never takes these tokens unless it must.

    The last norm of the decoder takes the mean away, so a constant row of the output's table gets a logit of 0 from
    it, and a number of our choice with a bias that is constant, too: -20, where others are mostly within 5 of 0.
    """
    a, weights = spec.architecture, dict(initial)
    table = {"all": "embedding", "target": "target_embedding", "none": "output_projection"}[a.tied_embeddings]
    *_, last = (node for node in lower(spec, Purpose.SCORE).nodes if isinstance(node.operation, Norm))
    weights[last.parameters[-1]] = torch.full((a.d_model,), 4 * a.d_model**-0.5)
    weights[table] = weights[table].clone()
    weights[table][list(tokens)] = -5 * a.d_model**-0.5
    return weights


def made_up(spec: Spec, sentences: int) -> list[list[int]]:
    """Sources of random tokens, the same ones every time, each with its EOS."""
    draw = random.Random(1)
    lengths = [draw.randint(LENGTH - 4, LENGTH) for _ in range(sentences)]
    return [[*(draw.randrange(EOS + 1, spec.vocabulary.size) for _ in range(length)), EOS] for length in lengths]


def translations(
    program: Stepping,
    sources: Sequence[Sequence[int]],
    spec: Spec,
    *,
    batch: int,
    device: str = "cpu",
    n_best: int = 1,
    length: int = LENGTH,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source in its order, as a translator finds them: `batch` sentences in every worker.

    Each is of `length` tokens with its EOS, which takes as many steps.
    """
    rows = [Source(index, tuple(source), length - 1) for index, source in enumerate(sources)]
    beam = GenerationConfig.from_spec(spec, {}, n_best).strategy()
    workers = resolve_workers(program, spec.decoding.workers)
    # A budget of tokens that has room for this many sentences of the greatest length.
    tokens = batch * (LENGTH + 1) if batch > 1 else 1
    found = dict(search(program, [rows], beam, max_batch_tokens=tokens, workers=workers, device=device))
    if any(len(best.tokens) != length - 1 for best, *_ in found.values()):
        raise ZooError(
            f"a vocabulary of {spec.vocabulary.sizes[1]} tokens is too small for a beam of {spec.decoding.beam}",
            hint="set `vocabulary.size=1000`, or a smaller `decoding.beam`",
        )
    return [found[index] for index in range(len(sources))]


def disagreement(
    spec: Spec, weights: Mapping[str, Tensor], sources: Sequence[Sequence[int]], found: Sequence[Hypothesis]
) -> float:
    """The largest difference between the log-probability of what was found and the interpreter's, in nats a token."""
    target = pad_sequences([[BOS, *each.tokens, EOS] for each in found], "cpu")
    inputs = {"source": pad_sequences(sources, "cpu"), "target": target}
    wanted = interpret(lower(spec, Purpose.SCORE), weights, inputs)["log_probabilities"].sum(1)
    tokens = (target[:, 1:] != PAD).sum(1)
    return float(((torch.tensor([each.log_probability for each in found]) - wanted).abs() / tokens).max())
