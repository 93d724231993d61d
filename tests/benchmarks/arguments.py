"""Command-line arguments that the benchmark scripts share.

With `--toy`, a script runs small models for a few seconds, to test itself. The measured values are then meaningless.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence

import specs
from specs import Spec
from tests.benchmarks.gpu_parts.setting import TOY

TOY_HELP = "run small models for a few seconds, to test this script"
TOY_SENTENCES = 60
TOY_OVERRIDES = [f"{name}={json.dumps(fields)}" for name, fields in TOY.items() if isinstance(fields, dict)]
TOY_OVERRIDES += ["training.cooldown_steps=null"]


def create_parser(
    description: str | None, reference: str = "spec", default: str | None = None
) -> argparse.ArgumentParser:
    """Return a parser for the command line `SPEC [KEY=VALUE ...] [--toy]`.

    Args:
        description: The docstring of the script, which `--help` prints.
        reference: The name of the first argument, such as `spec` or `model`.
        default: The default of the first argument. If it is None, the argument is required.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(reference, nargs="?" if default else None, default=default, metavar=reference.upper())
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="values of spec fields")
    parser.add_argument("--toy", action="store_true", help=TOY_HELP)
    return parser


def parse_translation(parser: argparse.ArgumentParser, *, batch: int, beam: int | None = None) -> argparse.Namespace:
    """Parse the command line of a script that translates with one worker.

    Args:
        parser: The parser, to which the options are added.
        batch: The default of `--batch`.
        beam: The default of `--beam`.
    """
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--batch", type=int, default=batch, help="approximate batch size in sentences")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=beam)
    given = parser.parse_intermixed_args()
    given.sentences = min(given.sentences, TOY_SENTENCES) if given.toy else given.sentences
    return given


def parse_comparison(parser: argparse.ArgumentParser, systems: Iterable[str]) -> argparse.Namespace:
    """Parse the command line of a script that compares systems. By default, the script compares all `systems`."""
    every = ",".join(systems)
    parser.add_argument("--systems", default=every, help=f"systems to compare (default: {every})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    given.systems, given.rounds = given.systems.split(","), 1 if given.toy else given.rounds
    return given


def child_command(script: str, given: argparse.Namespace, *options: str) -> list[str]:
    """Return the Python arguments that start a child process of a script. The caller appends the system's name."""
    toy = ["--toy"] if given.toy else []
    return ["-m", f"tests.benchmarks.{script}", given.spec, *given.overrides, *toy, *options, "--child"]


def load_spec(reference: str, overrides: Sequence[str], *, toy: bool) -> Spec:
    """Load a spec with overrides. If `toy` is true, make the model small."""
    return specs.load(reference, [*overrides, *(TOY_OVERRIDES if toy else ())])
