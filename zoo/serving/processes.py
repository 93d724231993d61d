"""Worker processes with time and memory limits, for tasks that hostile input can make slow or memory-hungry.

Python cannot end a thread, but it can end a process at any time. This module imports no web framework, so that the
processes start fast.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import resource
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from specs import ZooError
from zoo.system.memory import memory_limit

MAX_BYTES = 600_000_000
"""Maximum memory that a call may allocate, in bytes."""
_MAX_IDLE_BYTES = 150_000_000
"""Maximum memory of an idle process, in bytes. A process that uses more memory ends after the call."""
_SIZES = Path("/proc/self/statm")
_T = TypeVar("_T")


class Processes:
    """Pool of worker processes, which start when they are needed. Call all methods from the event loop's thread."""

    def __init__(self, number: int) -> None:
        self._idle: list[_Process] = []
        self._started: set[_Process] = set()
        self._free, self._closed = asyncio.Semaphore(number), False
        self._threads = ThreadPoolExecutor(number, "process")
        atexit.register(self.close)

    async def run(self, seconds: float, function: Callable[..., _T], *arguments: object) -> _T:
        """Call a function in a process. Kill the process if it takes too long, or if this task is cancelled.

        Args:
            seconds: Time limit, not counting the wait for a free process.
            function: A module-level function.
            *arguments: Arguments for the function.

        Raises:
            ZooError: The function raised a ZooError.
            TimeoutError: The function takes longer than `seconds`.
            MemoryError: The function needs more memory than MAX_BYTES, or its process was killed.
            OSError: No process can be started, or the pool is closed.
        """
        async with self._free:
            if self._closed:
                raise OSError("the pool of processes is closed")
            while self._idle and not self._idle[-1].is_alive():
                self._started.discard(self._idle.pop())
            process, keep = self._idle.pop() if self._idle else _Process(), False
            self._started.add(process)
            call = partial(process.call, seconds, function, arguments)
            try:
                async with asyncio.timeout(seconds):
                    value, error, keep = await asyncio.get_running_loop().run_in_executor(self._threads, call)
            finally:
                if keep and not self._closed:
                    self._idle.append(process)
                else:
                    self._started.discard(process)
                    process.kill()
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Kill all processes, including processes that are in use."""
        self._closed = True
        while self._started:
            self._started.pop().kill()
        self._idle.clear()


class _Process:
    def __init__(self) -> None:
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def is_alive(self) -> bool:
        """Return whether the process is still running. The operating system or a user can kill it at any time."""
        return self._process.is_alive()

    def call(self, *call: object) -> tuple[Any, Exception | None, bool]:
        """Call a function in the process. `call` contains the time limit in seconds, the function, and its arguments.

        Returns:
            The return value, the exception or None, and whether the process can be used again.
        """
        try:
            self._connection.send(call)
            return self._connection.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            raise MemoryError from None

    def kill(self) -> None:
        """Kill the process without waiting for it to exit. `call` then raises MemoryError in any waiting thread."""
        self._process.kill()


def _work(connection: Connection) -> None:
    """Run in a worker process: make the calls that the server sends, until the server stops or a call fails."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the server handles signals and kills this process
        signal.signal(number, signal.SIG_IGN)
    keep = True
    while keep:
        try:
            seconds, function, arguments = connection.recv()
        except EOFError:
            return
        signal.alarm(math.ceil(seconds) + 1)  # ends this process even if the server was killed
        value, error = None, None
        try:
            with memory_limit(MAX_BYTES):
                value = function(*arguments)
        except Exception as raised:
            keep, error = isinstance(raised, ZooError), raised
            if not isinstance(raised, ZooError | MemoryError):
                error = RuntimeError(type(raised).__name__)  # the message may contain the client's text
                traceback.print_tb(raised.__traceback__)
        with suppress(OSError):  # the file exists only on Linux
            keep &= int(_SIZES.read_text().split()[1]) * resource.getpagesize() < _MAX_IDLE_BYTES
        connection.send((value, error, keep))
        signal.alarm(0)
