"""Write files and folders atomically: they appear complete under their name, or not at all.

Content is first written to a hidden temporary path in the same folder, `.NAME.partial-HOST-NAMESPACE-PROCESS.THREAD`,
then flushed to the disk and renamed. The next writer in that folder removes the temporary paths of killed processes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.storage import free_space_hint

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it is larger than the file size limit of this process",
}
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}
_PARTIAL = ".partial-"
_REPLACED = ".replaced"
_MAX_ATTEMPTS = 100
_PID_NAMESPACE = Path("/proc/self/ns/pid")
"""File whose inode identifies the PID namespace. The processes in a container have their own namespace."""


class FolderExistsError(ZooError):
    """The target folder has content and must not be replaced. It is left unchanged."""


@contextmanager
def atomic_file(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to `path` at the end. Create the parent folder if needed.

    If the `with` block raises an exception, `path` is left unchanged.

    Args:
        path: The file to create or replace.
        mode: The permissions of the file. The default follows the umask.

    Raises:
        ZooError: The disk is full, or the file cannot be written.
    """
    with temporary_path(path) as partial:
        default_mode = _default_mode(partial)
        yield partial
        _set_mode(partial, default_mode if mode is None else mode)
        flush_to_disk(partial)
        os.replace(partial, path)
        flush_to_disk(path.parent)


def create_file(path: Path, content: bytes) -> bool:
    """Create a file with the given content unless the path exists. Of several concurrent calls, exactly one succeeds.

    Returns:
        Whether this call created the file. An existing file is left unchanged.

    Raises:
        ZooError: The file cannot be written, or the file system has no hard links.
    """
    with temporary_path(path) as partial:
        partial.write_bytes(content)
        flush_to_disk(partial)
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        flush_to_disk(path.parent)
    return True


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object to a file atomically.

    Raises:
        ZooError: The file cannot be written.
        ValueError: The value contains NaN or infinity, which JSON cannot represent.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


@contextmanager
def atomic_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder to fill, and rename it to `path` at the end.

    Args:
        path: The folder to create.
        replace: Whether to replace an existing folder that has content. An empty folder is always replaced.

    Raises:
        FolderExistsError: `path` has content, and `replace` is False.
        ZooError: The disk is full, or the folder cannot be written.
    """
    with temporary_path(path) as partial:
        partial.mkdir()
        mode = _default_mode(partial / "mode")
        yield partial
        for written in (*partial.rglob("*"), partial):
            if written.is_file():
                _set_mode(written, mode)
            flush_to_disk(written)
        _rename_folder(partial, path, replace)
        flush_to_disk(path.parent)


@contextmanager
def temporary_path(path: Path) -> Iterator[Path]:
    """Yield a hidden path, next to `path`, for a temporary file or folder. Remove the file or folder at the end.

    The parent folder is created if needed. If the process is killed, the next process that writes to the parent folder
    removes the temporary file or folder.
    """
    partial = _temporary_path(path)
    with convert_disk_errors(path, partial):
        _remove_leftovers(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_path(partial)
        try:
            yield partial
        finally:
            remove_path(partial)


def _rename_folder(partial: Path, path: Path, replace: bool) -> None:
    """Rename a complete folder to its final name. Try again if another process changes `path` at the same time.

    Args:
        partial: The complete folder, under a temporary name.
        path: The final name.
        replace: Whether to replace a folder that already exists at `path`. If false, raise FolderExistsError.
    """
    for attempt in range(_MAX_ATTEMPTS):
        try:
            if replace and os.path.lexists(path):
                _replace_folder(partial, path)
            else:
                partial.rename(path)
            return
        except OSError as error:
            if not replace and error.errno in _OCCUPIED:
                hint = "the existing folder was left unchanged: choose a new folder"
                raise FolderExistsError(f"`{path}` already exists", hint=hint) from None
            if error.errno not in {*_OCCUPIED, errno.ENOENT} or attempt == _MAX_ATTEMPTS - 1 or not partial.exists():
                raise


def _replace_folder(partial: Path, path: Path) -> None:
    """Replace a folder with two renames. If the process is killed in between, `restore_replaced` repairs the folder."""
    replaced = _set_aside(path, _REPLACED)
    try:
        partial.rename(path)
        flush_to_disk(path.parent)  # before the old files are removed
    finally:
        restore_replaced(path.parent)  # does nothing if the rename succeeded
    remove_folder(replaced)  # renames it first, so that a half-removed folder is never restored


def restore_replaced(folder: Path) -> list[Path]:
    """Undo interrupted replacements: give the old version of each subfolder its name back, if the name is free.

    A process replaces a subfolder with two renames, and may have been killed between them. If the process is still
    running, its second rename fails because this function has restored the old version. The process then tries again.

    Returns:
        The temporary files and folders that remain in `folder`.
    """
    temporary: list[Path] = []
    with suppress(OSError):  # there is no such folder, or this user may not change it
        temporary += (path for path in folder.iterdir() if _PARTIAL in path.name)
        replaced = [(path.stat().st_mtime_ns, path) for path in temporary if path.name.endswith(_REPLACED)]
        for _, path in sorted(replaced, reverse=True):  # the newest version was replaced last
            original = folder / path.name.rpartition(_PARTIAL)[0].removeprefix(".")
            if not os.path.lexists(original):
                path.rename(original)
                temporary.remove(path)
    return temporary


def remove_folder(path: Path) -> Path | None:
    """Remove a folder. It is renamed first, so that an interrupted removal leaves no folder that looks complete.

    Returns:
        None if the folder was removed. If the user lacks permission to remove some of the files, the path of the
        renamed folder.
    """
    _remove_leftovers(path.parent)
    renamed = _set_aside(path, ".removed")
    remove_path(renamed)
    return renamed if os.path.lexists(renamed) else None


def remove_path(path: Path) -> None:
    """Remove a file, link or folder if it exists. Skip files that the user lacks permission to remove."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Clean up a folder after processes were killed: undo interrupted replacements, and remove temporary files."""
    for path in leftovers(folder):
        with suppress(OSError):  # it belongs to another user
            remove_path(path)


def leftovers(folder: Path) -> Iterator[Path]:
    """Undo interrupted replacements, and yield the temporary files and folders of processes that no longer run.

    Files and folders from processes on other machines and in other containers are not included.
    """
    own_mark = _host_mark()
    for path in restore_replaced(folder):
        _, mark, writer = path.name.partition(own_mark)
        process = writer.partition(".")[0]
        if mark and process.isdigit() and not _is_running(int(process)):
            yield path


def partial_path(path: Path) -> Path:
    """Return the path at which an incomplete version of the file `path` is stored, such as an unfinished download."""
    return path.with_name(f"{path.name}.partial")


def complete_path(path: Path) -> Path:
    """Return the path of the complete file, given the path of a partial download or of its version file.

    Return other paths unchanged. All of these files share the lock of the complete file.
    """
    return path.with_name(re.sub(r"\.partial(\.json)?$", "", path.name))


def _temporary_path(path: Path) -> Path:
    """Return a hidden temporary path next to `path` that no other thread or process uses."""
    return path.absolute().with_name(f".{path.name}{_host_mark()}{os.getpid()}.{threading.get_native_id()}")


def partial_target(name: str) -> str | None:
    """Return the final name of a file or folder, given its temporary name. None if `name` is not a temporary name."""
    target, mark, _ = name.partition(_PARTIAL)
    return target.removeprefix(".") if mark and target.startswith(".") else None


def link_or_copy(file: Path, target: Path) -> None:
    """Create a hard link to a file, or copy it if the file system has no hard links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def flush_to_disk(path: Path) -> None:
    """Flush the content of a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system cannot flush
            raise
    finally:
        os.close(descriptor)


@contextmanager
def convert_disk_errors(path: Path, partial: Path | None = None) -> Iterator[None]:
    """While the `with` block writes `path`, convert disk errors to ZooErrors. Raise other errors unchanged.

    Args:
        path: The file or folder that the `with` block writes, for the error message.
        partial: The temporary path to which the content is written first, if any.
    """
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        # Some libraries raise their own exceptions with the message from the operating system.
        for code, reason in _DISK_ERRORS.items():
            if (isinstance(error, OSError) and error.errno == code) or os.strerror(code) in str(error):
                hint = "raise the limit with `ulimit -f unlimited`" if code == errno.EFBIG else free_space_hint(path)
                raise ZooError(f"`{path}` cannot be written: {reason}", hint=hint, exit_code=1) from error
        if isinstance(error, OSError) and _concerns(error, path, partial):
            hint = "check the path and your permissions, or choose another folder"
            raise ZooError(f"`{path}` cannot be written: {error.strerror or error}", hint=hint, exit_code=1) from error
        raise


def _concerns(error: OSError, path: Path, partial: Path | None) -> bool:
    """Return whether the file name in an error is `path`, one of its parent folders, or a path inside `partial`."""
    if error.filename is None:
        return False
    failed = Path(os.fsdecode(error.filename)).absolute()
    return path.absolute().is_relative_to(failed) or (partial is not None and failed.is_relative_to(partial.absolute()))


def _set_aside(path: Path, suffix: str) -> Path:
    """Rename a file or folder, if it exists, to a temporary name that ends in `suffix`. Return the new path."""
    partial = _temporary_path(path) if partial_target(path.name) is None else path
    renamed = partial.with_name(f"{partial.name.removesuffix(_REPLACED)}{suffix}")
    shutil.rmtree(renamed, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(renamed)
    return renamed


def _default_mode(path: Path) -> int:
    """Return the default permissions of new files, which depend on the umask. Create and remove `path` to find out."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def _set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file, because some libraries create files that only the owner can read."""
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def _host_mark() -> str:
    """Return the part of temporary names that identifies this machine (host name) and container (PID namespace)."""
    namespace = _PID_NAMESPACE.stat().st_ino if _PID_NAMESPACE.exists() else 0
    return f"{_PARTIAL}{socket.gethostname()}-{namespace}-"


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True
