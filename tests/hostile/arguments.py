"""Arguments: every command with options that nobody would give it, names that are no text, closed streams."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from random import Random
from typing import Any

import typer

from cli.app import app
from hostile import values
from hostile.judge import right
from hostile.terminal import Failing, Stream
from hostile.trial import Trial
from hostile.world import GOOD, LINES, OTHER, PAIRS

_LASTING = {"benchmark", "compile"}
"""What measures for seconds and what compiles for half a minute is asked for nothing that it could do."""
_PROVING = "--verify-resume"
"""Trains three times, in processes of its own: a proof, and longer than a case may take."""
_NAMES = ("own.yaml", "runs/good", GOOD, OTHER, "tiny", "base", "./runs/good", "nope", "nope.yaml", "runs", "own")
_FILES = (
    "in.txt",
    "in.txt",
    "pairs.en",
    "pairs.de",
    "out.txt",
    "new/out.txt",
    "nope",
    ".",
    "link",
    "fifo",
    "full",
    "loop",
)
_CLOSED = 141
"""The status where whoever read the output has gone."""


def run(draw: Random, trial: Trial) -> None:
    """Draws a command line, and streams to go with it."""
    _furnish(trial)
    words, lasting = _line(draw)
    words = [word for word in words if word != _PROVING]
    stdin, stdout, stderr = _streams(draw)
    trial.tell(f"streams {stdin!r:.60} {stdout!r:.60} {stderr!r:.60}")
    before = _kinds(trial.folder)
    content = (trial.folder / "in.txt").read_bytes()
    done = trial.zoo(*words, stdin=stdin, stdout=stdout, stderr=stderr, allowed=(0, 1, 2, _CLOSED))
    gone = isinstance(stdout, Failing) or isinstance(stderr, Failing)
    right(done.status != _CLOSED or gone, "nobody has gone, and it says so")
    right(not lasting or done.status, f"{words} was done")
    after = _kinds(trial.folder)
    right(
        before.items() <= after.items() or "clean" in words,
        f"another kind of file: {set(before.items()) - set(after.items())}",
    )
    if "--output" in words and "--input" in words:
        right(
            (trial.folder / "in.txt").read_bytes() == content or _given(words, "--input") != "in.txt",
            "its input is gone",
        )


def _given(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else ""


def _furnish(trial: Trial) -> None:
    """Files of all kinds, runs, models, a spec that trains in a step."""
    folder = trial.folder
    trial.world.write_corpus(folder)
    trial.shelve(GOOD, OTHER)
    shutil.copytree(trial.world.run, folder / "runs" / "good")
    (folder / "own.yaml").write_text(trial.world.spec.yaml())
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (folder / "link").symlink_to("in.txt")
    (folder / "full").symlink_to("/dev/full")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")


def _kinds(folder: Path) -> dict[str, int]:
    """Of what stands in the folder: a link stays a link."""
    return {path.name: stat.S_IFMT(path.lstat().st_mode) for path in folder.iterdir()}


def _line(draw: Random) -> tuple[list[str], bool]:
    """A command line, and whether it must not be done, since that would last."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if draw.random() < 0.05:
        return [values.word(draw) for _ in range(draw.randrange(4))], False
    name = draw.choice(sorted(commands))
    words = [name]
    lasting = name in _LASTING
    if name == "benchmark":
        words.append(draw.choice(sorted(commands[name].commands)))
        return [*words, *draw.choice((["nope"], ["tiny", "--nope"], ["\udcff"], ["tiny", "--batch", "x"], [""]))], True
    parameters = [each for each in commands[name].params if each.name != "help"]
    for each in (each for each in parameters if each.param_type_name == "argument"):
        words += _positional(draw, each)
    if lasting:
        return [*words, "--nope"], True
    options = [each for each in parameters if each.param_type_name == "option"]
    for each in draw.sample(options, min(len(options), draw.choice((0, 1, 2, 2, 3)))):
        words += _option(draw, each)
    if name in ("decode", "parse", "score", "evaluate") and draw.random() < 0.8:
        words += ["--model", draw.choice((GOOD, GOOD, GOOD, *_NAMES))]
    if name == "sweep":  # it trains: what it would do is all that is asked
        words.append(draw.choice(("--list", "--table")))
    if name in ("train", "prepare"):  # of what is small: a person who asks for more has to wait
        words = [name, "own.yaml", *(word for word in words[1:] if word not in _NAMES)]
    return words, False


def _positional(draw: Random, parameter: Any) -> list[str]:
    kind = parameter.metavar
    if kind == "KEY=VALUE":
        key = draw.choice(("training.seed", "training.seed", "name", "x.y", ""))
        return [f"{key}={draw.choice((1, 7, values.word(draw)))}"] if draw.random() < 0.3 else []
    if not parameter.required and draw.random() < 0.5:
        return []
    fitting = {"SPEC": ("own.yaml", "own.yaml", "tiny"), "RUN": ("good", "runs/good"), "NAME": (GOOD, OTHER)}
    if draw.random() < 0.7:
        return [draw.choice(fitting.get(kind, _NAMES))]
    return [draw.choice((*_NAMES, values.word(draw), values.word(draw)))]


def _option(draw: Random, parameter: Any) -> list[str]:
    name, kind = draw.choice(parameter.opts), str(parameter.metavar)
    if getattr(parameter, "is_flag", False):
        return [name] if draw.random() < 0.95 else [f"{name}=x"]
    if draw.random() < 0.2:
        given = values.word(draw)
    elif "FILE" in kind or "DIR" in kind:
        given = draw.choice(_FILES)
    elif kind in ("N", "X"):
        given = _figure(draw)
    elif "|" in kind and "NAME" not in kind:
        given = draw.choice(kind.split("|"))
    else:
        given = draw.choice((GOOD, *_NAMES, "eager", "eager", "cpu", "float32", "int8", "auto"))
    return [f"{name}={given}"] if draw.random() < 0.2 else [name, given]


def _figure(draw: Random) -> str:
    number = draw.choice((1, 2, 5, 0.5, 0, -1)) if draw.random() < 0.5 else values.number(draw)
    return "1" * 5000 if isinstance(number, int) and abs(number) >= 10**4000 else str(number)


def _streams(draw: Random) -> tuple[Stream, Stream, Stream]:
    """Mostly those that work."""
    pairs = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
    lines = "".join(f"{line}\n" for line in LINES).encode()
    stdin: Stream = draw.choice((b"", lines, lines, pairs, b"\xff\n", b"\x00", b"no end"))
    stdout: Stream = b""
    stderr: Stream = b""
    if draw.random() < 0.25:
        broken = draw.choice((None, Failing(errno.ENOSPC), Failing(errno.EPIPE), Failing(errno.EIO)))
        which = draw.randrange(3)
        stdin = draw.choice((None, Failing(errno.EIO))) if which == 0 else stdin
        stdout = broken if which == 1 else stdout
        stderr = broken if which == 2 else stderr
    return stdin, stdout, stderr
