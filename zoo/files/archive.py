"""Members of archives: taken out once, and only those that are needed."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Self

from specs import ZooError, nearest
from zoo.files import places
from zoo.files.download import Fetched
from zoo.files.files import explained, require_space, writing
from zoo.files.lock import lock_file
from zoo.files.unpacking import require_text, unpacked
from zoo.report import size

_UNREADABLE = (
    *(EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""Also of a way of packing that zipfile does not know, of a password, and of a name or number that is none."""
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_Partials = Mapping[str, tuple[Path, Path]]
"""Where each member belongs, and where it is written before."""
_SHOWN = 5
_HEADER = 1_000_000  # bytes that a member's long name or its further facts may take
_MEMBERS = 100_000


class _Member(tarfile.TarInfo):
    """One whose header is no larger than a header may be: tarfile holds it in memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > _HEADER:
            raise tarfile.ReadError(f"a header takes {size(member.size)}")
        return member


_HEADERS = {
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
}


def taken_out(sha256: str, names: Sequence[str]) -> list[Path] | None:
    """The members of the archive with this hash, or None if one of them has not been taken out yet."""
    paths = [_place(sha256, name) for name in names]
    return paths if all(path.is_file() for path in paths) else None


def take_out(archive: Fetched, names: Sequence[str]) -> list[Path]:
    """Takes the members out of a .tar, .tar.gz or .zip, whatever it is called, and returns where they are.

    Nothing is written but these members, and not before they have been read and found sound (of a .tar, with all else
    that is in it). Raises ZooError where it has no such member, is damaged, or unpacks to more than text does.
    """
    members = {name: _place(archive.sha256, name) for name in names}
    with ExitStack() as stack:
        partials = {name: (place, stack.enter_context(writing(place))) for name, place in members.items()}
        try:
            unpack = _from_zip if zipfile.is_zipfile(archive.path) else _from_tar
            seen = unpack(archive.path, partials)
        except _UNREADABLE as error:
            hint = f"remove it and its entry in `{lock_file()}`, then try again: it is fetched anew"
            problem = f"`{archive.path}` is cut short, damaged, or no .tar, .tar.gz or .zip: {error}"
            raise ZooError(problem, hint=hint, exit_code=1) from error
        for name in names:
            if name not in seen:
                raise _missing(archive.path, name, sorted(seen))
    return list(members.values())


def _from_tar(path: Path, partials: _Partials) -> set[str]:
    """Reads the archive from front to end, once. Returns the names of all its files."""
    seen: set[str] = set()
    count = 0
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    with unpacked(path) if packed else path.open("rb") as stream:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isfile() and name not in seen:
                    seen.add(name)
                    require_text(path, member.size)
                    _copy(archive.extractfile(member), partials.get(name), member.size)
                archive.members = []  # type: ignore[attr-defined]  # tarfile keeps them all
                if (count := count + 1) > _MEMBERS:
                    raise tarfile.ReadError(f"it has more than {_MEMBERS:,} members")
        # What follows the last member holds the checksum.
        while stream.read(_CHUNK):
            pass
    return seen


def _from_zip(path: Path, partials: _Partials) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        members = {member.filename.removeprefix("./"): member for member in archive.infolist() if not member.is_dir()}
        for name in partials.keys() & members.keys():
            require_text(path, members[name].file_size)
            with archive.open(members[name]) as stream:
                _copy(stream, partials[name], members[name].file_size)
    return set(members)


def _copy(stream: IO[bytes] | None, into: tuple[Path, Path] | None, size: int) -> None:
    if stream is None or into is None:
        return
    place, partial = into
    require_space(place.parent, size, "a member of an archive")
    with explained(place, partial), partial.open("wb") as file:  # a full disk is no damage
        while chunk := stream.read(_CHUNK):
            file.write(chunk)


def _place(sha256: str, name: str) -> Path:
    """Where a member is put: its own path in a folder of its archive's, and never outside."""
    steps = PurePosixPath(name.removeprefix("./"))
    if steps.is_absolute() or ".." in steps.parts or any(sign in name for sign in "\\:\0"):
        hint = "write it as the archive's list of members has it, such as `training/corpus.en`"
        raise ZooError(f"`{name}` cannot be the path of an archive's member", hint=hint)
    return places.archives() / "members" / sha256[:16] / steps


def _missing(path: Path, name: str, members: list[str]) -> ZooError:
    same = [each for each in members if PurePosixPath(each).name == PurePosixPath(name).name]
    near = same[0] if same else nearest(name, members)
    several = ", ".join(f"`{each}`" for each in members[:_SHOWN]) + (", ..." if len(members) > _SHOWN else "")
    hint = f"did you mean `{near}`? " if near else ""
    return ZooError(f"`{path.name}` has no member `{name}`", hint=f"{hint}it has {several or 'no member at all'}")
