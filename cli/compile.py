"""`zoo compile`: what a backend compiles, made ahead."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.generation.compilation import Compiled

EXAMPLES = (
    "zoo compile base --backend native\n\nzoo compile --model transformer-big-ende --backend aot --device cuda"
    "\n\nzoo compile tiny architecture.N=6 --backend onnx --json"
)


def command(
    spec: Annotated[
        str | None,
        typer.Argument(metavar="SPEC", show_default=False, help="A spec, with the weights of before training."),
    ] = None,
    overrides: options.Overrides = None,
    model: options.Model = None,
    backend: options.Backend = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    json: options.Json = False,
) -> None:
    """Build ahead what a backend compiles.

    It is kept in your data folder, named by its content, and every command that translates finds it there. What is
    there already is not built again. The program is run once, and compared with the interpreter in float32.
    """
    from cli.console import report, show_json

    _check(spec, model)

    from zoo.generation.compilation import BackendOptions, compile_model, compile_spec

    how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    if model is not None:
        found = compile_model(model, **how, report=report())
    else:
        import specs

        found = compile_spec(specs.load(str(spec), overrides or ()), **how, report=report())
    return show_json(asdict(found)) if json else _show(found)


def _check(spec: str | None, model: str | None) -> None:
    from specs import ZooError

    if (spec is None) == (model is None):
        problem = "SPEC and `--model` are both given" if model else "nothing says what is to be compiled"
        raise ZooError(problem, hint="say either SPEC, or `--model NAME|RUN` for trained weights")


def _show(found: Compiled) -> None:
    from zoo.report import size

    print(f"{found.name}: {found.backend}, {found.precision}, {found.device}; ready in {found.seconds:.1f} s")
    for each in found.kept:
        print(f"{each.folder}, {size(each.bytes)}{', was there already' if each.existed else ', made now'}")
    if not found.kept:
        print("nothing is kept: this backend compiles in every process anew, or not at all")
    for purpose, difference in found.disagreement.items():
        print(f"{purpose}: differs from the interpreter by {difference:.1g} of the largest value")
