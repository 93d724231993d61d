"""Ctrl-C at random moments while a command starts: the process always ends by the signal, and nothing is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from zoo.training.run import Run

INTERRUPTS = 170
"""Number of interrupts of each command."""
PROGRAM = "print('started', flush=True)\nfrom zoo.entry_point import main\nmain()"
"""The command. Before it starts, Python itself can end in another way."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "transformer-tiny-ende"),
        ("decode", "--model", "transformer-tiny-ende", "--beam", "1"),
        ("train", "tiny", "training.steps=1000000", "--run", "runs/other"),
    ],
    ids=["verify", "decode", "train"],
)
def test_an_interrupt_at_any_moment_of_the_start_ends_the_process(
    trained: Callable[..., Run], zoo: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    trained()
    assert zoo("publish", "tiny").status == 0
    draw = random.Random(2611)
    interrupted = 0
    longest = 4.0  # seconds: torch is loaded by then on every processor
    while interrupted < INTERRUPTS:
        delay = draw.uniform(0, longest)
        status, messages = interrupt_after(delay, arguments)
        if status is None:
            longest *= 0.95
            continue
        assert status == -signal.SIGINT, (delay, messages)
        assert "internal error" not in messages, (delay, messages)
        interrupted += 1
    assert zoo("verify", "transformer-tiny-ende").status == 0


def interrupt_after(seconds: float, arguments: tuple[str, ...]) -> tuple[int | None, str]:
    """Start a command and interrupt it after some seconds.

    Returns:
        The exit status and the messages. The status is None if the command had ended before, as `verify` may.
    """
    command = [sys.executable, "-c", PROGRAM, *arguments]
    pipe = subprocess.PIPE  # stdin stays open: `decode` waits for a line
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(seconds)
        running = process.poll() is None
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    return process.returncode if running else None, messages
