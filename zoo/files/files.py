"""Files that are whole or not there: written beside their place, flushed, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from specs import ZooError
from zoo.files.content import content, opened
from zoo.files.exchange import exchange
from zoo.files.partial import REPLACED, beside, put_back, remove, sweep
from zoo.report import sizes

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
_MOST_JSON = 20_000_000
"""Bytes: in memory it takes some thirty times as much."""
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST}


class Taken(ZooError):
    """A folder that must not be replaced has content by now; it stays as it is."""


@contextmanager
def writing(path: Path, mode: int | None = None) -> Iterator[Path]:
    """A path beside `path` to write to; what was written takes `path`'s place at the end, or nothing does.

    Makes the folder it lies in. `mode` says who may read and write it, else the umask does. Raises ZooError where the
    disk is full or the place cannot be written to.
    """
    partial = beside(path)
    with explained(path, partial):
        sweep(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            by_umask = _mode(partial)
            yield partial
            _open(partial, by_umask if mode is None else mode)
            flush(partial)
            os.replace(partial, path)
            flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def create(path: Path, content: bytes) -> bool:
    """Writes a file, whole, where there is none: whether it was this call that did. One that stands there stays.

    Raises ZooError as `writing` does, and where the file system gives no file two names.
    """
    partial = beside(path)
    with explained(path, partial):
        sweep(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            flush(partial)
            os.link(partial, path)
            flush(path.parent)
        except FileExistsError:
            return False
        finally:
            partial.unlink(missing_ok=True)
    return True


@contextmanager
def writing_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """The same for a folder, which is given empty.

    Where there is a folder at `path` by the end it gives way; with `replace=False` an empty one alone does: any other
    stays, what was written is thrown away, and Taken is raised.
    """
    partial = beside(path)
    with explained(path, partial):
        sweep(path.parent)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            mode = _mode(partial / "mode")
            yield partial
            for each in (*partial.rglob("*"), partial):
                if each.is_file():
                    _open(each, mode)
                flush(each)
            _settle(partial, path, replace)
            flush(path.parent)
        finally:
            remove(partial)


def share(file: Path, place: Path) -> None:
    """The same file under a second name, or a copy where the file system has no such thing."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def remove_folder(path: Path) -> Path | None:
    """Renames first, so that a removal that is cut short leaves nothing that looks whole; the next one ends it.

    What this user may not remove is left beside its place: where that is.
    """
    sweep(path.parent)
    aside = _put_aside(path, ".removed")
    remove(aside)
    return aside if os.path.lexists(aside) else None


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal. Raises ZooError as `zoo.files.content.opened` does."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises ZooError where the disk of `folder` (which may not exist yet) has no `needed` bytes left for `what`."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        more, less = sizes(needed, free)
        problem = f"{what} needs {more} in `{folder}`, and {less} are free"
        raise ZooError(problem, hint=_ROOM, exit_code=1)


def require_utf8(path: Path) -> None:
    """Raises ZooError where the path has bytes that are not UTF-8: libraries that read and write models refuse it."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        problem = f"the path `{path.absolute()}` is not UTF-8, and models cannot be read and written there"
        raise ZooError(problem, hint="rename the folder, or take another") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ZooError where there is none, or where it is damaged."""
    try:
        value = json.loads(content(path, _MOST_JSON), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ZooError(f"`{path}` is damaged: it is not JSON ({error})", exit_code=1) from None
    if not isinstance(value, dict):
        raise ZooError(f"`{path}` is damaged: it is not a JSON object", exit_code=1)
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


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
    """Gives a whole folder its name; what had it before stands at `partial` then, or is removed."""
    for attempt in range(_TRIES):
        try:
            if not (replace and os.path.lexists(path)):
                partial.rename(path)
            elif not exchange(partial, path):
                _replace(partial, path)
            return
        except OSError as error:
            if not replace and error.errno in _TAKEN:
                hint = "what is there was left as it is: name a new folder"
                raise Taken(f"`{path}` is there already", hint=hint) from None
            # Another process put something there, or took it away.
            if error.errno not in {*_TAKEN, errno.ENOENT} or attempt == _TRIES - 1 or not partial.exists():
                raise


def _replace(partial: Path, path: Path) -> None:
    """By two renames, where the file system cannot exchange: what is cut short between them is put back."""
    aside = _put_aside(path, REPLACED)
    try:
        partial.rename(path)
    finally:
        put_back(path.parent)  # nothing, if it went well
    remove_folder(aside)  # by another name: half of it is never put back


_TRIES = 100


def _put_aside(path: Path, why: str) -> Path:
    """Renames what is at `path`, if anything is, and says to what."""
    aside = beside(path)
    aside = aside.with_name(f"{aside.name}{why}")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    return aside


def _mode(path: Path) -> int:
    """Who may read and write a new file, by the umask of this process."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def _open(path: Path, mode: int) -> None:
    """Libraries write files that are for their user alone."""
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def flush(path: Path) -> None:
    """Onto the disk; a folder's list of names, too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without it
            raise
    finally:
        os.close(descriptor)
