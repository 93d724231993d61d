"""The command line, frozen: what scripts say today they can say tomorrow."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from cli.app import COMMANDS, app

ROOT = Path(__file__).parents[2]
_MODEL = ["--spec", "--model"]
_HOW = ["--device", "--precision", "--tokens"]
FROZEN = {
    "list": ["PATTERN", "--json"],
    "show": ["SPEC", "KEY=VALUE", "--difference", "--json"],
    "plan": ["SPEC", "KEY=VALUE", "--code", "--length", "--json"],
    "schema": [],
    "prepare": ["SPEC", "KEY=VALUE"],
    "train": ["SPEC", "KEY=VALUE", "--run", "--fresh", "--device"],
    "average": ["RUN", "--last"],
    "decode": [*_MODEL, "--input", "--output", "--beam", "--alpha", "--n-best", "--json", *_HOW],
    "score": [*_MODEL, "--source", "--target", "--output", "--json", *_HOW],
    "evaluate": [
        *(*_MODEL, "--set", "--hypotheses", "--references", "--tokenize", "--lowercase", "--json"),
        *_HOW,
    ],
    "publish": ["RUN", "--name"],
    "verify": ["NAME"],
}
GROUP = typer.main.get_command(app)


def parameters(name: str) -> list[str]:
    known = GROUP.commands[name].params  # type: ignore[attr-defined]
    return [parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0] for parameter in known]


def test_the_commands_and_their_options_are_these() -> None:
    assert {name: parameters(name) for name in COMMANDS} == FROZEN
    assert [parameter.opts for parameter in GROUP.params] == [["--version"]]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_line_of_help_and_examples(name: str) -> None:
    module, _ = COMMANDS[name]
    first = (module.command.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert len(first) <= 66, "the help of zoo shows it on one line"
    assert module.EXAMPLES.strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_with_its_options(name: str) -> None:
    module, _ = COMMANDS[name]
    for example in module.EXAMPLES.split("\n\n"):
        words = [re.split(r"\s*(?:[<>]|\|)\s*", part)[0] for part in re.findall(r"\bzoo [a-z].*", example)]
        assert words, example
        lines = [shlex.split(line) for word in words for line in word.split(" && ")]
        assert name in [command for _, command, *_ in lines]
        for _, command, *arguments in lines:
            assert {argument for argument in arguments if argument.startswith("--")} <= set(FROZEN[command])


def test_help_is_shown_for_every_command_and_for_none(zoo: Callable[..., object]) -> None:
    for arguments in ([], ["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)):
        done = zoo(*arguments)
        assert done.status == 0  # type: ignore[attr-defined]
        assert "Usage: zoo" in done.out  # type: ignore[attr-defined]


def test_the_version(zoo: Callable[..., object]) -> None:
    assert re.fullmatch(r"zoo \d+\.\d+\.\d+\S*\n", zoo("--version").out)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["list"], ["show", "tiny"], ["plan", "tiny"], ["schema"], ["foo"]]
)
def test_what_needs_no_torch_waits_for_none(arguments: list[str]) -> None:
    code = (
        "import sys; from cli.app import run; "
        f"run({arguments!r}); heavy = {{'torch', 'sentencepiece', 'sacrebleu'}} & sys.modules.keys(); "
        "print(heavy, file=sys.stderr); sys.exit(bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
