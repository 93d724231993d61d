"""Compare zoo's translation speed with other systems: `python -m tests.benchmarks.decode [SPEC] [KEY=VALUE ...]`.

All systems use the same random weights, and the spec's beam size and length penalty (4 and 0.6 for `base`). Sources
have 23 to 27 tokens. Every translation takes 27 steps: PAD, UNK, BOS and EOS have logits of -20, so that no search
chooses these tokens. CTranslate2 and Hugging Face use 27 as the minimum and maximum length. zoo's search has a limit of
26 tokens, after which it must choose EOS.

Each system runs in a separate process. In each round, every system translates all sentences once. Each round starts
with a different system. Only the translation call is timed. CTranslate2 runs with two thread settings: one worker per
core with one thread each, and one worker with one thread per core. A system's ratio is its speed divided by the speed
of CTranslate2's faster setting in the same precision. If CTranslate2 does not run in this precision, float32 is used.

`--work` selects the measurement:

- b32: sentences per second for 64 sentences, in batches of 32.
- b1: sentences per second for 12 sentences, in batches of one.
- latency: milliseconds per sentence, if each call translates one sentence.

The last columns show the shares of tokens and sentences that are the same as those of CTranslate2 in float32. Stop all
other programs first: a second busy process makes the results useless.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks import peers
from tests.benchmarks.arguments import child_command, create_parser, load_spec, parse_comparison
from tests.benchmarks.remote import Remote, opened, serve, turns
from zoo.system.processors import host, spread
from zoo.training.benchmarks import LENGTH, random_sources

WORK = {"b32": (32, 64), "b1": (1, 12), "latency": (1, 8)}
"""Number of sentences in a batch and in total, for each value of `--work`."""
REFERENCE = "ctranslate2-float32"
BACKENDS = ("eager", "native")


def main() -> None:
    given = _arguments()
    if given.child:
        return serve(lambda: _child(given))
    with tempfile.TemporaryDirectory() as folder:
        systems = _opened(given, given.folder or folder)
        agreement = _agreement({name: system.ask("best") for name, system in systems.items()})
        taken = turns(systems, given.work, given.rounds)
    figures = _figures(taken, given, agreement)
    if given.json:
        run = {"spec": given.spec, "overrides": given.overrides, "work": given.work, "rounds": given.rounds}
        versions = {name: version(name) for name in ("ctranslate2", "transformers")}
        result = {**run, "sentences": given.sentences, "host": {**asdict(host()), **versions}, "systems": figures}
        return print(json.dumps(result))
    return _show(figures)


def _arguments() -> argparse.Namespace:
    parser = create_parser(__doc__, default="base")
    parser.add_argument("--work", choices=WORK, default="b32")
    parser.add_argument("--folder", help="folder for compiled artefacts (default: a temporary folder)")
    given = parse_comparison(parser, peers.names(BACKENDS, ("float32", "int8")))
    given.sentences = 2 if given.toy else WORK[given.work][1]
    return given


def _child(given: argparse.Namespace) -> Callable[[str], Any]:
    """Return a function that runs one system: `best` returns translations, and a value of `--work` returns seconds."""
    spec = load_spec(given.spec, given.overrides, toy=given.toy)
    system, sources = peers.open_system(given.child, spec, Path(given.folder)), random_sources(spec, given.sentences)

    def answer(word: str) -> Any:
        if word == "best":
            return system.best(sources)
        batch, parts = WORK[word][0], [[each] for each in sources] if word == "latency" else [sources]
        return [_seconds(system, part, batch) for part in parts]

    return answer


def _seconds(system: peers.System, sources: peers.Rows, batch: int) -> float:
    started = time.perf_counter()
    found = system.run(sources, batch)
    seconds = time.perf_counter() - started
    if any(len(row) != LENGTH for row in found):
        raise SystemExit(f"a translation does not have {LENGTH} tokens")
    return seconds


def _opened(given: argparse.Namespace, folder: str) -> dict[str, Remote]:
    """Start the selected systems and the reference system, CTranslate2 in float32. Return them by name."""
    every = [*([] if REFERENCE in given.systems else [REFERENCE]), *given.systems]
    command = child_command("decode", given, "--work", given.work, "--folder", folder)
    return opened({name: [*command, name] for system in every for name in peers.settings(system)})


def _agreement(best: dict[str, peers.Rows]) -> dict[str, dict[str, float]]:
    """Return the shares of tokens and sentences that are the same as in the reference system, for each system."""
    reference = best[peers.settings(REFERENCE)[0]]
    shares = {}
    for name, rows in best.items():
        pairs = list(zip(rows, reference, strict=True))
        tokens = statistics.mean(a == b for row, wanted in pairs for a, b in zip(row, wanted, strict=True))
        sentences = statistics.mean(row == wanted for row, wanted in pairs)
        shares[name] = {"same_tokens": tokens, "same_sentences": sentences}
    return shares


def _figures(taken: dict[str, Any], given: argparse.Namespace, agreement: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the speed of each system, and the ratio of this speed to CTranslate2's speed in the same round."""
    alone = given.work == "latency"
    rounds = {name: [statistics.median(parts) for parts in each] for name, each in taken.items()}
    figures: dict[str, dict[str, Any]] = {}
    for name, seconds in rounds.items():
        peer = _peer(name, rounds)
        ratio = spread(theirs / ours for ours, theirs in zip(seconds, rounds[peer], strict=True))
        speed = spread(1000 * each if alone else given.sentences / each for each in seconds)
        unit = "milliseconds" if alone else "sentences_per_second"
        figures[name] = {unit: asdict(speed), "peer": peer, "ratio": asdict(ratio), **agreement[name]}
    return figures


def _peer(name: str, rounds: dict[str, list[float]]) -> str:
    """Return the name of CTranslate2's faster thread setting in the precision of a system, or otherwise in float32."""
    precision = name.split("-")[1]
    same = [other for other in rounds if other.startswith(f"ctranslate2-{precision}-")]
    return min(same or [n for n in rounds if n.startswith(REFERENCE)], key=lambda n: statistics.median(rounds[n]))


def _show(figures: dict[str, dict[str, Any]]) -> None:
    unit = next(iter(next(iter(figures.values()))))
    columns = (unit.replace("_per_second", "/s"), "of CTranslate2", "tokens", "sentences the same")
    print(f"{'system':26}{columns[0]:>16} {'[min..max]':19}{columns[1]:>14} {columns[2]:>7} {columns[3]}")
    for name, each in figures.items():
        median, low, high = each[unit].values()
        words = f"{median:16.2f} {f'[{low:.2f}..{high:.2f}]':19}{each['ratio']['median']:14.2f}"
        print(f"{name:26}{words} {each['same_tokens']:7.1%} {each['same_sentences']:.1%}")


if __name__ == "__main__":
    main()
