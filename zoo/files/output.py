"""Write output to paths that the user passes: regular files, devices, pipes and file descriptors."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TextIO

from specs import ZooError
from zoo.files.atomic import atomic_file, convert_disk_errors, partial_path
from zoo.report import Report, amount

_DESCRIPTOR_FOLDERS = ("/dev/fd", "/proc/self/fd")
_MAX_LINKS = 40  # maximum number of symbolic links to follow, as in Linux


@contextmanager
def open_output(path: Path, keeper: Report | None = None) -> Iterator[TextIO]:
    """Yield a stream that writes UTF-8 text to a file. The parent folder must exist.

    A regular file is written atomically: it is complete at the end, or unchanged. If the path is a
    symbolic link, the link is kept and its target is written. Devices, FIFOs and file descriptors (`/dev/stdout`,
    `/dev/fd/63`) are written to directly.

    Args:
        path: The file to write.
        keeper: If given, complete lines that were written to a regular file before an error are kept in `PATH.partial`,
            and this report receives a warning about them.

    Raises:
        ZooError: The file cannot be written.
    """
    with convert_disk_errors(path):
        direct = _direct_target(path)
        if direct is not None:
            with open(direct, "w", encoding="utf-8", newline="\n") as stream:
                yield stream
            return
        target = path.resolve()
    if not target.parent.is_dir():
        folder = target.parent if path.is_symlink() else path.parent
        problem = f"`{path}` cannot be written: there is no folder `{folder}`"
        raise ZooError(problem, hint="create the folder first, or write to another folder")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    with atomic_file(target, mode) as partial, partial.open("w", encoding="utf-8", newline="\n") as stream:
        if mode is not None:
            partial.chmod(mode)  # before the first byte: the content may be private
        try:
            yield stream
        except BaseException:  # even if the user interrupts the command
            if keeper is not None:
                _keep_lines(path, partial, stream, keeper)
            raise


def _keep_lines(path: Path, partial: Path, stream: TextIO, report: Report) -> None:
    """Move the complete lines of an unfinished file to `PATH.partial`.

    Do nothing if the file has no complete lines, or if `PATH.partial` is a folder.

    Args:
        path: The output file that the user specified.
        partial: The unfinished file.
        stream: The stream that writes the unfinished file. It is closed here.
        report: Receives a warning.
    """
    kept = partial_path(path)
    with suppress(OSError):  # the disk has no space for the rest of the last line
        stream.close()
    with suppress(OSError), partial.open("rb+") as file:  # the first error matters more
        lines = length = 0
        for line in file:
            if line.endswith(b"\n"):
                lines, length = lines + 1, length + len(line)
        file.truncate(length)
        if lines and not kept.is_dir():
            shutil.move(partial, kept)  # unlike a copy, this needs no additional disk space
            written = f"`{kept}` contains the first {amount(lines, 'lines')}"
            report.warn(f"`{path}` was not written: the command failed or was stopped; {written}")


def require_extension(path: Path, kind: Literal["html", "svg"]) -> None:
    """Check that the name of an HTML file ends in .html or .htm, or that the name of an SVG file ends in .svg.

    Args:
        path: Path of the file.
        kind: The format of the file.

    Raises:
        ZooError: The name has a different extension.
    """
    if {".html": "html", ".htm": "html", ".svg": "svg"}.get(path.suffix.lower()) != kind:
        hint = f"the output is {kind.upper()}: name the file `{path.stem}.{kind}`"
        raise ZooError(f"`{path}` does not end in .{kind}", hint=hint)


def require_different_files(output: Path | int, inputs: Iterable[Path | int]) -> None:
    """Check that a command does not write to a file that it reads.

    Args:
        output: Path or open descriptor of the file that is written.
        inputs: Paths or open descriptors of the files that are read.

    Raises:
        ZooError: One of the inputs is the output.
    """
    for source in inputs:
        if _is_same_file(output, source):
            name = next((f"`{file}`" for file in (output, source) if isinstance(file, Path)), "one file")
            raise ZooError(f"{name} would be read and written at the same time", hint="write to another file")


def _direct_target(path: Path) -> Path | int | None:
    """Return the path or descriptor of an output that cannot be replaced atomically: a device, FIFO or descriptor.

    Return None for a regular file or a path that does not exist, because these are written atomically.
    """
    descriptor = _descriptor_number(path)
    if descriptor is not None:
        try:
            return os.dup(descriptor)  # opening the path would write from the beginning of the file
        except OSError as error:  # the descriptor is not open
            raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise ZooError(f"`{path}` cannot be written: it is a folder", hint="use the path of a file")
    return None if stat.S_ISREG(mode) else path


def _descriptor_number(path: Path) -> int | None:
    """Return the file descriptor number of a path such as `/dev/fd/63` or a link to it. Return None for other paths."""
    folders = {Path(folder).resolve() for folder in _DESCRIPTOR_FOLDERS}
    for _ in range(_MAX_LINKS):
        if path.name.isdecimal() and path.parent.resolve() in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _is_same_file(one: Path | int, other: Path | int) -> bool:
    with suppress(OSError, ValueError):
        first, second = os.stat(one), os.stat(other)
        return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)
    return False
