"""The command `zoo`. To add one of its commands: a file beside this one, and its line here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from inspect import getdoc
from types import ModuleType
from typing import Annotated

import typer

import zoo
from cli import (
    attend,
    average,
    benchmark_decode,
    benchmark_train,
    clean,
    compare,
    decode,
    doctor,
    evaluate,
    export,
    import_,
    paper,
    parse,
    plan,
    prepare,
    publish,
    pull,
    remove,
    schema,
    score,
    show,
    streams,
    sweep,
    train,
    verify,
)
from cli import compile as compile_
from cli import list as list_
from cli.errors import handled, unknown_command

COMMANDS: dict[str, tuple[ModuleType, str]] = {
    "list": (list_, "Specs"),
    "show": (show, "Specs"),
    "plan": (plan, "Specs"),
    "schema": (schema, "Specs"),
    "prepare": (prepare, "Training"),
    "train": (train, "Training"),
    "average": (average, "Training"),
    "sweep": (sweep, "Training"),
    "decode": (decode, "Translating and parsing"),
    "parse": (parse, "Translating and parsing"),
    "score": (score, "Translating and parsing"),
    "evaluate": (evaluate, "Translating and parsing"),
    "attend": (attend, "Translating and parsing"),
    "compare": (compare, "Translating and parsing"),
    "import": (import_, "Publishing"),
    "publish": (publish, "Publishing"),
    "verify": (verify, "Publishing"),
    "pull": (pull, "Publishing"),
    "remove": (remove, "Publishing"),
    "export": (export, "Publishing"),
    "paper": (paper, "The paper"),
    "doctor": (doctor, "This machine"),
    "clean": (clean, "This machine"),
    "compile": (compile_, "This machine"),
    "benchmark decode": (benchmark_decode, "This machine"),
    "benchmark train": (benchmark_train, "This machine"),
}
"""Each with the heading it stands under in the help; one of two words belongs to the group of its first."""
_COMPLETES = "_ZOO_COMPLETE"
GROUPS = {"benchmark": "How fast this machine is."}

app = typer.Typer(
    help='The Transformers of "Attention Is All You Need": declared, compiled, trained, published.',
    epilog='zoo train tiny\n\necho "the old dog sees a small house" | zoo decode --spec tiny',
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"zoo {zoo.__version__}")
        raise typer.Exit


def _text(command: Callable[..., object]) -> str:
    """What a command says of itself, a line to each paragraph: the terminal folds them."""
    return "\n\n".join(" ".join(part.split()) for part in (getdoc(command) or "").split("\n\n"))


@app.callback()
def _zoo(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version, and end.")
    ] = False,
) -> None:
    """Every command has --help."""


def _register() -> None:
    groups = {"": app}
    for name, (module, heading) in COMMANDS.items():
        group, _, word = name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(rich_markup_mode="rich")
            app.add_typer(groups[group], name=group, help=GROUPS[group], rich_help_panel=heading)
        told = {"help": _text(module.command), "epilog": module.EXAMPLES, "rich_help_panel": None if group else heading}
        groups[group].command(word, **told)(module.command)


_register()


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit status; an error is told on stderr."""
    words = [argument for argument in arguments if not argument.startswith("-")]
    name = " ".join(words[: 2 if words[0] in GROUPS else 1]) if words else None
    return handled(lambda: _invoked(arguments, name), f"zoo {name}" if name else "zoo")


def _invoked(arguments: Sequence[str], name: str | None) -> int | None:
    if name is not None and name not in COMMANDS and name not in GROUPS:
        raise unknown_command(name, list(COMMANDS))
    alone = not arguments or (list(arguments) == [name] and name in GROUPS)
    command = typer.main.get_command(app)
    with command.make_context("zoo", [*arguments, *(["--help"] if alone else [])]) as context:
        status: int | None = command.invoke(context)
    return status


def main() -> None:
    """The entry point."""
    streams.prepared()
    if _COMPLETES in os.environ:  # a shell asks what may follow
        typer.main.get_command(app).main(prog_name="zoo")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
