"""Compiled artefacts: a TensorRT engine, and torch's cache in a new process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from shutil import rmtree

from compiler import Purpose, build, graphs
from compiler.backends import BACKENDS, BuildRequest
from compiler.backends.conformance import disagreement
from compiler.initialization import initial_weights
from specs import Spec
from tests.benchmarks.gpu_parts.setting import Figures, Setting, subprocess_environment
from zoo.system.processors import timed

FRESH = """
import sys, time
import torch, specs
from compiler import build
from zoo.training.benchmarks import random_sources, translations, weights_avoiding
from compiler import graphs
from compiler.initialization import initial_weights
name, device, overrides = sys.argv[1], sys.argv[2], sys.argv[3:]
spec = specs.load(name, overrides)
weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
begun = time.perf_counter()
program = build(spec, weights=weights, device=device, backend="inductor", precision="bfloat16")
translations(program, random_sources(spec, 3), spec, batch=2, device=device)
print(time.perf_counter() - begun)
"""


def artefacts(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Compile two layers of base: inductor compiles each kind of layer once, but TensorRT's time grows with N."""
    spec = setting.spec("base", **({} if setting.toy else {"architecture": {"N": 2}}))
    yield "tensorrt", _engine(setting, spec)
    yield "torch.compile's cache", _cache(setting, spec)


def _engine(setting: Setting, spec: Spec) -> Figures:
    """Build a program, load it, and load it with other weights, which must not compile anything."""
    name, device = "tensorrt", str(setting.device)
    folder, backend = setting.folder / "artefacts" / name, BACKENDS[name]
    weights = initial_weights(spec, graphs(spec))
    order = BuildRequest(spec, graphs(spec, device=device), weights, device, "float32", folder)
    if problem := backend.unavailable_reason() or backend.unsupported_reason(order):
        return {"absent": problem}
    rmtree(folder, ignore_errors=True)
    others = {key: value * 1.01 for key, value in weights.items()}
    building, _ = timed(lambda: build(spec, weights=weights, device=device, backend=name, folder=folder))
    loading, program = timed(lambda: build(spec, weights=weights, device=device, backend=name, folder=folder))
    swapping, other = timed(lambda: build(spec, weights=others, device=device, backend=name, folder=folder))
    return {
        "built, s": building,
        "loaded, s": loading,
        "with other weights, s": swapping,
        "MB": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6,
        "error of a step": disagreement(program, weights=weights)[Purpose.DECODE_STEP],
        "error with other weights": disagreement(other, weights=others)[Purpose.DECODE_STEP],
    }


def _cache(setting: Setting, spec: Spec) -> Figures:
    """Time the first translations of two new processes that share a cache."""
    if problem := BACKENDS["inductor"].unavailable_reason():
        return {"absent": problem}
    folder = setting.folder / "artefacts" / "inductor"
    rmtree(folder, ignore_errors=True)
    file = folder / "spec.yaml"
    folder.mkdir(parents=True)
    file.write_text(spec.yaml(), encoding="utf-8")
    environment = subprocess_environment(TORCHINDUCTOR_CACHE_DIR=str(folder / "cache"))
    command = [sys.executable, "-c", FRESH, str(file), str(setting.device)]
    first, second = (
        float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(2)
    )
    return {"first process, s": first, "second process, s": second, "saved, s": first - second}
