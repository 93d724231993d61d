"""The command `zoo`. To add a command, write its function and add a line to COMMANDS."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import Annotated, Any, NamedTuple

import typer

import zoo
from cli import (
    align,
    attend,
    benchmark,
    conversation,
    curves,
    decode,
    evaluate,
    interop,
    machine,
    paper,
    plan,
    publish,
    removal,
    score,
    search,
    serve,
    specification,
    streams,
    sweep,
    train,
    translate,
    watch,
)
from cli.errors import handle_errors, unknown_command


class Command(NamedTuple):
    """Command of zoo. The docstring of its function is the help text, and `examples` are printed after it."""

    function: Callable[..., Any]
    examples: str
    heading: str
    """Heading under which `zoo --help` lists the command."""


_SPECS, _TRAINING, _USING = "Specs", "Training", "Translating and parsing"
_PUBLISHING, _PAPER, _MACHINE = "Publishing", "The paper", "This machine"
COMMANDS: dict[str, Command] = {
    "list": Command(specification.list_models, specification.LIST_EXAMPLES, _SPECS),
    "show": Command(specification.show, specification.SHOW_EXAMPLES, _SPECS),
    "plan": Command(plan.plan, plan.EXAMPLES, _SPECS),
    "schema": Command(specification.schema, specification.SCHEMA_EXAMPLES, _SPECS),
    "prepare": Command(train.prepare, train.PREPARE_EXAMPLES, _TRAINING),
    "train": Command(train.train, train.TRAIN_EXAMPLES, _TRAINING),
    "average": Command(train.average, train.AVERAGE_EXAMPLES, _TRAINING),
    "shortlist": Command(train.shortlist, train.SHORTLIST_EXAMPLES, _TRAINING),
    "watch": Command(watch.watch, watch.EXAMPLES, _TRAINING),
    "curves": Command(curves.curves, curves.EXAMPLES, _TRAINING),
    "sweep": Command(sweep.sweep, sweep.EXAMPLES, _TRAINING),
    "decode": Command(decode.decode, decode.DECODE_EXAMPLES, _USING),
    "translate": Command(translate.translate, translate.EXAMPLES, _USING),
    "run": Command(conversation.run, conversation.EXAMPLES, _USING),
    "parse": Command(decode.parse, decode.PARSE_EXAMPLES, _USING),
    "score": Command(score.score, score.EXAMPLES, _USING),
    "align": Command(align.align, align.EXAMPLES, _USING),
    "evaluate": Command(evaluate.evaluate, evaluate.EVALUATE_EXAMPLES, _USING),
    "attend": Command(attend.attend, attend.EXAMPLES, _USING),
    "search": Command(search.search, search.EXAMPLES, _USING),
    "compare": Command(evaluate.compare, evaluate.COMPARE_EXAMPLES, _USING),
    "serve": Command(serve.serve, serve.EXAMPLES, _USING),
    "import": Command(interop.import_model, interop.IMPORT_EXAMPLES, _PUBLISHING),
    "publish": Command(publish.publish, publish.PUBLISH_EXAMPLES, _PUBLISHING),
    "verify": Command(publish.verify, publish.VERIFY_EXAMPLES, _PUBLISHING),
    "pull": Command(publish.pull, publish.PULL_EXAMPLES, _PUBLISHING),
    "remove": Command(removal.remove, removal.REMOVE_EXAMPLES, _PUBLISHING),
    "export": Command(interop.export_model, interop.EXPORT_EXAMPLES, _PUBLISHING),
    "paper": Command(paper.paper, paper.EXAMPLES, _PAPER),
    "doctor": Command(machine.doctor, machine.DOCTOR_EXAMPLES, _MACHINE),
    "clean": Command(removal.clean, removal.CLEAN_EXAMPLES, _MACHINE),
    "compile": Command(machine.compile_model, machine.COMPILE_EXAMPLES, _MACHINE),
    "benchmark decode": Command(benchmark.decode, benchmark.DECODE_EXAMPLES, _MACHINE),
    "benchmark train": Command(benchmark.train, benchmark.TRAIN_EXAMPLES, _MACHINE),
}
"""All commands by name. If a name has two words, the first one is a key of GROUPS."""
GROUPS = {"benchmark": "Measure how fast a spec translates or trains on this machine."}
_COMPLETION_VARIABLE = "_ZOO_COMPLETE"

app = typer.Typer(
    help='The Transformers of "Attention Is All You Need": declare, compile, train, evaluate and publish them.',
    epilog='zoo train tiny\n\necho "the old dog sees a small house" | zoo decode --spec tiny',
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"zoo {zoo.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Accept the options that precede a command, such as `zoo --version`."""


def _help_text(function: Callable[..., object]) -> str:
    """Return a function's docstring with one line per paragraph; typer wraps the lines to the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (getdoc(function) or "").split("\n\n"))


def _register_commands() -> None:
    groups = {"": app}
    for name, command in COMMANDS.items():
        group, _, word = name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(rich_markup_mode="rich")
            app.add_typer(groups[group], name=group, help=GROUPS[group], rich_help_panel=command.heading)
        register = groups[group].command(
            word,
            help=_help_text(command.function),
            epilog=command.examples,
            rich_help_panel=None if group else command.heading,
        )
        register(command.function)


_register_commands()


def run(arguments: Sequence[str]) -> int:
    """Run a command line.

    Args:
        arguments: The words after `zoo`.

    Returns:
        The exit status. If the command failed, its error has been printed to stderr.
    """
    words = [argument for argument in arguments if not argument.startswith("-")]
    name = " ".join(words[: 2 if words[0] in GROUPS else 1]) if words else None
    return handle_errors(lambda: _invoke(arguments, name), f"zoo {name}" if name else "zoo")


def _invoke(arguments: Sequence[str], name: str | None) -> int | None:
    if name is not None and name not in COMMANDS and name not in GROUPS:
        raise unknown_command(name, list(COMMANDS))
    needs_help = not arguments or (list(arguments) == [name] and name in GROUPS)
    command = typer.main.get_command(app)
    with command.make_context("zoo", [*arguments, *(["--help"] if needs_help else [])]) as context:
        status: int | None = command.invoke(context)
    return status


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    streams.prepare_standard_streams()
    if _COMPLETION_VARIABLE in os.environ:
        typer.main.get_command(app).main(prog_name="zoo")
    return run(sys.argv[1:])
