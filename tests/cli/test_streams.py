"""Standard streams that are closed or full, and file names that are not UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forks
from tests.paths import ROOT
from zoo.training.run import Run

pytestmark = pytest.mark.integration

NOT_UTF8 = os.fsdecode(b"a\xffb")


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script in which `zoo` is the program and "$@" are the arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    script = f'zoo() {{ "$PYTHON" -m zoo "$@"; }}; {script}'
    return subprocess.run(["sh", "-c", script, "sh", *arguments], capture_output=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("script", "status", "error"),
    [
        ("zoo schema >&-", 2, "error: standard output is closed\n\nhint: "),
        ("zoo schema 2>&-", 0, ""),
        ("zoo foo <&- >&- 2>&-", 2, ""),
        ("zoo schema >/dev/full", 1, "error: No space left on device\n"),
    ],
)
def test_closed_and_full_streams(script: str, status: int, error: str) -> None:
    process = shell(script)
    assert process.returncode == status
    assert process.stderr.decode().startswith(error)
    assert "internal error" not in process.stderr.decode()


def test_closed_input_is_an_error_only_if_it_is_read(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    decode = ("decode", "--model", "tiny", "--device", "cpu")
    process = forks.run(f"import os, sys; os.close(0); sys.stdin = None; {forks.COMMAND}", *decode)
    assert (process.wait(), process.stdout) == (2, "")
    assert "error: standard input is closed\n\nhint: redirect it" in process.stderr
    assert shell("zoo show tiny <&-").returncode == 0


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    code = (
        "from cli.console import prepare_standard_streams; prepare_standard_streams(); "
        "import os; print(os.open('/dev/null', os.O_RDONLY))"
    )
    assert int(shell(f'"$PYTHON" -c "{code}" <&- 2>&-').stdout) > 2


def test_names_that_are_not_utf8_give_ordinary_errors() -> None:
    name = NOT_UTF8
    commands = [[name], ["show", name], ["show", f"{name}.yaml"], ["show", "tiny", f"--{name}"]]
    commands += [["show", "tiny", f"{name}=3"], ["plan", "tiny", "--length", name], ["verify", name]]
    commands += [["average", name], ["publish", name], ["decode", "--spec", name], ["decode", "--model", name]]
    commands += [["evaluate", "--hypotheses", name, "--references", name], ["train", "tiny", "--run", name]]
    commands += [["decode", "--spec", "tiny", "--input", name]]
    code = (
        "import os; from cli import app, console; console.prepare_standard_streams(); "
        f"print([app.run(words) for words in {commands!a}]); "
        f"os.environ['ZOO_HOME'] = {name!a}; print(app.run(['prepare', 'tiny']))"
    )
    process = forks.run(code)
    messages = process.stderr  # valid UTF-8
    assert process.stdout == f"{[2] * len(commands)}\n2\n", messages
    assert messages.count("error: ") == len(commands) + 1
    assert "a\\xffb" in messages
    assert "Traceback" not in messages
    assert "internal error" not in messages


def test_paths_are_printed_to_stdout_byte_by_byte(trained: Callable[..., Run]) -> None:
    trained(f"runs/{NOT_UTF8}")
    commands = [["list"], ["list", "--json"], ["plan", "tiny", "--graph", f"{NOT_UTF8}.svg"]]
    code = (
        "from cli import app, console; console.prepare_standard_streams(); "
        f"[(app.run(words), print(end='\\0')) for words in {commands!a}]"
    )
    table, values, drawn, _ = shell('"$PYTHON" -c "$1"', code).stdout.split(b"\0")
    assert b"runs/a\xffb " in table
    assert [run["folder"] for run in json.loads(values)["runs"]] == [f"runs/{NOT_UTF8}"]
    assert drawn == b"a\xffb.svg\n"
    assert Path(f"{NOT_UTF8}.svg").is_file()
