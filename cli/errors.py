"""The one handler of errors: what is wrong, where it was written, a blank line, the remedy."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer

from specs import ZooError, nearest

INTERRUPTED = 130
UNREAD = 141
"""Whoever read our output has gone: the status of a program that SIGPIPE ended, as `yes | head -1` has it."""

_USAGE: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports its errors of usage by this one alone
_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


def handled(action: Callable[[], int | None], command: str = "zoo") -> int:
    """Does `action`, for `command`, and returns the exit status; an error is told on stderr, in the one grammar."""
    try:
        status = action()
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return UNREAD
    except KeyboardInterrupt:
        # A line of its own, after the ^C that the terminal shows.
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        told = explained(error, command)
        tell(told)
        if _traced():
            traceback.print_exception(error)
        return told.exit_code
    return status or 0


def tell(error: ZooError) -> None:
    """Writes an error to stderr, and those that came with it."""
    told = "\n\n".join(f"error: {each.alone}" for each in (error, *error.additional))
    with suppress(OSError):
        print(told, file=sys.stderr, flush=True)


def explained(error: Exception, command: str = "zoo") -> ZooError:
    """Any error as one that a person can act upon."""
    if isinstance(error, ZooError):
        return error
    if isinstance(error, _USAGE):
        return _usage(error, command)
    if isinstance(error, OSError):
        return _system(error)
    if isinstance(error, MemoryError) or _is_out_of_memory(error):
        hint = "a smaller `--tokens` takes less when translating; fewer tokens a step, or more `training.accumulation_steps`"
        return ZooError("the memory does not suffice", hint=f"{hint}, when training", exit_code=1)
    where = "set ZOO_TRACEBACK=1 to see where" if not _traced() else "the lines below say where"
    problem = f"this is a fault of zoo: {type(error).__name__}: {error}"
    return ZooError(problem, hint=f"{where}, and please report it with the command", exit_code=1)


def unknown_command(word: str, commands: list[str]) -> ZooError:
    """For a word that is no command."""
    near = nearest(word, commands)
    hint = f"did you mean `zoo {near}`?" if near else f"the commands are {', '.join(commands)}"
    return ZooError(f"`{word}` is not a command of zoo", hint=hint)


def _usage(error: Any, command: str) -> ZooError:
    """What typer has to say of options and arguments, in our grammar."""
    context = error.ctx
    hint = f"`{command} --help` shows how it is used"
    kind, option = type(error).__name__, getattr(error, "option_name", None)
    if kind == "NoSuchOption":
        known = [name for each in context.command.params for name in each.opts] if context else []
        near = nearest(str(option), known)
        guess = f"did you mean `{near}`? " if near else ""
        return ZooError(f"`{command}` has no option `{option}`", hint=guess + hint)
    if kind == "BadOptionUsage":
        several = re.search(r"requires (\d+) arguments", error.message)
        needs = f"needs {several[1]} values" if several else "needs a value"
        wants = "takes no value" if "not take" in error.message else needs
        return ZooError(f"`{option}` {wants}", hint=hint)
    parameter = getattr(error, "param", None)
    if parameter is None and "extra argument" in error.message and "=" in error.message:
        hint = f"a model has the fields that it was trained with; {hint}, and what may be chosen"
    if parameter is None:
        return ZooError(f"`{command}`: {_lowered(error.format_message())}", hint=hint)
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[-1]
    if kind == "MissingParameter":
        return ZooError(f"`{command}` needs {name}", hint=hint)
    return ZooError(f"`{name}`: {_lowered(error.message)}", hint=hint)


def _lowered(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _system(error: OSError) -> ZooError:
    reason = error.strerror or str(error) or type(error).__name__
    problem = f"`{os.fsdecode(error.filename)}`: {reason}" if error.filename is not None else reason
    return ZooError(problem, exit_code=1)


def _is_out_of_memory(error: Exception) -> bool:
    """torch's own, known without torch."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _MEMORY)


def _traced() -> bool:
    return os.environ.get("ZOO_TRACEBACK", "0") not in ("", "0")


def _forget_stdout() -> None:
    """So that Python does not complain at its end about what nobody has read."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
