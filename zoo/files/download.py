"""Archives by address: fetched once, kept, and the same ever after.

Two variables of the environment say where from. ZOO_MIRROR takes the place of scheme and host of every address: a
folder (`/data/mirror` makes `http://host/a/b.tgz` the file `/data/mirror/a/b.tgz`, used where it lies) or an address
(`https://mirror.org/wmt` makes it `https://mirror.org/wmt/a/b.tgz`). With ZOO_OFFLINE=1 the network is left alone.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from specs import ZooError
from zoo.files import places
from zoo.files.files import explained, flush, sha256
from zoo.files.lock import Entry, alone, lock_file, record, recorded
from zoo.files.transfer import discard, offline, transfer
from zoo.report import Report


@dataclass(frozen=True)
class Fetched:
    """A file that has the content it must have."""

    path: Path
    sha256: str


def fetch(url: str, expected: str | None, report: Report) -> Fetched:
    """The file at `url`, from here if it was fetched before.

    Its SHA-256 must be `expected`; where that is None, the one in `corpus.lock`; where there is none either, it is
    recorded there, with a warning. Raises ZooError where it is not, and where the file cannot be had.
    """
    source = _source(url)
    known = recorded(url)
    fetched = _fetched(source, url, expected, known, report)
    if expected is None and known is None and not url.startswith("file:"):
        report.warn(
            f"nothing says what `{url}` must be, so that this first download could not be verified; its SHA-256 "
            f"{fetched.sha256} is kept in `{lock_file()}`, and held to from now on"
        )
    return fetched


def _fetched(source: str | Path, url: str, expected: str | None, known: Entry | None, report: Report) -> Fetched:
    if isinstance(source, Path):
        if not source.is_file():
            raise ZooError(f"there is no file `{source}`, which stands for `{url}`", hint=_mirror_hint(), exit_code=1)
        return _accepted(source, url, expected, known)
    path = places.archives() / f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{_name(url)}"
    with explained(path), alone(path, report):
        return _kept(path, url, expected, report) or _arrived(path, source, url, expected, report)


def known_sha256(url: str) -> str | None:
    """The hash of what was fetched from `url` the first time, or None where nothing was."""
    entry = recorded(url)
    return None if entry is None else entry.sha256


def _kept(path: Path, url: str, expected: str | None, report: Report) -> Fetched | None:
    """The file of an earlier fetch, or None where there is none, or none that is whole."""
    if not path.exists():
        return None
    known = recorded(url)
    # What was recorded was hashed when it arrived; later a look at its size must do.
    if known and known.bytes == path.stat().st_size and expected in (None, known.sha256):
        return Fetched(path, known.sha256)
    try:
        return _accepted(path, url, expected, known)
    except ZooError as error:
        report.warn(f"{error.summary}; fetching it again")
        return None


def _arrived(path: Path, source: str, url: str, expected: str | None, report: Report) -> Fetched:
    """The file fetched now; what is not as it must be leaves nothing behind."""
    if offline():
        hint = f"unset ZOO_OFFLINE, let ZOO_MIRROR name a folder that has it, or put it at `{path}`"
        raise ZooError(f"`{url}` is not here, and ZOO_OFFLINE forbids to fetch it", hint=hint)
    partial = path.with_name(f"{path.name}.partial")
    transfer(source, partial, report)
    flush(partial)  # before it is recorded: from then on its size is believed
    try:
        fetched = _accepted(partial, url, expected, recorded(url))
    except ZooError:
        discard(partial)
        raise
    os.replace(partial, path)
    flush(path.parent)
    discard(partial)
    return Fetched(path, fetched.sha256)


def _accepted(path: Path, url: str, expected: str | None, known: Entry | None) -> Fetched:
    """The file, if it has the content it must have; then it is recorded."""
    found = sha256(path)
    if expected not in (None, found):
        raise ZooError(
            f"what came from `{url}` has the SHA-256 {found}, not {expected} as the spec says",
            hint="the file or the spec's `sha256` is wrong: compare both with what its authors publish",
            exit_code=1,
        )
    if expected is None and known is not None and known.sha256 != found:
        raise ZooError(
            f"what came from `{url}` has the SHA-256 {found}, and {known.sha256} when it was first fetched",
            hint=f"if it is meant to have changed, remove its entry from `{lock_file()}` and try again",
            exit_code=1,
        )
    record(url, Entry(found, path.stat().st_size))
    return Fetched(path, found)


def _source(url: str) -> str | Path:
    """Where the file is had from: an address, or a file used where it lies."""
    mirror, parts = os.environ.get("ZOO_MIRROR"), urlsplit(url)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    if not mirror:
        return url
    # No address leads out of the mirror.
    inner = posixpath.normpath(f"/{parts.path}").lstrip("/")
    if mirror.startswith(("http://", "https://")):
        _check_address(mirror)
        return f"{mirror.rstrip('/')}/{inner}" + (f"?{parts.query}" if parts.query else "")
    folder = url2pathname(urlsplit(mirror).path) if mirror.startswith("file://") else mirror
    return Path(os.path.expanduser(folder)) / posixpath.normpath(f"/{unquote(inner)}").lstrip("/")


def _check_address(mirror: str) -> None:
    try:
        whole = bool((urlsplit(mirror).hostname or "").encode("idna")) and (urlsplit(mirror).port or 1) > 0
    except ValueError:  # a bracket, a host or a port that is none
        whole = False
    if not whole:
        hint = "write a whole address, such as https://mirror.org/wmt, or a folder; or unset it"
        raise ZooError(f"ZOO_MIRROR is `{mirror}`, which is no address", hint=hint)


def _name(url: str) -> str:
    """The last step of the address, fit for a file's name."""
    name = posixpath.basename(unquote(urlsplit(url).path)) or "archive"
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)[-100:]


def _mirror_hint() -> str:
    mirror = os.environ.get("ZOO_MIRROR")
    if mirror:
        return f"ZOO_MIRROR is `{mirror}` and takes the place of scheme and host: put the file there, or unset it"
    return "look at the address in the spec"
