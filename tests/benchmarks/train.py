"""Compare zoo's training speed with other toolkits: `python -m tests.benchmarks.train [SPEC] [KEY=VALUE ...]`.

The script times whole training steps (forward pass, backward pass and optimiser) from random weights, with dropout,
label smoothing and fused Adam. All systems get the same random sentence pairs. Batches have 2,500 source and 2,500
target tokens, but if any override is given, they have the size in the spec. A round consists of three batches: short,
medium and long sentences. Speeds are in tokens per second, without padding.

Each system runs in a separate process with one thread per core. The systems run alternately. The script prints medians
over the rounds. In each round, the ratio is the speed of a system divided by the speed of the fastest other toolkit.
After the same number of steps, all systems should have about the same loss.

The other toolkits are PyTorch's nn.Transformer, Hugging Face's Marian (`pip install transformers`) and Sockeye 3.1 (on
PYTHONPATH). Toolkits that are not installed are skipped. Stop all other programs first: a second busy process makes the
results useless.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks import learners
from tests.benchmarks.arguments import child_command, create_parser, load_spec, parse_comparison
from tests.benchmarks.remote import opened, serve, turns
from zoo.data.batches import Examples, epoch_batches
from zoo.system.memory import peak_memory
from zoo.system.processors import host, spread, timed
from zoo.training.benchmarks import random_pairs

SMALL = ["training.source_tokens=2500", "training.target_tokens=2500"]
STEPS = 3


def main() -> None:
    given = _arguments()
    if given.child:
        return serve(lambda: _child(given))
    systems = opened({name: [*child_command("train", given), name] for name in given.systems})
    tokens = {name: system.ask("tokens") for name, system in systems.items()}
    answers = turns(systems, "round", given.rounds)
    speeds = {name: [tokens[name] / each["seconds"] for each in found] for name, found in answers.items()}
    peers = [name for name in speeds if not name.startswith("zoo-")]
    best = max(peers, key=lambda name: statistics.median(speeds[name]))
    figures: dict[str, dict[str, Any]] = {}
    for name, every in speeds.items():
        ratio = spread(ours / theirs for ours, theirs in zip(every, speeds[best], strict=True))
        last = {key: answers[name][-1][key] for key in ("loss", "memory_bytes")}
        figures[name] = {"tokens_per_second": asdict(spread(every)), "ratio": asdict(ratio), **last}
    if given.json:
        run = {"spec": given.spec, "overrides": given.overrides, "rounds": given.rounds, "best_peer": best}
        return print(json.dumps({**run, "host": asdict(host()), "systems": figures}))
    return _show(figures, best)


def _arguments() -> argparse.Namespace:
    given = parse_comparison(create_parser(__doc__, default="base"), learners.SYSTEMS)
    given.overrides = [*SMALL, *given.overrides]
    return given


def _child(given: argparse.Namespace) -> Callable[[str], Any]:
    spec = load_spec(given.spec, given.overrides, toy=given.toy)
    learner = learners.SYSTEMS[given.child](spec)
    with TemporaryDirectory() as folder:
        store = random_pairs(spec, STEPS, Path(folder))
        training = spec.training
        budgets = {"source": training.source_tokens, "target": training.target_tokens}
        every = epoch_batches(store, budgets, seed=training.seed, epoch=0)
        batches = [Examples.from_store(store, indices).to_batch() for indices in islice(every, STEPS)]

    def answer(word: str) -> Any:
        if word == "tokens":
            return sum(batch.size.source_tokens + batch.size.target_tokens for batch in batches)
        seconds, losses = timed(lambda: [learner(batch) for batch in batches])
        return {"seconds": seconds, "loss": losses[-1], "memory_bytes": peak_memory("cpu")}

    return answer


def _show(figures: dict[str, dict[str, Any]], best: str) -> None:
    print(f"{'system':18}{'tokens/s':>10} {'[min..max]':18}{f'of {best}':>18} {'[min..max]':14}{'loss':>7} memory")
    for name, each in figures.items():
        median, low, high = each["tokens_per_second"].values()
        ratio, ratio_low, ratio_high = each["ratio"].values()
        words = f"{median:10,.0f} {f'[{low:,.0f}..{high:,.0f}]':18}"
        words += f"{ratio:18.2f} {f'[{ratio_low:.2f}..{ratio_high:.2f}]':14}"
        print(f"{name:18}{words}{each['loss']:7.3f} {each['memory_bytes'] / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
