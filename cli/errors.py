"""Convert exceptions to error messages and exit statuses. A message has a problem, a location and a hint."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer

from specs import ZooError, suggest
from specs.notation import quote
from zoo.entry_point import SIGNALLED

BROKEN_PIPE = SIGNALLED + signal.SIGPIPE
"""Exit status if another program has closed the pipe that stdout writes to, as in `zoo list | head -1`."""

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # typer does not export this class of click by name


def handle_errors(action: Callable[[], int | None], command: str = "zoo") -> int:
    """Run `action` and return the exit status. Print any error to stderr.

    Args:
        action: The function to run. It may return an exit status.
        command: The command to mention in hints, such as "zoo train".
    """
    try:
        status = action()
        sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # Python would print an error about the closed pipe at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)  # the terminal has printed ^C on the current line
        return SIGNALLED + signal.SIGINT
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        readable = to_zoo_error(error, command)
        print_error(readable)
        if _wants_traceback():
            traceback.print_exception(error)
        return readable.exit_code
    return status or 0


def print_error(error: ZooError) -> None:
    """Print an error and its additional errors to stderr."""
    text = "\n\n".join(f"error: {each.with_hint}" for each in (error, *error.additional))
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def to_zoo_error(error: Exception, command: str = "zoo") -> ZooError:
    """Convert any exception to a ZooError with a message that users can act on."""
    from zoo.system.memory import is_out_of_memory

    if isinstance(error, ZooError):
        return error
    if isinstance(error, _USAGE_ERROR):
        return _from_usage_error(error, command)
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        path = "" if error.filename is None else f"`{os.fsdecode(error.filename)}`: "
        return ZooError(f"{path}{reason}", exit_code=1)
    if is_out_of_memory(error):
        hint = (
            "when translating, lower `--max-batch-tokens`; when training, raise `training.accumulation_steps` or lower "
            "`training.source_tokens` and `training.target_tokens`"
        )
        return ZooError("not enough memory", hint=hint, exit_code=1)
    action = "report this error with the command and the traceback below"
    if not _wants_traceback():
        action = "set ZOO_TRACEBACK=1, run the command again, and report the traceback with the command"
    return ZooError(f"internal error in zoo: {type(error).__name__}: {error}", hint=action, exit_code=1)


def _from_usage_error(error: Any, command: str) -> ZooError:
    """Convert typer's error about an option or argument to a ZooError."""
    context = error.ctx
    hint = f"run `{command} --help` to list the options"
    kind, option = type(error).__name__, getattr(error, "option_name", None)
    known = [name for parameter in context.command.params for name in parameter.opts] if context else []
    if kind == "NoSuchOption":
        return ZooError(f"`{command}` has no option `{option}`", hint=suggest(str(option), known) + hint)
    parameter = getattr(error, "param", None)
    if parameter is None:
        if "extra argument" in error.message:
            if "=" in error.message:
                hint = f"the fields of a trained model cannot be changed; {hint}"
            elif "--input" in known:
                hint = f"text is read from stdin or from `--input FILE`; {hint}"
            elif "--model" in known:
                sentence = ", and put a sentence in quotation marks" if any(name[0] != "-" for name in known) else ""
                hint = f"select a model with `--model`{sentence}; {hint}"
        return ZooError(f"`{command}`: {_without_capital(error.format_message())}", hint=hint)
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[-1]
    if kind == "MissingParameter":
        return ZooError(f"`{command}` needs {name}", hint=hint)
    message = _without_capital(error.message)
    if limit := re.fullmatch(r"input should be (greater|less) than or equal to (\S+)", message):
        return ZooError(f"`{name}` must be at {'least' if limit[1] == 'greater' else 'most'} {limit[2]}", hint=hint)
    if valid := re.match("input should be a valid (integer|number)", message):
        given = str(error.__cause__.errors()[0]["input"])
        hint = f"write decimals with a point; {hint}" if "," in given else hint
        number = "whole number" if valid[1] == "integer" else "number"
        return ZooError(f"`{name}` must be a {number}, not {quote(given)}", hint=hint)
    if choice := re.search(r"['\"](.*)['\"] is not one of (.+)", message):
        listed = choice[2].replace("'", "`")
        return ZooError(f"`{name}` must be one of {listed}, not `{choice[1]}`", hint=hint)
    return ZooError(f"`{name}`: {message}", hint=hint)


def _without_capital(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _wants_traceback() -> bool:
    return os.environ.get("ZOO_TRACEBACK", "0") not in ("", "0")
