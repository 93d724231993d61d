"""Run Python code in a new process that is forked from a process with torch, because importing torch takes seconds."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "zoo.generation.loading"])
COMMAND = "import sys; from zoo.__main__ import main; sys.exit(main())"
"""Code that runs the `zoo` command with the arguments of the process."""


class Fork:
    """A process that runs Python code. It shares no file, thread or setting with the process of the tests."""

    def __init__(
        self, code: str, *arguments: str, environment: Mapping[str, str] | None = None, stdin: str = os.devnull
    ) -> None:
        self._output = Path(tempfile.mkdtemp(prefix="fork-", dir=Path.cwd().parent))
        for number in "12":
            (self._output / number).touch()
        given = (code, arguments, dict(environment or os.environ), os.getcwd(), stdin, self._output)
        self.process = _CONTEXT.Process(target=_execute, args=given, daemon=True)
        self.process.start()

    def wait(self, seconds: float = 200) -> int:
        """Wait for the end of the process, and return its exit status."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"the process does not end: {self.stderr}"
        return self.process.exitcode

    @property
    def stdout(self) -> str:
        """The output of the process so far."""
        return (self._output / "1").read_text("utf-8")

    @property
    def stderr(self) -> str:
        """The errors and messages of the process so far."""
        return (self._output / "2").read_text("utf-8")

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


def run(code: str, *arguments: str, environment: Mapping[str, str] | None = None, stdin: str = os.devnull) -> Fork:
    """Run code until it ends. `stdin` is the file that the process reads as its standard input."""
    fork = Fork(code, *arguments, environment=environment, stdin=stdin)
    fork.wait()
    return fork


def _execute(
    code: str, arguments: tuple[str, ...], environment: dict[str, str], folder: str, stdin: str, output: Path
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate((stdin, output / "1", output / "2")):
        descriptor = os.open(file, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (multiprocessing has closed its own)
    sys.argv[:] = ["-c", *arguments]
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(compile(code, "<code>", "exec"), main.__dict__)
