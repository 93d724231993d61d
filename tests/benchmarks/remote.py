"""Comparison of systems that run in separate processes and take turns.

No thread pool, allocator or flag of one system affects another, and a change of the machine's speed affects all.
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
    """System in its own process, which answers each line of input with a line of JSON."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Start the process. Raise SystemExit if it exits immediately."""
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def ask(self, word: str) -> Any:
        """Return the answer, and print the seconds at once, so that an interrupted run still shows them."""
        assert self.process.stdin
        started = time.monotonic()
        print(word, file=self.process.stdin, flush=True)
        answer = self._answer()
        print(f"{self.name}: {word}, {time.monotonic() - started:.1f} s", file=sys.stderr)
        return answer

    def _answer(self) -> Any:
        assert self.process.stdout
        if not (line := self.process.stdout.readline()):
            self.close()
            raise SystemExit(f"the process of {self.name} ended without an answer")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def opened(commands: Mapping[str, list[str]]) -> dict[str, Remote]:
    """Start the systems, and return those that start. Print the errors of the others."""
    found = {}
    for name, command in commands.items():
        try:
            found[name] = Remote(name, command)
        except SystemExit as error:
            print(error, file=sys.stderr)
    return found


def turns(systems: Mapping[str, Remote], word: str, rounds: int) -> dict[str, list[Any]]:
    """Ask all systems in each round, and return the answers by system. Each round starts with another system.

    Before the first round, each system is asked once, so that it compiles and allocates. After the last round, the
    systems are closed.
    """
    for system in systems.values():
        system.ask(word)
    answers: dict[str, list[Any]] = {name: [] for name in systems}
    for number in range(rounds):
        order = list(systems)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            answers[name].append(systems[name].ask(word))
    for system in systems.values():
        system.close()
    return answers


def serve(opening: Callable[[], Callable[[str], Any]]) -> None:
    """Run in the child process: open a system, and answer lines of input until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    answer = opening()
    print(json.dumps("ready"), file=answers, flush=True)
    for word in map(str.strip, sys.stdin):
        print(json.dumps(answer(word)), file=answers, flush=True)
