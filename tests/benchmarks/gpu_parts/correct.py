"""Correctness: every backend against the interpreter, a sentence alone and in a batch, replays, tests of the suite."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from compiler import TRANSLATE, EmittedProgram, Purpose, build, graphs, trainable
from compiler.backends import BACKENDS, BuildRequest
from compiler.backends.conformance import disagreement
from compiler.cuda_graph import Results
from compiler.initialization import initial_weights
from compiler.stream import Stream
from specs import BOS, Spec
from tests.benchmarks.gpu_parts.setting import ROOT, Figures, Setting, subprocess_environment
from zoo.training.benchmarks import random_sources, translations, weights_avoiding

TESTS = ["tests/zoo/generation/test_beam_search.py", "tests/compiler/test_cuda_graph.py", "-m", "gpu"]
PRECISIONS = ("float32", "bfloat16")


def correct(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Compare results on the GPU with the CPU: the quick checks first, then the backends that compile."""
    sections: dict[str, Any] = {} if setting.toy else {"architecture": {"N": 2}}  # of each kind of layer two
    spec = setting.spec("base", compilation={"backend": "eager"}, **sections)
    # Weights of before training, but for tokens that would end a translation early.
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    yield from _backend(setting, spec, weights, "eager")
    yield "training", _training(setting, spec)
    for precision in PRECISIONS:
        yield f"alone and in a batch, {precision}", _alone(setting, spec, weights, precision)
        yield f"recorded, {precision}", _recorded(setting, spec, weights, precision, "eager")
    yield "tests that need a GPU", _tests(setting)
    for name in BACKENDS:
        if name != "eager":
            yield from _backend(setting, spec, weights, name)
    if not setting.toy:
        yield "recorded, inductor, bfloat16", _recorded(setting, spec, weights, "bfloat16", "inductor")


def _backend(setting: Setting, spec: Spec, weights: Any, name: str) -> Iterator[tuple[str, Figures]]:
    """Report the largest relative difference from the interpreter, which runs in float32 on the CPU."""
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


def _training(setting: Setting, spec: Spec) -> Figures:
    """Report the error of the loss in float32, and with autocast in bfloat16."""
    program = trainable(spec, [Purpose.TRAIN], device=str(setting.device))
    found = {"error of the loss, float32": disagreement(program)[Purpose.TRAIN]}
    with torch.autocast(setting.device.type, torch.bfloat16):
        found["error of the loss, bfloat16"] = disagreement(program)[Purpose.TRAIN]
    return found


def _alone(setting: Setting, spec: Spec, weights: Any, precision: str) -> Figures:
    """Count sentences whose best translation differs in a batch. In float32 there must be none."""
    count = 4 if setting.toy else 48
    program = build(spec, weights=weights, device=str(setting.device), precision=precision, backend="eager")
    sources = random_sources(spec, count)
    alone, together = (
        translations(program, sources, spec, batch=batch, device=str(setting.device)) for batch in (1, count)
    )
    changed = sum(a[0].tokens != b[0].tokens for a, b in zip(alone, together, strict=True))
    return {"sentences": count, "changed": changed}


def run_again(function: Callable[[], Results]) -> tuple[Results, Callable[[], object]]:
    """Recorder that runs the step again in place of a replay."""
    return function(), function


def _recorded(setting: Setting, spec: Spec, weights: Any, precision: str, backend: str) -> Figures:
    """Compare replays with the recorded step bitwise, and translations with those of an unrecorded program."""
    programs = []
    for _ in range(3):
        made = build(spec, weights=weights, device=str(setting.device), precision=precision, backend=backend)
        assert isinstance(made, EmittedProgram)
        programs.append(made)
    recorded, again, plain = programs
    plain._recorded = None
    again.record_steps(run_again)
    if not setting.cuda:
        recorded.record_steps(run_again)
    rows, generator = 5, torch.Generator().manual_seed(1)
    source = torch.randint(4, spec.vocabulary.size, (rows, 11), generator=generator).to(setting.device)
    tokens = [torch.full((rows,), BOS), *torch.randint(4, spec.vocabulary.size, (20, rows), generator=generator)]
    states = [program.encode(Stream.full(source)) for program in programs]
    differing, largest = 0, 0.0
    for token in tokens:
        each = []
        for number, program in enumerate(programs):
            found, states[number] = program.advance(states[number], token[:, None].to(setting.device))
            each.append(found)
        differing += int((each[0] != each[1]).sum())
        largest = max(largest, float((each[0] - each[2]).abs().max()))
    sources = random_sources(spec, 4 if setting.toy else 48)
    both = [translations(program, sources, spec, batch=16, device=str(setting.device)) for program in (recorded, plain)]
    changed = sum(a[0].tokens != b[0].tokens for a, b in zip(*both, strict=True))
    return {
        "recorded as": "CUDA graphs"
        if setting.cuda and recorded._recorded and recorded._recorded._can_record
        else "nothing",
        "numbers that differ from the same step": differing,
        "largest difference from the step without padding, nats": largest,
        "sentences": len(sources),
        "changed": changed,
    }


def _tests(setting: Setting) -> Figures:
    """Run the tests of the suite that need a GPU, and report their counts and the names of those that fail."""
    # pytest-benchmark, if it is installed, warns beside pytest-xdist, and our tests turn warnings into errors.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", *TESTS]
    environment = subprocess_environment(ZOO_TEST_GPU="1")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines() or [""]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1])}
    if not counts:
        return {
            "failed": f"pytest ran no test, exit status {done.returncode}: {(done.stderr.strip() or lines[-1])[-300:]}"
        }
    if setting.cuda and counts.get("skipped"):
        return {"failed": f"{counts['skipped']} of the tests were skipped"}
    return {**counts, "not passed": [line for line in lines if line.startswith(("FAILED", "ERROR"))][:10]}
