"""Extract members of archives, and read gzip files with a limit on their unpacked size."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self

from specs import ZooError, nearest
from zoo.files import storage
from zoo.files.atomic import atomic_file, convert_disk_errors
from zoo.files.download import Fetched, records_file
from zoo.report import size

MIN_LIMIT = 10_000_000
"""Number of unpacked bytes that is always allowed, however small the packed file is."""
MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size. Usual text has a ratio of about 5. Only repeated text reaches 200."""
_CHUNK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_HEADER_BYTES = 1_000_000
_MAX_MEMBERS = 100_000
_LISTED_MEMBERS = 5
_UNREADABLE = (
    *(EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, OSError),
    *(NotImplementedError, RuntimeError, ValueError),  # unknown compression, a password, invalid names and numbers
)
_BZIP2_MAGIC = b"BZh"
_Target = Callable[[str], tuple[Path, Path] | None]
"""Function that returns the final and the temporary path of a member, given its name, or None to skip the member."""


class DamagedArchiveError(ZooError):
    """A file is not an archive, or the archive is damaged."""


class _TarInfo(tarfile.TarInfo):
    """Member of a tar archive. An oversized extended header is an error, because tarfile would read it into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _EXTENDED_HEADERS and member.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header is {size(member.size)}, but the limit is {size(_MAX_HEADER_BYTES)}")
        return member


_EXTENDED_HEADERS = {
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
}


def extracted(sha256: str, names: Sequence[str]) -> list[Path] | None:
    """Return the paths of archive members that were extracted earlier. None if a member is missing.

    Args:
        sha256: The SHA-256 of the archive.
        names: The paths of the members in the archive.
    """
    paths = [_member_path(sha256, name) for name in names]
    return paths if all(path.is_file() for path in paths) else None


def extract(archive: Fetched, names: Sequence[str]) -> list[Path]:
    """Extract the given members of a .tar, .tar.gz or .zip file. The file type is detected from the content.

    The extracted files appear in the data folder only after all of them have been read without errors. A tar archive
    is read to its end, so that its checksum is verified.

    Returns:
        The paths of the members, in the order of `names`.

    Raises:
        ZooError: A member is missing, or the archive is damaged or unpacks to an implausible size.
    """
    members = {name: _member_path(archive.sha256, name) for name in names}
    with ExitStack() as stack:
        targets = {name: (path, stack.enter_context(atomic_file(path))) for name, path in members.items()}
        available = _extract(archive.path, targets.get)
        for name in names:
            if name not in available:
                raise _missing_member(archive.path, name, sorted(available))
    return list(members.values())


def extract_all(archive: Path, folder: Path) -> None:
    """Extract all regular files of a .tar, .tar.gz, .tar.bz2 or .zip file into a folder.

    Links and other special members are skipped.

    Raises:
        DamagedArchiveError: The archive is damaged, or has too many members. Some files may have been written already.
        ZooError: A path points outside the folder, or the archive unpacks to an implausible size.
    """

    def target(name: str) -> tuple[Path, Path]:
        path = folder / _relative_path(name)
        with convert_disk_errors(path):  # a full disk is not a damaged archive
            path.parent.mkdir(parents=True, exist_ok=True)
        return path, path

    folder.mkdir(parents=True, exist_ok=True)
    _extract(archive, target)


def _extract(path: Path, target: _Target) -> set[str]:
    """Extract the members for which `target` returns paths. Return the names of all files in the archive."""
    names: set[str] = set()
    total = 0
    try:
        members = _zip_members(path) if zipfile.is_zipfile(path) else _tar_members(path)
        for count, member in enumerate(members, start=1):
            if count > _MAX_MEMBERS:
                raise tarfile.ReadError(f"it has more than {_MAX_MEMBERS:,} members")
            name = member.name.removeprefix("./")
            if member.is_file and name not in names:
                names.add(name)
                if (paths := target(name)) is not None:
                    total += member.size
                    _require_plausible(path, path.stat().st_size, total)
                    _copy(member, *paths)
    except _UNREADABLE as error:
        hint = f"remove the file and its entry in `{records_file()}`, then run the command again to download the file"
        problem = f"`{path}` is not a .tar, .tar.gz, .tar.bz2 or .zip file, or it is damaged: {error}"
        raise DamagedArchiveError(problem, hint=hint, exit_code=1) from error
    return names


def open_gzip(path: Path) -> IO[bytes]:
    """Open a gzip file for reading. Reading raises ZooError if the file unpacks to too many bytes (see `MAX_RATIO`)."""
    return io.BufferedReader(_LimitedReader(gzip.open(path), path))


class _LimitedReader(io.RawIOBase):
    """Reader for a compressed file. Reading raises ZooError if the file unpacks to more bytes than allowed."""

    def __init__(self, inner: gzip.GzipFile | bz2.BZ2File, path: Path) -> None:
        self._inner, self._path, self._read = inner, path, 0
        self._packed = path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._inner.readinto(buffer)
        self._read += count
        _require_plausible(self._path, self._packed, self._read)
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()


def _require_plausible(path: Path, packed: int, unpacked: int) -> None:
    """Raise ZooError if an archive or compressed file unpacks to an implausible size."""
    if unpacked > (limit := max(MIN_LIMIT, MAX_RATIO * packed)):
        raise ZooError(
            f"`{path}` is {size(packed)} but unpacks to more than {size(limit)}, which is more than zoo allows",
            hint="download the file again from its source; if its content really is that large, unpack it yourself",
        )


class _Member(NamedTuple):
    """Member of an archive: its name, whether it is a regular file, its unpacked size, and a function that opens it."""

    name: str
    is_file: bool
    size: int
    open: Callable[[], Any]


def _tar_members(path: Path) -> Iterator[_Member]:
    """Yield the members of a tar archive while reading it from start to end."""
    with _open_packed(path) as stream:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_TarInfo) as archive:
            for member in archive:
                yield _Member(member.name, member.isfile(), member.size, partial(archive.extractfile, member))
                archive.members = []  # type: ignore[attr-defined]  # otherwise tarfile keeps all members in memory
        while stream.read(_CHUNK):  # the checksum follows the last member
            pass


def _zip_members(path: Path) -> Iterator[_Member]:
    """Yield the members of a zip archive in reverse order.

    If several members have the same name, the member that comes first in this order is valid.
    """
    with zipfile.ZipFile(path) as archive:
        for member in reversed(archive.infolist()):
            yield _Member(member.filename, not member.is_dir(), member.file_size, partial(archive.open, member))


def _open_packed(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        magic = file.read(3)
    if magic.startswith(_GZIP_MAGIC):
        return open_gzip(path)
    if magic == _BZIP2_MAGIC:
        return io.BufferedReader(_LimitedReader(bz2.open(path), path))
    return path.open("rb")


def _copy(member: _Member, path: Path, temporary: Path) -> None:
    storage.require_space(path.parent, member.size, "a member of an archive")
    # A full disk is not a damaged archive.
    with member.open() as stream, convert_disk_errors(path, temporary), temporary.open("wb") as file:
        shutil.copyfileobj(stream, file, _CHUNK)


def _member_path(sha256: str, name: str) -> Path:
    """Return the path of an extracted member. It is always inside the archive's folder."""
    return storage.archives() / "members" / sha256[:16] / _relative_path(name)


def _relative_path(name: str) -> PurePosixPath:
    """Return a member's path relative to the extraction folder.

    Raises:
        ZooError: The path points outside the folder.
    """
    member = PurePosixPath(name.removeprefix("./"))
    if member.is_absolute() or ".." in member.parts or any(sign in name for sign in "\\:\0"):
        hint = "write a relative path without `..`, such as `training/corpus.en`"
        raise ZooError(f"`{name}` is not a valid path for an archive member", hint=hint)
    return member


def _missing_member(path: Path, name: str, members: list[str]) -> ZooError:
    same_file_name = [member for member in members if PurePosixPath(member).name == PurePosixPath(name).name]
    closest = same_file_name[0] if same_file_name else nearest(name, members)
    listed = ", ".join(f"`{member}`" for member in members[:_LISTED_MEMBERS])
    more = ", ..." if len(members) > _LISTED_MEMBERS else ""
    guess = f"did you mean `{closest}`? " if closest else ""
    hint = f"{guess}choose a member of the archive: {listed}{more}"
    if not members:
        hint = "use the URL of a different archive: this archive contains no files"
    return ZooError(f"`{path.name}` has no member `{name}`", hint=hint)
