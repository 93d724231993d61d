"""Measure the speed-up of speculative decoding: `python -m tests.benchmarks.drafts MODEL --texts FILE [OPTION ...]`.

Three systems translate or parse the texts, 50 at a time, with one worker: the Python search, the C++ kernels without
draft tokens, and the C++ kernels with draft tokens. The n-gram table that proposes draft tokens is empty at the
beginning. The results of all systems must be bitwise identical. The script prints the time per text, and the number of
tokens that a greedy search produces per decoder step. If the beam size is greater than 1, there are no draft tokens.

With `--cost`, the script instead times decoder steps that read several tokens. MODEL can then be a spec, which gets
random weights. The script prints the time of a step that reads one token, and for each number of tokens k, how many
times as long a step takes that reads k tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import specs
import zoo
from compiler import PaddedBatch
from specs import EOS
from tests.benchmarks.arguments import create_parser, load_spec, parse_translation
from tests.benchmarks.in_turn import in_turn, random_program
from zoo.generation import batch, engine
from zoo.generation.batch import Batch
from zoo.generation.translation import Translation
from zoo.system.processors import host

SYSTEMS = ("python", "kernels", "drafts")
TOKENS = (1, 2, 3, 4, 6, 8)
SOURCE, TARGET = 20, 12
"""Number of source tokens, and of target tokens before the timed step."""


def main() -> None:
    parser = create_parser(__doc__, "model")
    parser.add_argument("--texts", type=Path, help="file with one text per line")
    parser.add_argument("--cost", action="store_true", help="time decoder steps that read several tokens")
    given = parse_translation(parser, batch=1, beam=1)
    result = _cost(given) if given.cost else _compare(given)
    print(json.dumps({**vars(given), "processor": host().processor, **result}, default=str))


def _cost(given: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    draw, program = np.random.default_rng(0), _program(given)
    size, target_size = program.spec.vocabulary.sizes
    sources = torch.tensor(draw.integers(EOS + 1, size, (given.batch, SOURCE)))
    sources[:, -1] = EOS
    source = PaddedBatch(sources, torch.full((given.batch,), SOURCE))
    target = torch.tensor(draw.integers(EOS + 1, target_size, (given.batch, TARGET)))
    selection = torch.arange(given.batch), torch.zeros(given.batch, given.beam, dtype=torch.long)
    rows, count = given.batch * given.beam, 1 if given.beam == 1 else 2 * given.beam
    seconds: dict[int, list[float]] = {k: [] for k in TOKENS}
    for _ in range(50):
        for k in TOKENS:
            _, state = program.top_k(program.encode(source), target, 1)
            state = program.select(state, *selection)
            tokens = torch.tensor(draw.integers(EOS + 1, target_size, (rows, k)))
            started = time.perf_counter()
            program.top_k(state, tokens, count)
            seconds[k].append(time.perf_counter() - started)
    medians = {k: statistics.median(each) for k, each in seconds.items()}
    return {"microseconds": 1e6 * medians[1], "ratios": {k: medians[k] / medians[1] for k in TOKENS}}


def _program(given: argparse.Namespace) -> Any:
    try:
        spec = load_spec(given.model, given.overrides, toy=given.toy)
    except specs.ZooError:
        return zoo.load(given.model, backend="native", precision=given.precision).program
    return random_program(spec, given.precision)


def _compare(given: argparse.Namespace) -> dict[str, Any]:
    texts = [text for text in given.texts.read_text(encoding="utf-8").splitlines() if text][: given.sentences]
    systems = {name: zoo.load(given.model, backend="native", precision=given.precision) for name in SYSTEMS}
    for name in ("python", "kernels"):
        systems[name].program.max_drafts = 0  # type: ignore[attr-defined]
    source, target = systems["python"].spec.default_direction
    # Short sentences count as 16 tokens.
    tokens = 16 * given.batch if given.batch > 1 else 1
    options: Any = {"source": source, "target": target, "beam": given.beam, "workers": 1, "max_batch_tokens": tokens}

    def run(name: str, part: Sequence[str]) -> list[list[Translation]]:
        start_batch = Batch if name == "python" else batch.start_batch
        with patch.object(engine, "start_batch", start_batch):
            return systems[name].hypotheses(part, protect=False, **options)

    seconds, outputs = in_turn(run, SYSTEMS, texts, warm=("python", "kernels"))
    if not outputs["python"] == outputs["kernels"] == outputs["drafts"]:
        raise SystemExit("the results differ")
    totals = {name: 1000 * each / len(texts) for name, each in seconds.items()}
    length = sum(len(each[0].tokens) + 1 for each in outputs["drafts"])
    return {"milliseconds": totals, "tokens": length / len(texts), **_steps(given, texts, options, length)}


def _steps(given: argparse.Namespace, texts: Sequence[str], options: Any, length: int) -> dict[str, float]:
    """Return the number of tokens per decoder step of a greedy search. Empty if the beam size is greater than 1."""
    if given.beam > 1:
        return {}
    translator = zoo.load(given.model, backend="native", precision=given.precision)
    calls, search = [0], translator.program.search  # type: ignore[attr-defined]

    def counted(*arguments: Any) -> Any:
        calls[0] += 1
        return search(*arguments)

    translator.program.search = counted  # type: ignore[attr-defined]
    with patch.object(batch, "MAX_MICROSECONDS", 0):  # each call runs one step
        translator.hypotheses(texts, **{**options, "max_batch_tokens": 1})
    return {"tokens_per_step": length / calls[0]}


if __name__ == "__main__":
    main()
