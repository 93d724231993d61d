"""Files that are whole or not there: written beside their place, flushed, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.report import size

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST}


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; what was written takes `path`'s place at the end, or nothing does.

    Makes the folder it lies in. Raises ZooError where the disk is full or the place cannot be written to.
    """
    partial = _partial(path)
    with explained(path, partial):
        _sweep(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            os.replace(partial, path)
            _flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def writing_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """The same for a folder, which is given empty.

    Where there is a folder at `path` by the end it gives way; with `replace=False` it stays, and what was written
    is thrown away.
    """
    partial = _partial(path)
    with explained(path, partial):
        _sweep(path.parent)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
            for each in (*partial.rglob("*"), partial):
                _flush(each)
            _settle(partial, path, replace)
            _flush(path.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Renames first, so that a removal that is cut short leaves nothing that looks whole."""
    shutil.rmtree(_put_aside(path, ".removed"), ignore_errors=True)


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises ZooError where the disk of `folder` (which may not exist yet) has no `needed` bytes left for `what`."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        problem = f"{what} needs {size(needed)} in `{folder}`, and {size(free)} are free"
        raise ZooError(problem, hint=_ROOM, exit_code=1)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ZooError where there is none, or where it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}", exit_code=1) from None
    except ValueError as error:
        raise ZooError(f"`{path}` is damaged: it is not JSON ({error})", exit_code=1) from None
    if not isinstance(value, dict):
        raise ZooError(f"`{path}` is damaged: it is not a JSON object", exit_code=1)
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """As `writing` does it. Raises ValueError for what JSON has no word for: a number that is none."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with writing(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


_ROOM = "make room there, or keep models and corpora on another disk: the variable ZOO_HOME names the folder"


@contextmanager
def explained(path: Path, partial: Path | None = None) -> Iterator[None]:
    """While `path` is written (by way of `partial`): what goes wrong with its disk, and only that, is a ZooError."""
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        # Libraries with errors of their own pass on the system's words.
        for code, words in _FULL.items():
            if _is(error, code):
                raise ZooError(f"`{path}` cannot be written: {words}", hint=_ROOM, exit_code=1) from error
        if _is(error, errno.EFBIG):
            problem = f"`{path}` cannot be written: it is larger than this process may write a file"
            raise ZooError(problem, hint="`ulimit -f unlimited` lifts the limit, where you may", exit_code=1) from error
        if isinstance(error, OSError) and _concerns(error, path, partial):
            reason = error.strerror or str(error)
            raise ZooError(f"`{path}` cannot be written: {reason}", exit_code=1) from error
        raise


def _concerns(error: OSError, path: Path, partial: Path | None) -> bool:
    """Whether the error names the file, a folder above it, or something in the one beside it."""
    if error.filename is None:
        return False
    place = Path(os.fsdecode(error.filename)).absolute()
    return path.absolute().is_relative_to(place) or (partial is not None and place.is_relative_to(partial))


def _is(error: Exception, code: int) -> bool:
    """Whether it is this error of the system's, or one of a library's that passes on its words."""
    return (isinstance(error, OSError) and error.errno == code) or os.strerror(code) in str(error)


def _settle(partial: Path, path: Path, replace: bool) -> None:
    """Gives a whole folder its name."""
    aside = _put_aside(path, _REPLACED) if replace else None
    try:
        partial.rename(path)
        if aside:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        if replace or error.errno not in _TAKEN:
            raise


_REPLACED = ".replaced"


def _put_aside(path: Path, why: str) -> Path:
    """Renames what is at `path`, if anything is, and says to what."""
    aside = _partial(path)
    aside = aside.with_name(f"{aside.name}{why}")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    return aside


def _partial(path: Path) -> Path:
    """Beside `path`, and nobody else's."""
    return path.absolute().with_name(f".{path.name}{_mark()}{os.getpid()}.{threading.get_ident()}")


def _mark() -> str:
    return f".partial-{socket.gethostname()}-"


def _sweep(folder: Path) -> None:
    """Removes what processes of this machine that were killed left half-written in `folder`.

    What such a process had put aside, and not yet replaced, is put back.
    """
    if os.name != "posix" or not folder.is_dir():
        return
    for left in folder.iterdir():
        name, mark, process = left.name.partition(_mark())
        number = process.partition(".")[0]
        if mark and number.isdigit() and not _alive(int(number)):
            place = folder / name.removeprefix(".")
            if left.name.endswith(_REPLACED) and not place.exists():
                left.rename(place)
            else:
                _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _flush(path: Path) -> None:
    """Onto the disk; a folder's list of names, too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without it
            raise
    finally:
        os.close(descriptor)
