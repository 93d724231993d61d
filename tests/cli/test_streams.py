"""The standard streams: closed ones, full ones, and names that are not UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.training.run import Run

ROOT = Path(__file__).parents[2]
BAD = os.fsdecode(b"a\xffb")


def shell(words: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """`words` as a shell has them, where `zoo` is the program and "$@" are the arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    script = f'zoo() {{ "$PYTHON" -m cli.app "$@"; }}; {words}'
    return subprocess.run(["sh", "-c", script, "sh", *arguments], capture_output=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("zoo list >&-", 2, "error: standard output is closed\n\nhint: "),
        ("zoo list 2>&-", 0, ""),
        ("zoo foo <&- >&- 2>&-", 2, ""),
        ("zoo list >/dev/full", 1, "error: No space left on device\n"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_fault(words: str, status: int, told: str) -> None:
    done = shell(words)
    assert done.returncode == status
    assert done.stderr.decode().startswith(told)
    assert "fault" not in done.stderr.decode()


def test_a_closed_input_matters_to_what_reads_it(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    done = shell("zoo decode --model tiny --device cpu <&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().endswith("error: standard input is closed\n\nhint: give it something to read, "
                                         "such as `</dev/null`\n")  # fmt: skip
    assert shell("zoo show tiny <&-").returncode == 0


def test_a_file_never_gets_the_number_of_a_closed_stream() -> None:
    code = "from cli.streams import prepared; prepared(); import os; print(os.open('/dev/null', os.O_RDONLY))"
    done = shell(f'"$PYTHON" -c "{code}" <&- 2>&-')
    assert int(done.stdout) > 2


def test_a_name_that_is_not_utf8_is_an_error_like_any_other() -> None:
    lines = [
        *([BAD], ["show", BAD], ["show", f"{BAD}.yaml"], ["show", "tiny", f"--{BAD}"], ["show", "tiny", f"{BAD}=3"]),
        *(
            ["plan", "tiny", "--length", BAD],
            ["verify", BAD],
            ["average", BAD],
            ["publish", BAD],
            ["decode", "--spec", BAD],
        ),
        *(["decode", "--model", BAD], ["evaluate", "--hypotheses", BAD, "--references", BAD]),
        *(["train", "tiny", "--run", BAD], ["decode", "--spec", "tiny", "--input", BAD]),
    ]
    code = f"from cli import app, streams; streams.prepared(); print([app.run(line) for line in {lines!a}])"
    done = shell('"$PYTHON" -c "$1"', code)
    assert done.stdout.decode() == f"{[2] * len(lines)}\n", done.stderr
    told = done.stderr.decode()  # UTF-8 all the same
    assert told.count("error: ") == len(lines)
    assert "a\\xffb" in told
    assert "Traceback" not in told
    assert "fault of zoo" not in told


def test_a_home_that_is_not_utf8_is_refused_before_anything_is_done() -> None:
    done = shell('ZOO_HOME="$1" zoo prepare tiny', BAD)
    assert done.returncode == 2
    assert b"a\\xffb` is not UTF-8" in done.stderr


def test_a_path_on_stdout_is_the_path_to_the_byte(trained: Callable[..., Run]) -> None:
    trained(f"runs/{BAD}")
    assert b"runs/a\xffb " in shell("zoo list").stdout
    told = json.loads(shell("zoo list --json").stdout)
    assert [run["folder"] for run in told["runs"]] == [f"runs/{BAD}"]
    drawn = shell('zoo plan tiny --graph "$1.svg"', BAD)
    assert os.fsencode(drawn.stdout.decode(errors="surrogateescape").strip()) == b"a\xffb.svg"
    assert Path(f"{BAD}.svg").is_file()
