"""The command line, frozen: what scripts say today they can say tomorrow."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import specs
from cli import options
from cli.app import COMMANDS, GROUPS, app

ROOT = Path(__file__).parents[2]
_MODEL = ["--spec", "--model"]
_HOW = ["--device", "--precision", "--backend", "--tokens"]
FROZEN = {
    "list": ["PATTERN", "--published", "--json"],
    "show": ["SPEC", "KEY=VALUE", "--difference", "--json"],
    "plan": ["SPEC", "KEY=VALUE", "--passes", "--code", "--graph", "--length", "--json", "--device"],
    "schema": [],
    "prepare": ["SPEC", "KEY=VALUE"],
    "train": ["SPEC", "KEY=VALUE", "--run", "--fresh", "--device", "--verify-resume"],
    "average": ["RUN", "--last", "--search", "--json", "--device"],
    "sweep": ["SPEC|KEY=VALUE", "--seeds", "--jobs", "--folder", "--list", "--table", "--json", "--device"],
    "decode": [
        *(*_MODEL, "--input", "--prefix", "--output", "--search", "--beam", "--alpha", "--n-best"),
        *("--temperature", "--top-k", "--top-p", "--seed", "--json", *_HOW),
    ],
    "parse": [
        *(*_MODEL, "--input", "--output", "--pretty", "--svg", "--beam", "--alpha", "--n-best", "--unconstrained"),
        *("--json", *_HOW),
    ],
    "score": [*_MODEL, "--source", "--target", "--output", "--json", *_HOW],
    "evaluate": [
        *(*_MODEL, "--set", "--hypotheses", "--references", "--language", "--tokenize", "--lowercase"),
        *("--brackets", "--parameters", "--json", *_HOW),
    ],
    "attend": [
        *("SENTENCE", *_MODEL, "--target", "--figure", "--output", "--svg"),
        *("--attention", "--layer", "--head", "--word", *_HOW[:-1]),
    ],
    "compare": ["A", "B", "--set", "--references", "--language", "--json", *_HOW],
    "import": ["SOURCE", "--name", "--format", "--languages", "--positions", "--check", "--replace"],
    "publish": ["RUN|NAME", "--name", "--replace", "--to", "--formerly", "--text"],
    "export": ["NAME", "--to", "--output"],
    "verify": ["NAME|DIR", "--backend"],
    "pull": ["NAME"],
    "remove": ["NAME", "--yes"],
    "paper": ["TABLE", "--runs", "--html", "--measure", "--json"],
    "doctor": ["--json"],
    "clean": ["compiled|prepared|archives|pulls|runs|RUN", "--yes"],
    "compile": ["SPEC", "KEY=VALUE", "--model", "--backend", "--device", "--precision", "--json"],
    "benchmark decode": [
        *("SPEC", "KEY=VALUE", "--batch", "--sentences", "--rounds", "--json"),
        *("--device", "--backend", "--precision"),
    ],
    "benchmark train": ["SPEC", "KEY=VALUE", "--steps", "--rounds", "--json", "--device"],
}
GROUP = typer.main.get_command(app)


def parameters(name: str) -> list[str]:
    group, _, word = name.rpartition(" ")
    commands = GROUP.commands[group] if group else GROUP  # type: ignore[attr-defined]
    known = commands.commands[word].params
    return [parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0] for parameter in known]


def test_the_commands_and_their_options_are_these() -> None:
    assert {name: parameters(name) for name in COMMANDS} == FROZEN
    assert [parameter.opts for parameter in GROUP.params] == [
        ["--version"],
        ["--install-completion"],
        ["--show-completion"],
    ]


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
        called = [(" ".join(line[1:3]) if line[1] in GROUPS else line[1], line) for line in lines]
        assert name in [command for command, _ in called]
        for command, arguments in called:
            assert {argument for argument in arguments if argument.startswith("--")} <= set(FROZEN[command])


def test_help_is_shown_for_every_command_and_for_none(zoo: Callable[..., object]) -> None:
    commands = [*([*name.split(), "--help"] for name in COMMANDS), *([name] for name in GROUPS)]
    for arguments in ([], ["--help"], ["-h"], *commands):
        done = zoo(*arguments)
        assert done.status == 0  # type: ignore[attr-defined]
        assert "Usage: zoo" in done.out  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        *(("zoo ev", ["evaluate"]), ("zoo benchmark ", ["decode", "train"]), ("zoo decode --prec", ["--precision"])),
        *(
            ("zoo plan variants/", [name for name in specs.names() if name.startswith("variants/")]),
            ("zoo decode --spec bi", ["big", "big-enfr"]),
        ),
    ],
)
def test_a_shell_completes_commands_options_and_specs(typed: str, offered: list[str]) -> None:
    told = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1), "_ZOO_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "from cli.app import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **told}, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, offered, "")


def test_a_shell_that_completes_hears_of_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zoo.names", refused)
    assert options.published("ti") == []


def test_the_version(zoo: Callable[..., object]) -> None:
    assert re.fullmatch(r"zoo \d+\.\d+\.\d+\S*\n", zoo("--version").out)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["train", "--help"], ["benchmark"], ["list"], ["show", "tiny"], ["schema"], ["foo"]),
        *(["plan", "tiny"], ["plan", "tiny", "--passes"], ["plan", "tiny", "--graph", "/dev/null/x.svg"]),
    ],
)
def test_what_needs_no_torch_waits_for_none(arguments: list[str]) -> None:
    code = (
        "import sys; from cli.app import run; "
        f"run({arguments!r}); heavy = {{'torch', 'sentencepiece', 'sacrebleu'}} & sys.modules.keys(); "
        "print(heavy, file=sys.stderr); sys.exit(bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_translating_imports_no_compiler_of_torchs(zoo: Callable[..., object], trained: Callable[..., object]) -> None:
    """torch's inductor and dynamo take longer to import than a short text to translate."""
    trained("runs/tiny")
    code = (
        "import sys; from cli.app import run; status = run(['decode', '--model', 'tiny', '--device', 'cpu']); "
        "late = {'torch._inductor', 'torch._dynamo', 'sacrebleu', 'onnx', 'ctranslate2'} & sys.modules.keys(); "
        "print(late, file=sys.stderr); sys.exit(status or bool(late))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], input="we read\n", capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
