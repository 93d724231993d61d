"""Speed of translation: base in bfloat16, beam 4, by batch size, with and without CUDA graphs, and Hugging Face."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from compiler import EmittedProgram, Purpose, build, graphs
from compiler.costs import memory_traffic
from compiler.decoder import CACHE_BLOCK
from compiler.initialization import initial_weights
from compiler.size import Size
from compiler.stream import Stream
from specs import BOS, Spec
from tests.benchmarks.gpu_parts.setting import Absent, Figures, Setting
from tests.benchmarks.peers import Transformers
from zoo.training.benchmarks import LENGTH, random_sources, translations, weights_avoiding

BATCHES = (1, 32, 256, 1024)


def decoding(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Measure `eager` and Hugging Face first, and `inductor`, which compiles, last."""
    spec = setting.spec("base", compilation={"backend": "eager"})
    weights = weights_avoiding(spec, initial_weights(spec, graphs(spec)))
    batches = (1, 3) if setting.toy else BATCHES
    yield from _by_batch(setting, spec, weights, batches, "eager")
    apart = spec.model_copy(
        update={"compilation": spec.compilation.model_copy(update={"disabled_passes": ("beams_as_queries",)})}
    )
    batch = batches[-2]
    yield (
        f"eager, batch {batch}, beams as rows",
        _figures(setting, apart, _built(setting, apart, weights, "eager"), batch),
    )
    for batch in batches:
        try:
            yield f"Hugging Face, batch {batch}", _generate(setting, spec, batch)
        except Absent as reason:
            yield "Hugging Face", {"absent": str(reason)}
            break
    if setting.toy:
        yield "inductor", {"absent": "compiled at full size only"}
    else:
        yield from _by_batch(setting, spec, weights, batches, "inductor")


def _built(setting: Setting, spec: Spec, weights: Any, backend: str) -> EmittedProgram:
    program = build(spec, weights=weights, device=str(setting.device), precision="bfloat16", backend=backend)
    assert isinstance(program, EmittedProgram)
    return program


def _by_batch(
    setting: Setting, spec: Spec, weights: Any, batches: tuple[int, ...], backend: str
) -> Iterator[tuple[str, Figures]]:
    program = _built(setting, spec, weights, backend)
    recorded = program._recorded
    for batch in batches:
        row, program._recorded = f"{backend}, batch {batch}, recorded", recorded
        if recorded is None:
            yield row, {"absent": "CUDA graphs are for a GPU"}
        else:
            yield row, _figures(setting, spec, program, batch)
        program._recorded = None
        yield f"{backend}, batch {batch}", _figures(setting, spec, program, batch)


def _figures(setting: Setting, spec: Spec, program: EmittedProgram, batch: int) -> Figures:
    """Time whole translations, then decoder steps alone."""
    sources, device = random_sources(spec, max(batch, 4)), str(setting.device)

    def whole() -> None:
        translations(program, sources, spec, batch=batch, device=device)

    begun = time.perf_counter()
    translations(program, sources[:1], spec, batch=1, device=device)
    first = time.perf_counter() - begun
    taken = setting.seconds(whole, 1 if setting.toy else 3)
    steps = -(-len(sources) // batch) * LENGTH
    step, moved = _step(setting, spec, program, sources[:batch])
    return {
        "sentences/s": len(sources) / taken,
        "a step of the search, us": 1e6 * taken / steps,
        "the program's step, us": 1e6 * step,
        "bytes of a step": moved,
        "of the copy rate": moved / step / setting.bytes,
        "host waits a step": _waits(setting, whole, steps),
        "first line, s": first,
    }


def _step(setting: Setting, spec: Spec, program: EmittedProgram, sources: list[list[int]]) -> tuple[float, int]:
    """Return the seconds of a step in the middle of a translation, and its memory traffic in bytes.

    All timed steps use caches of the same size, so they replay the same CUDA graph.
    """
    beams, rows = spec.decoding.beam, len(sources) * spec.decoding.beam
    state = program.encode(Stream.pad(sources, setting.device))
    _, state = program.top_k(state, torch.full((len(sources), 1), BOS, device=setting.device), 2 * beams)
    every = torch.arange(len(sources), device=setting.device)
    state = program.select(state, every, torch.zeros(len(sources), beams, dtype=torch.long, device=setting.device))
    tokens = torch.full((rows, 1), 7, device=setting.device)
    for _ in range(CACHE_BLOCK):
        _, state = program.top_k(state, tokens, 2 * beams)
    held, steps = [state], 1 if setting.toy else CACHE_BLOCK // 4

    def work() -> None:
        for _ in range(steps):
            _, held[0] = program.top_k(held[0], tokens, 2 * beams)

    seconds = setting.seconds(work, 2) / steps
    graph, given = program.graphs[Purpose.DECODE_STEP], {**state.memory, **state.carried}
    sizes = {"batch": len(sources), "beams": beams, "new": 1}
    for name, value in given.items():
        for size, n in zip(graph.inputs[name].shape, value.shape, strict=True):
            sizes |= {symbol: n for symbol in size.symbols - sizes.keys() if size == Size.symbol(symbol)}
    return seconds, memory_traffic(graph)(**sizes)


def _waits(setting: Setting, work: Any, steps: int) -> float | str:
    """Return how often the host waits for the device per step, as torch counts it.

    The search also waits for the event of a step while the next step runs, which is not counted.
    """
    if not setting.cuda:
        return "counted on a GPU only"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(each.message) for each in said) / steps


def _generate(setting: Setting, spec: Spec, batch: int) -> Figures:
    if importlib.util.find_spec("transformers") is None:
        raise Absent("transformers is not installed: `pip install transformers`")
    peer = Transformers(spec)
    peer.model.to(setting.device, torch.bfloat16)
    sources = random_sources(spec, max(batch, 4))
    taken = setting.seconds(lambda: peer.run(sources, batch), 1)
    return {"sentences/s": len(sources) / taken}
