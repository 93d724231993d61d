"""Check results on the GPU: training steps, searches, batch independence, resumed training, and backends."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from compiler import TRANSLATE, Purpose, build, build_module, graphs
from compiler.assemble import initial_weights
from compiler.backends import BACKENDS, BuildRequest
from compiler.backends.conformance import disagreement
from specs import EOS, Spec
from tests.benchmarks.gpu_parts.setting import Figures, Setting
from tests.compiler.kernels_in_pytorch import kernels_in_pytorch
from tests.examples import changed, rows
from tests.paths import ROOT
from tests.zoo.training.conftest import train_steps
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.engine import Engine
from zoo.generation.translation import Hypothesis, SearchInput
from zoo.report import Report
from zoo.training.benchmarks import random_sources, translations, weights_avoiding
from zoo.training.checkpoints import OPTIMISER, WEIGHTS, list_checkpoints
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.step import TrainStep

TESTS = ["tests/zoo/generation/test_beam_search.py", "-m", "gpu"]
PRECISIONS = ("float32", "bfloat16")
RULES: tuple[Any, ...] = ("admissible", "full", "shrinking")
BEAMS = (1, 4, 12)
SSRU = [{"kind": "ssru"}, {"kind": "cross_attention"}, {"kind": "feed_forward"}]


def correct(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Compare results on the GPU with results on the CPU. The quick checks precede the backends that compile code."""
    sections: dict[str, Any] = {} if setting.toy else {"architecture": {"N": 2}}  # of each kind of layer two
    spec = setting.spec("base", compilation={"backend": "eager"}, **sections)
    yield "stopped and resumed", _resume(setting)
    for dropout in (0.0, 0.1):
        yield f"5 steps, dropout {dropout}", _updates(setting, dropout=dropout)
    yield "5 steps, SSRU", _updates(setting, decoder=SSRU, norm={"placement": "pre"})
    yield from _searches(setting)
    # Weights of before training, but for tokens that would end a translation early.
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    for precision in PRECISIONS:
        yield f"alone and in a batch, {precision}", _alone(setting, spec, weights, precision)
    yield from _backend(setting, spec, weights, "eager")
    yield "tests that need a GPU", _tests(setting)
    for name in BACKENDS:
        if name != "eager":
            yield from _backend(setting, spec, weights, name)


def _small(**sections: Any) -> dict[str, Any]:
    sizes = {"N": 2, "d_model": 64, "d_ff": 128, "h": 4, "d_k": 16, "d_v": 16}
    architecture = {**sizes, **sections.pop("architecture", {})}
    return {"architecture": architecture, "vocabulary": {"size": 500}, **sections}


def _updates(setting: Setting, **architecture: Any) -> Figures:
    """Train 5 steps on the CPU and on the GPU, with the same batches and dropout masks. Return the differences."""
    training = {"source_tokens": 300, "target_tokens": 300, "warmup_steps": 10, "clip_norm": 1.0}
    # With the spec's epsilon and 20 steps, Adam turns a difference of 1e-6 in the first weights into 0.2.
    training["epsilon"] = 1e-3
    spec = setting.spec("tiny", **_small(architecture=architecture, training=training))
    trained = []
    for device in ("cpu", str(setting.device)):
        program = build_module(spec, (Purpose.TRAIN, Purpose.UPDATE), device=device)
        train_step, generator = TrainStep(spec, program, Processes(device), Report()), np.random.default_rng(1)
        with kernels_in_pytorch() if device == "cpu" else nullcontext():
            for number in range(1, 6):
                lengths = generator.integers(1, 20, (2, 12))
                sides = [[generator.integers(5, 500, n).astype(np.int32) for n in side] for side in lengths]
                batch = rows(*sides).to_batch()
                result = train_step(number, batch)
        weights = torch.cat([parameter.detach().flatten().cpu() for parameter in program.parameters()])
        trained.append((weights, float(result.smoothed) / result.tokens))
    (reference, expected), (weights, loss) = trained
    difference = float((weights - reference).abs().max())
    return {"difference of weights": difference, "difference of the loss": loss - expected}


def _searches(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Compare the GPU search with the Python search on the CPU, for all stopping rules and three beam sizes."""
    spec = setting.spec("tiny", **_small())
    generator = torch.Generator().manual_seed(1)
    initial = initial_weights(spec, graphs(spec)).items()
    weights = {name: 2 * each + 0.1 * torch.randn(each.shape, generator=generator) for name, each in initial}
    plain = build(spec, weights=weights, backend="eager", device="cpu")
    program = build(spec, weights=weights, backend="eager", device=str(setting.device))
    draw, size = random.Random(3), spec.vocabulary.size
    sources = []
    for index in range(8 if setting.toy else 40):
        source = (*(draw.randrange(4, size) for _ in range(draw.randint(1, 30))), EOS)
        sources.append(SearchInput(index, {"source": source}, draw.randint(4, 40)))
    for rule in RULES:
        for beam in BEAMS:
            constraint = SuppressedTokens((11,), size, None, 3) if beam == 4 else None
            search = BeamSearch(beam, 0.6, min(2, beam), constraint, stopping_rule=rule)
            found: list[list[list[Hypothesis]]] = []
            cases = ((plain, "cpu", 400), (program, setting.device, 400), (program, setting.device, 1))
            for each, device, tokens in cases:
                with Engine(each, device, max_batch_tokens=tokens) as engine:
                    found.append(engine.submit(sources, search).result())
            cpu, together, alone = ([[each.tokens for each in best] for best in results] for results in found)
            scores = [[each.score for best in results for each in best] for results in found[:2]]
            figures = {
                "sentences": len(sources),
                "other than on the CPU": sum(a != b for a, b in zip(cpu, together, strict=True)),
                "difference of scores": max(abs(a - b) for a, b in zip(*scores, strict=True)),
                "other alone than in a batch": sum(a != b for a, b in zip(alone, together, strict=True)),
            }
            yield f"search, {rule}, beam {beam}", figures


def _resume(setting: Setting) -> Figures:
    """Stop and resume a training run. Compare its weights and optimiser state with those of an uninterrupted run."""
    corpus = {"train": [{"grammar": 2000}], "dev": [{"grammar": 9}], "test": [{"grammar": 9}]}
    spec = setting.spec("tiny", **_small(corpus=corpus, training={"precision": "bfloat16"}))
    states = []
    for name, ends in (("whole", (7,)), ("resumed", (3, 5, 7))):
        run = Run(setting.folder / name)
        for end in ends:
            stopped = changed(spec, "training", steps=end, checkpoint_steps=2, cooldown_steps=None)
            train_steps(stopped, run.folder, str(setting.device))
        newest = list_checkpoints(run)[-1].folder
        states.append([(newest / file).read_bytes() for file in (WEIGHTS, OPTIMISER)])
    return {"steps": 7, "stopped after steps": [3, 5], "bitwise equal": states[0] == states[1]}


def _alone(setting: Setting, spec: Spec, weights: Any, precision: str) -> Figures:
    """Count the sentences that are translated differently alone and in a batch. In float32, there must be none."""
    count = 4 if setting.toy else 48
    sources, device = random_sources(spec, count), str(setting.device)
    program = build(spec, weights=weights, device=device, precision=precision, backend="eager")
    alone, together = (translations(program, sources, spec, batch=batch, device=device) for batch in (1, count))
    others = sum(a[0].tokens != b[0].tokens for a, b in zip(alone, together, strict=True))
    return {"sentences": count, "changed": others}


def _backend(setting: Setting, spec: Spec, weights: Any, name: str) -> Iterator[tuple[str, Figures]]:
    """Yield the largest relative differences between a backend and the interpreter in float32 on the CPU."""
    backend, device = BACKENDS[name], str(setting.device)
    for precision in PRECISIONS:
        row = f"{name}, {precision}"
        folder = setting.folder / "artefacts"
        order = BuildRequest(spec, graphs(spec, TRANSLATE, device, precision), weights, device, precision, folder)
        if problem := backend.unavailable_reason() or backend.unsupported_reason(order):
            yield row, {"absent": problem}
        elif setting.toy and name != "eager":
            yield row, {"absent": "compiled at full size only"}
        else:
            how: dict[str, Any] = {"device": device, "precision": precision, "backend": name, "folder": folder}
            try:
                program = build(spec, weights=weights, **how)
                errors = disagreement(program, weights=weights)
                yield row, {f"error of {purpose}": error for purpose, error in errors.items()}
            except Exception as error:
                yield row, {"failed": f"{type(error).__name__}: {error}"[:300]}


def _tests(setting: Setting) -> Figures:
    """Run the pytest tests that need a GPU. Return how many passed and failed, and the names of failed tests."""
    # pytest-benchmark, if it is installed, warns beside pytest-xdist, and our tests turn warnings into errors.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", *TESTS]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "ZOO_TEST_GPU": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines() or [""]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1])}
    if not counts:
        reason = (done.stderr.strip() or lines[-1])[-300:]
        return {"failed": f"pytest ran no test, exit status {done.returncode}: {reason}"}
    if setting.cuda and counts.get("skipped"):
        return {"failed": f"{counts['skipped']} of the tests were skipped"}
    return {**counts, "not passed": [line for line in lines if line.startswith(("FAILED", "ERROR"))][:10]}
