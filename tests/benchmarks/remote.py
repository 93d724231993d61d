"""Compare systems that run alternately in separate processes.

Thread pools, allocators and flags of a system do not affect other systems. If the speed of the machine changes, all
systems are affected.
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
    """System in a child process, which answers each line on its standard input with a line of JSON."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Start the child process. Raise SystemExit if it exits before it is ready."""
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def ask(self, word: str) -> Any:
        """Send a request to the child process, and return its answer. Print the time that the request took."""
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
    """Start systems by their commands. Return the systems that started, by name, and print the errors of the others."""
    found = {}
    for name, command in commands.items():
        try:
            found[name] = Remote(name, command)
        except SystemExit as error:
            print(error, file=sys.stderr)
    return found


def turns(systems: Mapping[str, Remote], word: str, rounds: int) -> dict[str, list[Any]]:
    """Send the request `word` to all systems in each round. Return the answers of each system by name.

    Each round starts with a different system. Before the first round, each system gets the request once, so that it
    compiles code and allocates memory. After the last round, all systems are closed.
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
    """In the child process, open a system and answer each line on standard input.

    Args:
        opening: Function that opens the system, and returns the function that answers a request.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    answer = opening()
    print(json.dumps("ready"), file=answers, flush=True)
    for word in map(str.strip, sys.stdin):
        print(json.dumps(answer(word)), file=answers, flush=True)
