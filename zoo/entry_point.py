"""Entry point of the `zoo` command. It checks that Python imports zoo's own packages `specs` and `compiler`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

SIGNALLED = 128
"""Offset of exit statuses after a signal: the status is this offset plus the number of the signal."""
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


def main() -> None:
    """Run the command-line interface. Both `zoo` and `python -m zoo` call this function.

    On Ctrl-C, the process is terminated by SIGINT, so that the shell also stops a loop or script that runs the command.
    After SIGTERM, or if SIGHUP has stopped training, the process is terminated by this signal, which job schedulers
    expect.
    """
    last_actions = ExitStack()
    atexit.register(last_actions.close)  # runs after all functions that are registered later
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is default:  # background jobs of a shell may ignore SIGINT
            signal.signal(number, _stop)
    try:
        require_own_packages("specs", "compiler", "cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        status: int = import_module("cli.app").main()
    except KeyboardInterrupt:  # raised before or after the command, which handles Ctrl-C itself
        print("\ninterrupted", file=sys.stderr)
        status = SIGNALLED + signal.SIGINT
    except _Terminated:
        print("terminated", file=sys.stderr)
        status = SIGNALLED + signal.SIGTERM
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)  # while Python exits, it would ignore an exception
    if (ended_by := status - SIGNALLED) in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        last_actions.callback(signal.raise_signal, ended_by)
        last_actions.callback(sys.stdout.flush)  # before the signal, which would discard buffered output
    sys.exit(status)


class _Terminated(SystemExit):
    """Exception that ends the process after SIGTERM, as KeyboardInterrupt does after SIGINT: `with` blocks clean up."""


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt for SIGINT, and `_Terminated` for SIGTERM. During an import, end the process immediately.

    Packages may ignore exceptions while they are imported: numpy and torch probe for optional modules, and extension
    modules ignore errors in callbacks. Ending the process loses no data, because files are written atomically.
    """
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            os.write(2, b"\ninterrupted\n" if number == signal.SIGINT else b"terminated\n")
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        frame = frame.f_back
    raise KeyboardInterrupt if number == signal.SIGINT else _Terminated(SIGNALLED + number)


def require_own_packages(*names: str) -> None:
    """Check that Python finds these packages in the folder that contains `zoo`. Raise ImportError otherwise."""
    root = Path(__file__).resolve().parents[1]
    for name in names:
        found = find_spec(name)
        origin = found.origin if found else None
        if origin is None or Path(origin).resolve().parents[1] != root:
            actual = f"Python finds `{origin}`" if origin else "Python does not find it"
            raise ImportError(
                f"zoo needs its package `{name}` in `{root}`, but {actual}\n\n"
                "hint: start Python in another folder, rename the other package, or remove it from PYTHONPATH",
                name=name,
            )
