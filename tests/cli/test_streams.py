"""Standard streams that are closed or full, and file names that are not UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks
from tests.conftest import Trained, missing
from tests.paths import ROOT

pytestmark = pytest.mark.integration

NOT_UTF8 = os.fsdecode(b"a\xffb")


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script in which `zoo` is the program and "$@" are the arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    script = f'zoo() {{ "$PYTHON" -m zoo "$@"; }}; {script}'
    return subprocess.run(["sh", "-c", script, "sh", *arguments], capture_output=True, env=environment, check=False)


def test_closed_and_full_streams() -> None:
    for script, status, error in (
        ("zoo schema >&-", 2, "error: standard output is closed\n\nhint: "),
        ("zoo schema 2>&-", 0, ""),
        ("zoo foo <&- >&- 2>&-", 2, ""),
        ("zoo schema >/dev/full", 1, "error: No space left on device\n"),
    ):
        process = shell(script)
        assert process.returncode == status, script
        assert process.stderr.decode().startswith(error)
        assert "internal error" not in process.stderr.decode()


def test_closed_input_is_an_error_only_if_it_is_read(trained: Trained) -> None:
    trained("runs/tiny")
    decode = ("decode", "--model", "tiny", "--device", "cpu")
    process = forks.run(f"import os, sys; os.close(0); sys.stdin = None; {forks.COMMAND}", *decode)
    assert (process.wait(), process.stdout) == (2, "")
    assert "error: standard input is closed\n\nhint: redirect it" in process.stderr
    assert shell("zoo show tiny <&-").returncode == 0


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    code = "import os; from cli.console import prepare_standard_streams as prepare; prepare(); print(os.open('/', 0))"
    assert int(shell(f'"$PYTHON" -c "{code}" <&- 2>&-').stdout) > 2


def test_names_that_are_not_utf8_give_ordinary_errors() -> None:
    commands = "NAME", "show NAME", "show NAME.yaml", "show tiny --NAME", "show tiny NAME=3", "plan tiny --length NAME"
    commands += "verify NAME", "average NAME", "publish NAME", "train tiny --run NAME", "decode --spec NAME"
    commands += "decode --model NAME", "decode --spec tiny --input NAME", "evaluate --hypotheses NAME --references NAME"
    words = [command.replace("NAME", NOT_UTF8).split() for command in commands]
    code = f"""
import os
from cli import app, console
console.prepare_standard_streams()
print([app.run(words) for words in {words!a}])
os.environ["ZOO_HOME"] = {NOT_UTF8!a}
print(app.run(["prepare", "tiny"]))
"""
    process = forks.run(code)
    messages = process.stderr  # valid UTF-8
    assert process.stdout == f"{[2] * len(words)}\n2\n", messages
    assert messages.count("error: ") == len(words) + 1
    assert missing(messages, "a\\xffb", "Traceback", "internal error") == ["Traceback", "internal error"]


def test_paths_are_printed_to_stdout_byte_by_byte(trained: Trained) -> None:
    trained(f"runs/{NOT_UTF8}")
    commands = [["list"], ["list", "--json"], ["plan", "tiny", "--graph", f"{NOT_UTF8}.dot"]]
    code = (
        "from cli import app, console; console.prepare_standard_streams(); "
        f"[(app.run(words), print(end='\\0')) for words in {commands!a}]"
    )
    table, values, drawn, _ = shell('"$PYTHON" -c "$1"', code).stdout.split(b"\0")
    assert b"runs/a\xffb " in table
    assert [run["folder"] for run in json.loads(values)["runs"]] == [f"runs/{NOT_UTF8}"]
    assert drawn == b"a\xffb.dot\n"
    assert Path(f"{NOT_UTF8}.dot").is_file()
