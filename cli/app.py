"""The `zoo` command. To add a command, write its function and add a line to COMMANDS."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, NamedTuple, cast

import typer

import zoo
from cli.console import prepare_standard_streams
from cli.errors import handle_errors
from cli.options import describe
from specs import ZooError, nearest


class Command(NamedTuple):
    """A command of `zoo`. Its module is imported only when the command is used."""

    module: str
    name: str
    """Name of the function that runs the command. Its docstring contains the help text, the options and examples."""
    heading: str
    """Heading under which `zoo --help` lists the command."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function that runs the command."""
        return cast("Callable[..., Any]", getattr(import_module(self.module), self.name))

    @property
    def docstring(self) -> tuple[str, str, str]:
        """The parts of the command's docstring: the help text, the `Options` section and the examples.

        Each paragraph of the help text is one line, because typer wraps it to the width of the terminal. The `Options`
        section is the input of `cli.options.describe`. Each example is a separate paragraph.
        """
        text, _, examples = (getdoc(self.function) or "").partition("\n\nExamples:\n")
        text, _, options = text.partition("\n\nOptions:\n")
        paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        return "\n\n".join(paragraphs), options, "\n\n".join(line.strip() for line in examples.splitlines())


_SPECS, _TRAINING, _USING = "Specs", "Training", "Translating and parsing"
_PUBLISHING, _PAPER, _MACHINE = "Publishing", "The paper", "This machine"
COMMANDS: dict[str, Command] = {
    "list": Command("cli.specification", "list_models", _SPECS),
    "show": Command("cli.specification", "show", _SPECS),
    "plan": Command("cli.specification", "plan", _SPECS),
    "schema": Command("cli.specification", "schema", _SPECS),
    "prepare": Command("cli.train", "prepare", _TRAINING),
    "train": Command("cli.train", "train", _TRAINING),
    "average": Command("cli.train", "average", _TRAINING),
    "shortlist": Command("cli.train", "shortlist", _TRAINING),
    "curves": Command("cli.attend", "curves", _TRAINING),
    "sweep": Command("cli.train", "sweep", _TRAINING),
    "decode": Command("cli.decode", "decode", _USING),
    "translate": Command("cli.translate", "translate", _USING),
    "transcribe": Command("cli.translate", "transcribe", _USING),
    "run": Command("cli.conversation", "run", _USING),
    "parse": Command("cli.decode", "parse", _USING),
    "score": Command("cli.score", "score", _USING),
    "align": Command("cli.score", "align", _USING),
    "evaluate": Command("cli.evaluate", "evaluate", _USING),
    "attend": Command("cli.attend", "attend", _USING),
    "compare": Command("cli.evaluate", "compare", _USING),
    "serve": Command("cli.serve", "serve", _USING),
    "import": Command("cli.publish", "import_model", _PUBLISHING),
    "publish": Command("cli.publish", "publish", _PUBLISHING),
    "verify": Command("cli.publish", "verify", _PUBLISHING),
    "pull": Command("cli.publish", "pull", _PUBLISHING),
    "remove": Command("cli.publish", "remove", _PUBLISHING),
    "export": Command("cli.publish", "export_model", _PUBLISHING),
    "paper": Command("cli.evaluate", "paper", _PAPER),
    "doctor": Command("cli.machine", "doctor", _MACHINE),
    "clean": Command("cli.publish", "clean", _MACHINE),
    "compile": Command("cli.machine", "compile_model", _MACHINE),
    "benchmark decode": Command("cli.machine", "benchmark_decode", _MACHINE),
    "benchmark train": Command("cli.machine", "benchmark_train", _MACHINE),
}
"""All commands by name. If a name has two words, the first word is a key of GROUPS."""
GROUPS = {"benchmark": "Measure how fast a spec translates or trains on this machine."}
_COMPLETION_VARIABLE = "_ZOO_COMPLETE"


def build_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Build the command-line application with the commands in `names`. By default, include all commands."""
    app = typer.Typer(
        help='Define, compile, train, evaluate and publish Transformers as described in "Attention Is All You Need".',
        epilog='Examples:\n\nzoo train tiny\n\necho "the old dog sees a small house" | zoo decode --spec tiny',
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    groups = {"": app}
    for name in names:
        command, (group, _, word) = COMMANDS[name], name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(rich_markup_mode="rich")
            app.add_typer(groups[group], name=group, help=GROUPS[group], rich_help_panel=command.heading)
        text, options, examples = command.docstring
        panel = None if group else command.heading
        register = groups[group].command(word, help=text, epilog=f"Examples:\n\n{examples}", rich_help_panel=panel)
        register(describe(command.function, options))
    return app


def _print_version(requested: bool) -> None:
    if requested:
        print(f"zoo {zoo.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Accept the options that precede a command, such as `zoo --version`."""


def run(arguments: Sequence[str]) -> int:
    """Run a `zoo` command.

    Args:
        arguments: The words that follow `zoo` on the command line, such as ["train", "tiny"].

    Returns:
        The exit status. If the command fails, the error is printed to stderr.
    """
    words = [argument for argument in arguments if not argument.startswith("-")]
    name = " ".join(words[: 2 if words[0] in GROUPS else 1]) if words else None
    return handle_errors(lambda: _invoke(arguments, name), f"zoo {name}" if name else "zoo")


def _invoke(arguments: Sequence[str], name: str | None) -> int | None:
    if name is not None and name not in COMMANDS and name not in GROUPS:
        near = nearest(name, COMMANDS)
        hint = f"did you mean `zoo {near}`?" if near else f"the commands are {', '.join(COMMANDS)}"
        raise ZooError(f"`{name}` is not a zoo command", hint=hint)
    needs_help = not arguments or (list(arguments) == [name] and name in GROUPS)
    # Register only the commands that are needed: importing all commands takes longer than some commands run.
    is_first = name is not None and arguments[0] == name.split()[0]
    needed = [each for each in COMMANDS if not is_first or f"{each} ".startswith(f"{name} ")]
    command = typer.main.get_command(build_app(needed))
    with command.make_context("zoo", [*arguments, *(["--help"] if needs_help else [])]) as context:
        status: int | None = command.invoke(context)
    return status


def main() -> int:
    """Run the command in `sys.argv`, and return its exit status."""
    prepare_standard_streams()
    if _COMPLETION_VARIABLE in os.environ:
        typer.main.get_command(build_app()).main(prog_name="zoo")
    return run(sys.argv[1:])
