"""Translating beside the peers: `python tests/benchmarks/decode.py [SPEC] [KEY=VALUE ...] [--work b32|b1|latency]`.

Random weights, the same for all; beam and length penalty of the spec (base: 4 and 0.6); sources of 23 to 27 tokens.
Every translation has 27 tokens and takes 27 steps: PAD, UNK, BOS and EOS have logits of -20, so that no search takes
them of its own accord; CTranslate2 and Hugging Face are told that 27 is the least and the greatest length; ours has a
limit of 26 tokens, and there it has to take EOS.

Every system lives in a process of its own, so that no thread pool, allocator or flag of one touches another, and they
take turns: in each round every system translates all sentences once, and the next round begins with another system.
The call alone is timed. CTranslate2 runs at both of its thread settings (a worker of one thread for every core, and
one worker of as many threads); ratios are to the better one of the same precision, or of float32 where it has none.

- b32: 64 sentences, 32 in every worker at a time. b1: one sentence in every worker.
- latency: one sentence after the other, milliseconds each.

Before that all translate once with 27 tokens before EOS: how many of the tokens and sentences are those of CTranslate2
in float32 stands in the last columns. Stop everything else first: a second busy process makes all figures worthless.
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

import peers
from remote import Remote, opened, serve, turns

import specs
from zoo.system.clock import spread
from zoo.system.processors import host
from zoo.training.benchmarks import LENGTH, random_sources

WORK = {"b32": (32, 64), "b1": (1, 12), "latency": (1, 8)}
"""Sentences of a batch, and sentences in all."""
REFERENCE = "ctranslate2-float32"
BACKENDS = ("eager", "native")


def main() -> None:
    given = _arguments()
    if given.child:
        return _child(given)
    with tempfile.TemporaryDirectory() as folder:
        systems = _opened(given, given.folder or folder)
        agreement = _agreement({name: system.ask("best") for name, system in systems.items()})
        for system in systems.values():  # not timed: what is compiled or laid out on first use
            system.ask(given.work)
        taken = turns(systems, given.work, given.rounds)
        for system in systems.values():
            system.close()
    figures = _figures(taken, given, agreement)
    if given.json:
        run = {"spec": given.spec, "overrides": given.overrides, "work": given.work, "rounds": given.rounds}
        versions = {name: version(name) for name in ("ctranslate2", "transformers")}
        told = {**run, "sentences": given.sentences, "host": {**asdict(host()), **versions}, "systems": figures}
        return print(json.dumps(told))
    return _show(figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", nargs="?", default="base")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--work", choices=WORK, default="b32")
    parser.add_argument("--systems", help="such as native-int8,ctranslate2-int8,marian-float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, help="instead of 64, 12 or 8")
    parser.add_argument("--folder", help="where compiled artefacts are kept")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    given.sentences = given.sentences or WORK[given.work][1]
    return given


def _child(given: argparse.Namespace) -> None:
    """Answers `best` with what the system finds, the name of a work with the seconds that it took."""

    def opening() -> Callable[[str], Any]:
        spec = specs.load(given.spec, given.overrides)
        system, sources = (
            peers.open_system(given.child, spec, Path(given.folder)),
            random_sources(spec, given.sentences),
        )

        def answer(word: str) -> Any:
            if word == "best":
                return system.best(sources)
            batch, parts = WORK[word][0], [[each] for each in sources] if word == "latency" else [sources]
            return [_seconds(system, part, batch) for part in parts]

        return answer

    serve(opening)


def _seconds(system: peers.System, sources: peers.Rows, batch: int) -> float:
    started = time.perf_counter()
    found = system.run(sources, batch)
    seconds = time.perf_counter() - started
    if any(len(row) != LENGTH for row in found):
        raise SystemExit("a translation is not as long as all have to be")
    return seconds


def _opened(given: argparse.Namespace, folder: str) -> dict[str, Remote]:
    """CTranslate2 in float32 is always there: the others are compared with it. What does not start is left out."""
    asked = given.systems.split(",") if given.systems else peers.names(BACKENDS, ("float32", "int8"))
    every = [*([] if REFERENCE in asked else [REFERENCE]), *asked]
    counts = ["--work", given.work, "--sentences", str(given.sentences), "--folder", folder]
    command = [__file__, given.spec, *given.overrides, *counts, "--child"]
    return opened({name: [*command, name] for system in every for name in peers.settings(system)})


def _agreement(best: dict[str, peers.Rows]) -> dict[str, tuple[float, float]]:
    """The share of tokens and of sentences that are the reference's."""
    reference = best[peers.settings(REFERENCE)[0]]
    shares = {}
    for name, rows in best.items():
        pairs = list(zip(rows, reference, strict=True))
        tokens = statistics.mean(a == b for row, wanted in pairs for a, b in zip(row, wanted, strict=True))
        shares[name] = (tokens, statistics.mean(row == wanted for row, wanted in pairs))
    return shares


def _figures(
    taken: dict[str, list[list[float]]], given: argparse.Namespace, agreement: dict[str, tuple[float, float]]
) -> dict[str, dict[str, Any]]:
    """Of each system its speed, and within each round the ratio to that of CTranslate2."""
    alone = given.work == "latency"
    rounds = {name: [statistics.median(parts) for parts in each] for name, each in taken.items()}
    figures: dict[str, dict[str, Any]] = {}
    for name, seconds in rounds.items():
        peer = _peer(name, rounds)
        ratio = spread(theirs / ours for ours, theirs in zip(seconds, rounds[peer], strict=True))
        speed = spread(1000 * each if alone else given.sentences / each for each in seconds)
        figures[name] = {
            "milliseconds" if alone else "sentences_per_second": speed._asdict(),
            "peer": peer,
            "ratio": ratio._asdict(),
            "same_tokens": agreement[name][0],
            "same_sentences": agreement[name][1],
        }
    return figures


def _peer(name: str, rounds: dict[str, list[float]]) -> str:
    """The faster setting of CTranslate2 in the same precision, or in float32."""
    precision = name.split("-")[1]
    same = [other for other in rounds if other.startswith(f"ctranslate2-{precision}-")]
    return min(same or [n for n in rounds if n.startswith(REFERENCE)], key=lambda n: statistics.median(rounds[n]))


def _show(figures: dict[str, dict[str, Any]]) -> None:
    unit = next(iter(next(iter(figures.values()))))
    columns = (unit.replace("_per_second", "/s"), "of CTranslate2", "tokens", "sentences the same")
    print(f"{'system':26}{columns[0]:>16} {'[least..most]':19}{columns[1]:>14} {columns[2]:>7} {columns[3]}")
    for name, each in figures.items():
        median, least, most = each[unit].values()
        words = f"{median:16.2f} {f'[{least:.2f}..{most:.2f}]':19}{each['ratio']['median']:14.2f}"
        print(f"{name:26}{words} {each['same_tokens']:7.1%} {each['same_sentences']:.1%}")


if __name__ == "__main__":
    main()
