"""Download archives once, check their SHA-256, and store them for later use.

`corpus.lock` records the SHA-256 of each download. Later downloads from the same URL must have the same SHA-256.

Two environment variables control the source:

* `ZOO_MIRROR` replaces the scheme and host of every URL with a folder or another URL. With the folder `/data/mirror`,
  `http://host/a/b.tgz` becomes the file `/data/mirror/a/b.tgz`, which is used without copying it. With the URL
  `https://mirror.org/wmt`, it becomes `https://mirror.org/wmt/a/b.tgz`.
* `ZOO_OFFLINE=1` forbids network access.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from specs import ZooError
from zoo.files import storage
from zoo.files.atomic import convert_disk_errors, flush_to_disk, partial_path, write_json
from zoo.files.locks import exclusive
from zoo.files.manifest import ENTRY, ManifestEntry, sha256
from zoo.files.reading import read_json
from zoo.files.transfer import NotFoundError, UnreachableError, discard, is_offline, transfer
from zoo.report import Report


@dataclass(frozen=True)
class Fetched:
    """A downloaded file whose content was checked."""

    path: Path
    sha256: str


def fetch(url: str, expected: str | None, report: Report, command: str = "the same command") -> Fetched:
    """Return the file at a URL. Download it unless it was downloaded before.

    Args:
        url: The URL, http(s):// or file://.
        expected: The SHA-256 that the file must have. If None, the file must have the SHA-256 that `corpus.lock`
            records for the URL. If there is no record yet, record the SHA-256 of the file, and warn.
        report: Receives progress and warnings.
        command: The command to run again after a failure, for error messages.

    Raises:
        ZooError: The file has a different SHA-256, or cannot be downloaded.
    """
    source = _source(url)
    if isinstance(source, Path):
        if not source.is_file():
            problem, hint = f"there is no file `{source}`, which should be used for `{url}`", "check the URL"
            if mirror := os.environ.get("ZOO_MIRROR"):
                replaced = f"ZOO_MIRROR is `{mirror}` and replaces the scheme and host of the URL"
                hint = f"{replaced}: save the file as `{source}`, or unset ZOO_MIRROR"
            raise ZooError(problem, hint=hint, exit_code=1)
        return _accept(source, url, expected, report)
    path = path_of(url)
    with convert_disk_errors(path), exclusive(path, report):
        found = _downloaded_before(path, url, expected, report)
        return found or _download(path, source, url, expected, report, command)


def path_of(url: str) -> Path:
    """Return the path where the file from a URL is stored. Users can also save the file there themselves."""
    return storage.archives() / f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{_file_name(url)}"


def record_or_compare(address: str, sha256: str, bytes: int, unspecified: str, report: Report) -> None:
    """Record the SHA-256 of downloaded content, or compare it with the recorded SHA-256.

    Args:
        address: The address that the content was downloaded from.
        sha256: The SHA-256 of the content.
        bytes: The size of the content in bytes.
        unspecified: Property that the user could specify to verify the first download, such as "SHA-256". The warning
            contains it.
        report: Receives a warning if this is the first download from the address.

    Raises:
        ZooError: The first download from this address had a different SHA-256.
    """
    recorded = _records().get(address)
    if recorded is not None and recorded.sha256 != sha256:
        hint = f"if the change is intended, remove the URL from `{records_file()}` and run the command again"
        problem = f"the file from `{address}` has the SHA-256 {sha256}, but had {recorded.sha256} at its first download"
        raise ZooError(problem, hint=hint, exit_code=1)
    _record(address, ManifestEntry(sha256, bytes))
    if recorded is None and not address.startswith("file:"):
        report.warn(
            f"no {unspecified} is specified for `{address}`, so this first download could not be verified; its SHA-256 "
            f"{sha256} was recorded in `{records_file()}`, and later downloads are checked against it"
        )


def discard_damaged(url: str, fetched: Fetched) -> None:
    """Remove a download that turned out to be damaged, so that the next call to `fetch` downloads it again.

    If the server sent the damaged content, remove its SHA-256 from `corpus.lock` too. If the file was corrupted on
    disk after the download, keep the recorded SHA-256.
    """
    with exclusive(records_file()):
        records, actual = _records(), sha256(fetched.path)
        if (record := records.get(url)) is not None and record.sha256 == actual:
            _write_records({each: records[each] for each in records if each != url})
    if fetched.path == path_of(url):
        fetched.path.unlink()


def recorded_sha256(url: str) -> str | None:
    """Return the SHA-256 of the first download from a URL. None if there was no download."""
    record = _records().get(url)
    return None if record is None else record.sha256


def records_file() -> Path:
    """Return the path of `corpus.lock`, the file that records the SHA-256 of each download."""
    return storage.archives() / "corpus.lock"


def _records() -> dict[str, ManifestEntry]:
    """Return the SHA-256 and the size of each file at its first download, keyed by URL."""
    path = records_file()
    if not path.exists():
        return {}
    try:
        return {url: ENTRY.validate_python(record) for url, record in read_json(path).items()}
    except ValueError:
        hint = "remove the file: the next download of each archive records its SHA-256 again"
        raise ZooError(f"`{path}` is damaged", hint=hint, exit_code=1) from None


def _record(url: str, record: ManifestEntry) -> None:
    """Add a download to `corpus.lock`. Keep the entries that other processes add at the same time."""
    if _records().get(url) != record:
        with exclusive(records_file()):
            _write_records({**_records(), url: record})


def _write_records(records: Mapping[str, ManifestEntry]) -> None:
    write_json(records_file(), {url: asdict(records[url]) for url in sorted(records)})


def _downloaded_before(path: Path, url: str, expected: str | None, report: Report) -> Fetched | None:
    """Return the file of an earlier download. None if there is no such file, or if it is damaged."""
    if not path.exists():
        return None
    recorded = _records().get(url)
    # The file was hashed when it was downloaded, so it is enough to compare its size now.
    if recorded and recorded.bytes == path.stat().st_size and expected in (None, recorded.sha256):
        return Fetched(path, recorded.sha256)
    try:
        return _accept(path, url, expected, report)
    except ZooError as error:
        report.warn(f"{error.summary}; downloading the file again")
        return None


def _download(path: Path, source: str, url: str, expected: str | None, report: Report, command: str) -> Fetched:
    """Download a file. A file with a wrong SHA-256 is removed."""
    if is_offline():
        hint = f"unset ZOO_OFFLINE, set ZOO_MIRROR to a folder that has the file, or save the file as `{path}`"
        problem = f"`{url}` has not been downloaded yet, and ZOO_OFFLINE forbids network access"
        raise ZooError(problem, hint=f"{hint}; then run {command} again")
    partial = partial_path(path)
    try:
        transfer(source, partial, report)
    except (UnreachableError, NotFoundError) as error:
        hint = f"{error.hint}; alternatively, save the file as `{path}` and run {command} again"
        raise ZooError(error.problem, hint=hint, exit_code=1) from None
    flush_to_disk(partial)  # before it is recorded, because later only its size is checked
    try:
        fetched = _accept(partial, url, expected, report)
    except ZooError:
        discard(partial)
        raise
    os.replace(partial, path)
    flush_to_disk(path.parent)
    discard(partial)
    return Fetched(path, fetched.sha256)


def _accept(path: Path, url: str, expected: str | None, report: Report) -> Fetched:
    """Check the SHA-256 of a downloaded file, and record it in `corpus.lock`."""
    actual, bytes = sha256(path), path.stat().st_size
    if expected is None:
        record_or_compare(url, actual, bytes, "SHA-256", report)
    elif expected != actual:
        hint = "compare both values with the SHA-256 from the authors: the file or the specified `sha256` is wrong"
        problem = f"the file from `{url}` has the SHA-256 {actual}, but {expected} is specified"
        raise ZooError(problem, hint=hint, exit_code=1)
    else:
        _record(url, ManifestEntry(actual, bytes))
    return Fetched(path, actual)


def _source(url: str) -> str | Path:
    """Return the source of a download: a URL, or the path of a local file.

    For a file:// URL, this is a local file. In other URLs, `ZOO_MIRROR` replaces the scheme and host if it is set.
    """
    try:
        mirror, parts = os.environ.get("ZOO_MIRROR"), urlsplit(url)
    except ValueError as error:
        problem = f"`{url}` is not a valid URL: {error}"
        raise ZooError(problem, hint="check the URL", exit_code=1) from None
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    if not mirror:
        return url
    inner = posixpath.normpath(f"/{parts.path}").lstrip("/")  # `..` cannot leave the mirror
    if mirror.startswith(("http://", "https://")):
        return f"{mirror.rstrip('/')}/{inner}" + (f"?{parts.query}" if parts.query else "")
    folder = url2pathname(urlsplit(mirror).path) if mirror.startswith("file://") else mirror
    return Path(os.path.expanduser(folder)) / posixpath.normpath(f"/{unquote(inner)}").lstrip("/")


def _file_name(url: str) -> str:
    """Return a file name for a URL: the last component of its path, with `_` in place of unusual characters."""
    name = posixpath.basename(unquote(urlsplit(url).path)) or "archive"
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)[-100:]
