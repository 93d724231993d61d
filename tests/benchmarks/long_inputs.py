"""Measure restricted attention on long inputs (section 4): `python -m tests.benchmarks.long_inputs [--backward]`.

A speech encoder reads random audio frames, with full attention and with restricted attention of three radii. For each
input length, a separate process measures the CPU time of a forward pass, summed over all threads, and the peak memory.
With `--backward`, it measures a forward and backward pass of the whole model. The table also shows:

- the FLOPs and the bytes of all intermediate results that the cost model predicts
- the maximum path length between two positions: 1 for full attention, n / r for restricted attention (Table 1)
- the maximum distance, in seconds of audio, at which one frame can influence another frame through all layers
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import torch

import specs
from compiler import PaddedBatch, Purpose, build_module, graphs
from compiler.costs import cost
from compiler.host import tune_process
from specs import Spec
from tests.benchmarks.arguments import TOY_HELP
from zoo.planning.plan import plan
from zoo.system.memory import available_memory, peak_memory
from zoo.system.processors import host

RADII = (None, 256, 64, 16)
SECONDS = (10, 30, 60, 120, 300, 600)
FRAMES_PER_SECOND, STRIDE, WIDTH = 100, 4, 80
TARGET = 20  # tokens
ROUNDS = 3


def main() -> None:
    given = _arguments()
    if given.one:
        radius, seconds = json.loads(given.one)
        print(json.dumps(_measure(speech_spec(radius, toy=False), seconds, backward=given.backward)))
        return
    print(host())
    print("radius  sound    positions  CPU time    memory       GFLOPs  results      path  connected")
    for radius in (None, 1) if given.toy else RADII:
        for seconds in (1, 2) if given.toy else SECONDS:
            spec = speech_spec(radius, toy=given.toy)
            found = _predict(spec, radius, seconds, Purpose.TRAIN if given.backward else Purpose.ENCODE)
            fits = found["result_bytes"] < available_memory("cpu") / 2
            if given.toy:
                found |= _measure(spec, seconds, backward=given.backward)
            elif fits or not given.backward:  # without a backward pass, no result is kept
                one = [*sys.argv[1:], "--one", json.dumps([radius, seconds])]
                command = [sys.executable, "-m", "tests.benchmarks.long_inputs", *one]
                found |= json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            _show(radius, seconds, found)


def speech_spec(radius: int | None, *, toy: bool) -> Spec:
    """Return a speech recognition spec. If `radius` is None, the encoder has full attention, otherwise restricted."""
    full = {"kind": "self_attention"}
    attention: dict[str, Any] = full if radius is None else {"kind": "restricted_attention", "radius": radius}
    source = {"kind": "features", "width": WIDTH, "subsampling": [{"kernel": 3, "stride": 2}] * 2}
    sizes = {"N": 6, "d_model": 256, "d_ff": 1024, "h": 4, "d_k": 64, "d_v": 64}
    if toy:
        sizes = {"N": 1, "d_model": 8, "d_ff": 8, "h": 2, "d_k": 4, "d_v": 4}
    encoder = [attention, {"kind": "feed_forward"}]
    overrides = {
        "architecture": {**sizes, "source": source, "encoder": encoder, "tied_embeddings": "target"},
        "task": {"kind": "recognition", "source": {"kind": "audio", "bins": WIDTH}},
        "corpus": {"train": [], "dev": [], "test": []},
        "vocabulary.size": 1000,
        "compilation.backend": "eager",
    }
    return specs.load("base", overrides)


def _predict(spec: Spec, radius: int | None, seconds: int, purpose: Purpose) -> dict[str, float]:
    """Predict costs and path lengths from the graph, without running the model."""
    positions = seconds * FRAMES_PER_SECOND // STRIDE
    predicted = cost(graphs(spec, [purpose])[purpose])
    sizes = {"batch": 1, "source": positions, "target": TARGET}
    connected = plan(spec, positions).positions[0].reach * STRIDE / FRAMES_PER_SECOND
    path = 1 if radius is None else -(-positions // radius)
    costs = {"flops": predicted.flops(**sizes), "result_bytes": predicted.activation_bytes(**sizes)}
    return {"positions": positions, **costs, "path": path, "connected_seconds": connected}


def _measure(spec: Spec, seconds: int, *, backward: bool) -> dict[str, float]:
    """Run the encoder, or a forward and backward pass, on random frames.

    Returns:
        The shortest CPU time in seconds (`seconds`), and the peak memory of the process in bytes (`memory`).
    """
    tune_process()
    torch.manual_seed(0)
    program = build_module(spec, [Purpose.TRAIN, Purpose.ENCODE]).train(backward)
    source = PaddedBatch.pad([torch.randn(seconds * FRAMES_PER_SECOND, WIDTH)])
    target = torch.full((1, TARGET + 1), 5)
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        if backward:
            program.zero_grad()
            program(source, target).smoothed.backward()
        else:
            with torch.inference_mode():
                program.run(Purpose.ENCODE, **source.inputs)
        times.append(time.process_time() - start)
    return {"seconds": min(times), "memory": peak_memory("cpu")}


def _show(radius: int | None, seconds: int, found: dict[str, Any]) -> None:
    is_measured = "seconds" in found
    measured = f"{found['seconds']:7.2f} s  {found['memory'] / 2**30:7.2f} GiB" if is_measured else f"{'too large':22}"
    print(
        f"{radius or 'full':<6} {seconds:5} s  {found['positions']:9,}  {measured}  {found['flops'] / 1e9:8,.1f}  "
        f"{found['result_bytes'] / 2**30:6.2f} GiB  {found['path']:5}  {found['connected_seconds']:.1f} s",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--toy", action="store_true", help=TOY_HELP)
    parser.add_argument("--one", help="measure only this case, such as [64, 10] for radius 64 and 10 seconds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
