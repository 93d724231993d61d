"""Measure the translation speed of `base` in bfloat16 with beam 4 at several batch sizes, and of Hugging Face."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from compiler import EmittedProgram, build, graphs
from compiler.assemble import initial_weights
from specs import Spec
from tests.benchmarks.gpu_parts.profile import profiled
from tests.benchmarks.gpu_parts.setting import Figures, Setting
from tests.benchmarks.peers import Transformers
from zoo.training.benchmarks import LENGTH, random_sources, translations, weights_avoiding

BATCHES = {1: 180, 32: 2_500, 256: 6_000}
"""Batch sizes in sentences, and the target speed of each in sentences per second."""


def decoding(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Measure zoo's GPU search with one CUDA graph per step, Hugging Face's search, and zoo's Python search."""
    spec = setting.spec("base")
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    program = build(spec, weights=weights, device=str(setting.device), precision="bfloat16", backend="eager")
    assert isinstance(program, EmittedProgram)
    batches = dict.fromkeys((1, 3), 1) if setting.toy else BATCHES
    for batch, mark in batches.items():
        figures = _figures(setting, spec, program, batch)
        yield f"batch {batch}", {**figures, "of the mark": figures["sentences/s"] / mark}
    for batch in batches:
        if importlib.util.find_spec("transformers") is None:
            yield "Hugging Face", {"absent": "transformers is not installed: `pip install transformers`"}
            break
        yield f"Hugging Face, batch {batch}", _generate(setting, spec, batch)
    for batch in batches:
        yield f"batch {batch}, step by step", _figures(setting, spec, program.with_parameters({}), batch, rounds=1)


def _figures(setting: Setting, spec: Spec, program: EmittedProgram, batch: int, rounds: int = 3) -> Figures:
    sources, device = random_sources(spec, max(batch, 4)), str(setting.device)
    whole: Any = partial(translations, program, sources, spec, batch=batch, device=device)
    begun = time.perf_counter()
    translations(program, sources[:1], spec, batch=1, device=device)
    first = time.perf_counter() - begun
    taken = setting.seconds(whole, 1 if setting.toy else rounds)
    steps = -(-len(sources) // batch) * LENGTH
    kernels = profiled(setting, f"decoding {batch}", whole, steps) if program.searcher else {}
    speed = {"sentences/s": len(sources) / taken, "a step of the search, us": 1e6 * taken / steps}
    return {**speed, "first line, s": first, **kernels}


def _generate(setting: Setting, spec: Spec, batch: int) -> Figures:
    peer = Transformers(spec)
    peer.model.to(setting.device, torch.bfloat16)
    sources = random_sources(spec, max(batch, 4))
    taken = setting.seconds(lambda: peer.run(sources, batch), 1)
    return {"sentences/s": len(sources) / taken}
