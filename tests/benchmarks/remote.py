"""Systems that are measured beside one another: each in a process of its own, all in turns.

So no thread pool, allocator or flag of one touches another, and a machine whose speed drifts drifts for all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


class Remote:
    """A system in a process of its own, which answers a word a line with a line of JSON."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Starts it. Raises SystemExit where it ends at once."""
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def ask(self, word: str) -> Any:
        """The answer; how long it took is said at once, so that a run that is cut off leaves its figures."""
        assert self.process.stdin
        started = time.monotonic()
        print(word, file=self.process.stdin, flush=True)
        answer = self._answer()
        print(f"{self.name}: {word}, {time.monotonic() - started:.1f} s", file=sys.stderr)
        return answer

    def _answer(self) -> Any:
        assert self.process.stdout
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"{self.name} has ended")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def opened(commands: Mapping[str, list[str]]) -> dict[str, Remote]:
    """Those that start; of the others what they said."""
    found = {}
    for name, command in commands.items():
        try:
            found[name] = Remote(name, command)
        except SystemExit as error:
            print(error, file=sys.stderr)
    return found


def turns(systems: Mapping[str, Remote], word: str, rounds: int) -> dict[str, list[Any]]:
    """What each answers to the word in every round; the next round begins with another one."""
    answers: dict[str, list[Any]] = {name: [] for name in systems}
    for number in range(rounds):
        order = list(systems)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            answers[name].append(systems[name].ask(word))
    return answers


def serve(opening: Callable[[], Callable[[str], Any]]) -> None:
    """The other side: opens a system, and answers until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
    answer = opening()
    print(json.dumps("ready"), file=answers, flush=True)
    for word in map(str.strip, sys.stdin):
        print(json.dumps(answer(word)), file=answers, flush=True)
