"""Environment of one case: its folder, the published models, and ways to call zoo in Python and as a command."""

from __future__ import annotations

import io
import json
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest import mock

import zoo
from cli import app, errors
from hostile import judge
from hostile.judge import FileGuard, WrongResult, check
from hostile.world import GOOD, LINES, World
from specs import ZooError

T = TypeVar("T")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Done:
    """A command that has ended. `fault` is the exception that zoo reported, if any."""

    status: object
    out: str
    err: str
    fault: BaseException | None = None


class Trial:
    """One case in its own folder, which is the current directory; ZOO_HOME is `home` in it."""

    def __init__(self, folder: Path, world: World, guard: FileGuard) -> None:
        self.folder, self.world, self.guard = folder, world, guard
        self.home = folder / "home"
        self.store = self.home / "models"
        self.notes: list[str] = []
        self.answered = self.refused = 0
        self.secret = folder / "secret"  # no model may make zoo read it
        self.secret.write_text("a secret file\n")

    def log(self, note: object) -> None:
        """Keep a note of what the case does, which is printed if it fails."""
        self.notes.append(str(note)[:1000])

    def check_secret(self) -> None:
        check(not self.guard.was_opened(self.secret), "it opened a file outside of the model")

    def install(self, *names: str) -> Path:
        """Copy published models into the local store and return the path of the first."""
        for name in names:
            shutil.copytree(self.world.store / name, self.store / name)
        return self.store / names[0]

    def call(self, action: Callable[[], T]) -> T | ZooError:
        """Return the result of an action, or the ZooError that it raises."""
        try:
            result = action()
        except ZooError as error:
            judge.check_error(error)
            self.refused += 1
            return error
        self.answered += 1
        return result

    def zoo(self, *arguments: str) -> Done:
        """Run a zoo command in this process and check how it ends."""
        self.log(f"zoo {' '.join(repr(argument)[:200] for argument in arguments)}")
        done = _run_command(arguments)
        try:
            judge.check_command(done.status, done.err)
        except WrongResult as wrong:
            if done.fault is None or isinstance(done.fault, ZooError):
                raise
            where = "".join(traceback.format_exception(done.fault))
            raise WrongResult(f"{wrong}\n{where}") from None
        self.answered += done.status == 0
        self.refused += done.status != 0
        return done

    def check_loads(self) -> None:
        """Load the model GOOD: it must translate as published, or be refused."""
        result = self.call(lambda: zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
        if not isinstance(result, ZooError):
            self.check_same(result)

    def check_same(self, result: Any) -> None:
        expected = self.world.hypotheses
        check(result == expected, f"it translates otherwise: {result[0]!r:.200}, not {expected[0]!r:.200}")

    def check_verify(self, random: Random) -> None:
        """Check that `zoo verify` accepts GOOD if and only if it is as published."""
        if random.random() < 0.6:
            done = self.zoo("verify", GOOD)
            same = _contents(self.store / GOOD) == _contents(self.world.store / GOOD)
            check((done.status == 0) == same, f"unchanged is {same}, but: {done.out}{done.err}")

    def check_list(self, random: Random) -> None:
        """Check that `zoo list` works whatever is in the store."""
        as_json = random.random() < 0.3
        done = self.zoo("list", *(["--json"] if as_json else []))
        check(done.status == 0, f"a damaged model hides the others: {done.err}")
        if as_json:
            json.loads(done.out)
        else:
            judge.check_printable(done.out)


def regular_content(path: Path) -> bytes | None:
    """Return the content of a regular file, and None for anything else and for huge files."""
    regular = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
    return path.read_bytes() if regular else None


def _contents(bundle: Path) -> dict[str, Any]:
    """Return the content of each regular file; the layout of the manifest does not matter."""
    files = bundle.iterdir() if bundle.is_dir() else ()
    contents: dict[str, Any] = {file.name: regular_content(file) for file in files}
    try:
        # As text, because 1 == 1.0
        contents[MANIFEST] = json.dumps(json.loads(contents.get(MANIFEST) or b""), sort_keys=True)
    except (ValueError, RecursionError):
        contents[MANIFEST] = "damaged"
    return contents


def _run_command(arguments: Sequence[str]) -> Done:
    original = errors.to_zoo_error
    faults: list[Exception] = []

    def recorded(error: Exception, *rest: str) -> object:
        faults.append(error)
        return original(error, *rest)

    buffers = [io.BytesIO() for _ in range(3)]
    modes = ("strict", "strict", "backslashreplace")
    streams = [io.TextIOWrapper(buffer, "utf-8", mode) for buffer, mode in zip(buffers, modes, strict=True)]
    replaced = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
    status: object = "none at all"
    patched = mock.patch.multiple(sys, argv=["zoo", *arguments], **replaced)
    with patched, mock.patch.object(errors, "to_zoo_error", recorded):
        try:
            status = app.main()
        except SystemExit as end:
            status = 0 if end.code is None else end.code
    for stream in streams:
        stream.flush()
    _, out, err = (buffer.getvalue().decode("utf-8", "replace") for buffer in buffers)
    return Done(status, out, err, faults[-1] if faults else None)
