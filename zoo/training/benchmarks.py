"""Measure the speed of translating and training on this machine, with random weights and random sentences."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from compiler import Purpose, build, build_module, find_device, graphs, interpret, lower
from compiler.assemble import initial_weights
from compiler.host import fast_float32
from compiler.options import BackendOptions
from compiler.padded_batch import PaddedBatch
from compiler.program import TranslationModel
from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.data.batches import Batch, BatchSize
from zoo.data.store import Store, StoreWriter
from zoo.data.training_set import TrainingSet
from zoo.generation.config import GenerationConfig
from zoo.generation.engine import Engine, resolve_workers
from zoo.generation.translation import Hypothesis, SearchInput, pad_sequences
from zoo.planning.memory_estimate import require_memory_to_train, require_memory_to_translate
from zoo.report import SILENT, Report
from zoo.system.memory import peak_memory
from zoo.system.processors import Host, Spread, host, matrix_peak, spread, timed
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.step import TrainStep
from zoo.training.trainer import Trainer

LENGTH = 27
"""Number of tokens in each translation, including EOS. Source sentences have up to four fewer tokens."""
CHECKED = 4
"""Number of translations whose log-probabilities are compared with the float32 interpreter."""
_MEDIAN, _SIGMA, _LONGEST = 22, 0.5, 80
"""Median and sigma of the log-normal distribution of source lengths, and the maximum length, in tokens. The lengths
are similar to WMT 2014. A target is up to 15% longer or shorter than its source."""


@dataclass(frozen=True)
class Measurement:
    """Base class for benchmark results: name of the spec, machine, and number of rounds."""

    name: str
    backend: str
    precision: str
    device: str
    host: Host
    rounds: int
    first_seconds: float
    """Time of the first translation or the first training round, including compilation, in seconds."""


@dataclass(frozen=True)
class DecodingSpeed(Measurement):
    """Speed of translating `sentences` sentences in batches of `batch`, with `workers` batches in parallel.

    Each translation has `length` tokens including EOS, and therefore takes `length` decoding steps.
    """

    sentences: int
    batch: int
    workers: int
    beam: int
    length: int
    build_seconds: float
    latency_seconds: Spread
    """Time to translate a single sentence, excluding the first translation."""
    sentences_per_second: Spread
    tokens_per_second: Spread
    """Target tokens per second, including EOS."""
    step_milliseconds: Spread
    """Time of a round, divided by the total number of decoding steps in its batches."""
    disagreement: float
    """Largest difference between the log-probability that beam search computes for a translation and the
    log-probability that the float32 interpreter computes, in nats per token."""


def benchmark_decoding(
    spec: Spec,
    *,
    batch: int = 32,
    sentences: int = 64,
    rounds: int = 5,
    folder: Path | None = None,
    report: Report = SILENT,
    **how: Unpack[BackendOptions],
) -> DecodingSpeed:
    """Measure how fast a spec's model translates, with the spec's beam size, length penalty and stopping rule.

    Args:
        spec: Spec of the model, which gets random weights.
        batch: Number of sentences that each worker translates at a time.
        sentences: Number of sentences to translate in each round.
        rounds: Number of rounds, each of which gives one measurement.
        folder: Folder in which compiled models are cached. If None, they are deleted when the process ends.
        report: Receives progress.
        how: Device, backend and precision.

    Raises:
        ZooError: The device, backend or precision is not available, or the vocabulary is too small for the beam.
    """
    spec.require_text("the benchmark")
    spec.require_source("the benchmark")
    positions = spec.architecture.max_positions
    if positions is not None and positions <= LENGTH:
        problem = f"the benchmark needs {LENGTH + 1} position embeddings, but `{spec.name}` has {positions}"
        raise ZooError(problem, hint=f"set `architecture.positions.rows={LENGTH + 1}`")
    if spec.decoding.search != "beam":
        problem = f"the benchmark measures beam search, but `{spec.name}` has `decoding.search: {spec.decoding.search}`"
        raise ZooError(problem, hint="set `decoding.search=beam`")
    how["device"] = device = find_device(how.get("device", "auto"))
    require_memory_to_translate(spec, device)
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    build_seconds, program = timed(lambda: build(spec, weights=weights, folder=folder, **how))
    sources = random_sources(spec, sentences)
    translate = partial(translations, program, spec=spec, device=device)
    first, _ = timed(partial(translate, sources[:1], batch=1))
    single, whole = [], []
    with report.progress("decode", rounds, "rounds") as progress:
        for number in range(rounds):
            single.append(timed(partial(translate, [sources[number % sentences]], batch=1))[0])
            seconds, results = timed(partial(translate, sources, batch=batch))
            whole.append(seconds)
            progress.advance()
    best = [hypotheses[0] for hypotheses in results[:CHECKED]]
    steps = -(-sentences // batch) * LENGTH
    return DecodingSpeed(
        name=spec.name,
        backend=program.backend,
        precision=program.precision,
        device=device,
        host=host(),
        sentences=sentences,
        batch=batch,
        workers=resolve_workers(program, spec.decoding.workers),
        beam=spec.decoding.beam,
        length=LENGTH,
        rounds=rounds,
        build_seconds=build_seconds,
        first_seconds=first,
        latency_seconds=spread(single),
        sentences_per_second=spread(sentences / seconds for seconds in whole),
        tokens_per_second=spread(sentences * LENGTH / seconds for seconds in whole),
        step_milliseconds=spread(1000 * seconds / steps for seconds in whole),
        disagreement=disagreement(spec, weights, sources[:CHECKED], best),
    )


def weights_avoiding(spec: Spec, initial: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of the initial weights, changed so that beam search never selects a special token.

    EOS is a special token, so all translations have the maximum length.

    The decoder's final norm subtracts the mean. If all elements of a token's output embedding are equal, the token's
    logit therefore depends only on the bias of the norm. The embedding and the bias are set so that this logit is -20.
    Other logits are mostly between -5 and 5.

    Args:
        spec: The model's spec.
        initial: The initial weights. This mapping and its tensors are not changed.

    Returns:
        The changed weights.
    """
    architecture, weights = spec.architecture, dict(initial)
    tables = {"all": "embedding", "target": "target_embedding"}
    table = tables.get(architecture.tied_embeddings, "output_projection")
    *_, last = (node for node in lower(spec, Purpose.SCORE).nodes if node.operation.is_norm)
    weights[last.parameters[-1]] = torch.full((architecture.d_model,), 4 * architecture.d_model**-0.5)
    weights[table] = weights[table].clone()
    weights[table][[PAD, UNK, BOS, EOS]] = -5 * architecture.d_model**-0.5
    return weights


def random_sources(spec: Spec, sentences: int) -> list[list[int]]:
    """Return the token IDs of random source sentences, which end with EOS. Each call returns the same sentences."""
    draw = random.Random(1)
    lengths = [draw.randint(LENGTH - 4, LENGTH) for _ in range(sentences)]
    return [[*(draw.randrange(EOS + 1, spec.vocabulary.size) for _ in range(length)), EOS] for length in lengths]


def translations(
    program: TranslationModel,
    sources: Sequence[Sequence[int]],
    spec: Spec,
    *,
    batch: int,
    device: str = "cpu",
    n_best: int = 1,
    length: int = LENGTH,
) -> list[list[Hypothesis]]:
    """Translate token sequences with the same beam search as `Translator`, but without tokenisation.

    Args:
        program: Compiled model that translates.
        sources: The token IDs of each source, including EOS.
        spec: The model's spec, which contains the beam size and other decoding settings.
        batch: The number of sentences that each worker translates at a time.
        device: The compiled model's device.
        n_best: The number of hypotheses to return per source.
        length: The length of each translation in tokens, including EOS.

    Returns:
        The hypotheses for each source, in the order of the sources.

    Raises:
        ZooError: A translation has a different length, because the vocabulary is too small for the beam.
    """
    rows = [SearchInput(index, {"source": tuple(source)}, length - 1) for index, source in enumerate(sources)]
    beam = GenerationConfig.from_spec(spec, {}, n_best).strategy()
    workers = resolve_workers(program, spec.decoding.workers)
    # This token budget is enough for `batch` sentences of the maximum length.
    tokens = batch * (LENGTH + 1) if batch > 1 else 1
    with Engine(program, device, workers=workers, max_batch_tokens=tokens) as engine:
        results = engine.submit(rows, beam).result()
    if any(len(best.tokens) != length - 1 for best, *_ in results):
        problem = f"a vocabulary of {spec.vocabulary.sizes[1]} tokens is too small for a beam of {spec.decoding.beam}"
        raise ZooError(problem, hint="set `vocabulary.size=1000`, or reduce `decoding.beam`")
    return results


def disagreement(
    spec: Spec, weights: Mapping[str, Tensor], sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis]
) -> float:
    """Compare the log-probabilities that beam search computed for hypotheses with the results of `compiler.interpret`.

    Returns:
        The largest absolute difference, in nats per token.
    """
    target = pad_sequences([[BOS, *hypothesis.tokens, EOS] for hypothesis in hypotheses], "cpu")
    inputs = {**PaddedBatch.pad(sources).inputs, "target": target}
    expected = interpret(lower(spec, Purpose.SCORE), weights, inputs)["log_probabilities"].sum(1)
    tokens = torch.tensor([len(hypothesis.tokens) + 1 for hypothesis in hypotheses])
    actual = torch.tensor([hypothesis.log_probability for hypothesis in hypotheses])
    return float(((actual - expected).abs() / tokens).max())


@dataclass(frozen=True)
class TrainingSpeed(Measurement):
    """Speed of training, measured over rounds of `steps` updates. Tokens include EOS, but no padding."""

    steps: int
    step_seconds: Spread
    source_tokens_per_second: Spread
    target_tokens_per_second: Spread
    padding: float
    """Fraction of the tokens in all batches that are padding."""
    utilisation: Spread
    """FLOPs per second of the matrix products, without padding, divided by `peak_flops`."""
    peak_flops: float
    """FLOPs per second of a large matrix product."""
    memory_bytes: int
    """Peak memory of this process, or of the GPU."""
    loss: float
    """Loss of the last update, in nats per token. It should be similar in all systems that are compared."""


def benchmark_training(
    spec: Spec, *, steps: int = 3, rounds: int = 3, device: str = "auto", report: Report = SILENT
) -> TrainingSpeed:
    """Measure how fast a spec's model trains, on full batches of random sentences whose lengths vary as in WMT 2014.

    Raises:
        ZooError: The device or the backend is not available, or the longest sentence (80 tokens, or `corpus.max_length`
            if that is less) exceeds the token budget of a batch.
    """
    spec.require_text("the benchmark")
    spec.require_source("the benchmark")
    require_memory_to_train(spec, device)
    device = find_device(device)
    program = build_module(spec, device=device)
    with TemporaryDirectory() as folder, fast_float32():
        store, run = random_pairs(spec, steps, Path(folder)), Run(Path(folder, "run"))
        # Remove the corpus parts and the temperature, because they do not apply to random pairs.
        bare = spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"train": (), "temperature": 1.0})})
        packed = Purpose.UPDATE in program.graphs
        data = TrainingSet(bare, store, packed=packed)
        trainer = Trainer(TrainStep(spec, program, Processes(device), report), data, run)
        inputs = [batch for batch, _ in islice(trainer.inputs(), steps)]
        peak = matrix_peak(trainer.device, spec.training.precision)
        first, _ = timed(lambda: _round(trainer, inputs))
        with report.progress("train", rounds, "rounds") as progress:
            times = []
            for _ in range(rounds):
                seconds, loss = timed(lambda: _round(trainer, inputs))
                times.append(seconds)
                progress.advance()
    total = BatchSize.total(batch.size for batch in inputs)
    if packed:
        total = total._replace(padded_tokens=steps * (spec.training.source_tokens + spec.training.target_tokens))
    flops = sum(trainer.flops_of(batch.size) for batch in inputs)
    return TrainingSpeed(
        name=spec.name,
        backend=trainer.program.backend,
        precision=spec.training.precision,
        device=device,
        host=host(),
        rounds=rounds,
        steps=steps,
        first_seconds=first,
        step_seconds=spread(seconds / steps for seconds in times),
        source_tokens_per_second=spread(total.source_tokens / seconds for seconds in times),
        target_tokens_per_second=spread(total.target_tokens / seconds for seconds in times),
        padding=total.padding,
        utilisation=spread(flops / seconds / peak for seconds in times),
        peak_flops=peak,
        memory_bytes=peak_memory(trainer.device),
        loss=loss,
    )


def _round(trainer: Trainer, inputs: list[Batch]) -> float:
    """Train one step on each batch, and wait until the device has finished. Return the last step's loss per token."""
    for number, batch in enumerate(inputs, start=1):
        result = trainer.step(number, batch)
    return float(result.smoothed) / result.tokens


def random_pairs(spec: Spec, batches: int, folder: Path) -> Store:
    """Write random sentence pairs for at least `batches` full batches to `folder`, and return them as a store.

    Calls with the same arguments write the same pairs.
    """
    budget = max(spec.training.source_tokens, spec.training.target_tokens)
    generator = np.random.default_rng(1)
    count = max(4096, 4 * batches * budget // _MEDIAN)
    longest = min(_LONGEST - 1, spec.corpus.max_length)  # without EOS
    sources = np.clip(generator.lognormal(np.log(_MEDIAN), _SIGMA, count), 4, longest).astype(int)
    targets = np.clip(sources * generator.uniform(0.85, 1.15, count), 4, longest).astype(int)
    rows = {}
    for name, size, lengths in zip(("source", "target"), spec.vocabulary.sizes, (sources, targets), strict=True):
        rows[name] = [generator.integers(EOS + 1, size, length).tolist() for length in lengths]
    with StoreWriter(folder, dict.fromkeys(rows, "uint32")) as writer:
        writer.add(rows)
    return Store(folder)
