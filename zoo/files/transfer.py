"""Download one file over HTTP, and resume it when the connection breaks."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import quote

from specs import ZooError
from zoo.files.atomic import convert_disk_errors
from zoo.files.storage import require_space
from zoo.report import Report, size, sizes

_MAX_FAILURES = 5
"""Maximum number of consecutive attempts that receive no new data."""
_MAX_ATTEMPTS = 50
"""Maximum number of attempts in total. This limit ends downloads from a server that sends little data each time."""
_TIMEOUT = 30.0
"""Seconds in which a connection must deliver `_MIN_BYTES` bytes. Otherwise, it counts as broken."""
_MIN_BYTES = 1 << 14
_MAX_WAIT = 60.0
"""Longest time in seconds that a server can make the download wait."""
_CHUNK = 1 << 18
_ADDRESS_HINT = "check the URL, or set ZOO_MIRROR to a folder or URL that has a copy of the file"
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_NUMBER = "[0-9]{1,18}"
_QUOTED_CHARACTERS = 200  # maximum length of text from a server in an error message
_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


@dataclass(frozen=True)
class _Version:
    """Version of a remote file, as the server describes it. Properties that the server does not send are None."""

    validator: str | None = None
    """Strong `ETag` header or, if the server sends none, the `Last-Modified` header."""
    total: int | None = None
    """Size in bytes."""

    def differs(self, other: _Version) -> bool:
        """Return whether two versions of a remote file differ in a property that is known for both."""
        known = ((self.validator, other.validator), (self.total, other.total))
        return any(None not in pair and pair[0] != pair[1] for pair in known)


class _RetryError(Exception):
    """A download attempt failed, but can be repeated.

    Attributes:
        wait: Number of seconds that the server asks the client to wait. None if the server sends no number.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class UnreachableError(ZooError):
    """The server cannot be reached, or the connection breaks repeatedly."""


class NotFoundError(ZooError):
    """The server has no file at this URL."""


class ForbiddenError(ZooError):
    """The server denies access to this URL. Some S3 buckets return the same status for missing files."""


_ERRORS: Mapping[int, type[ZooError]] = {403: ForbiddenError, 404: NotFoundError, 410: NotFoundError}


def is_offline() -> bool:
    """Return whether `ZOO_OFFLINE` forbids network access."""
    return os.environ.get("ZOO_OFFLINE", "0") not in ("", "0")


def transfer(
    url: str, partial: Path, report: Report, max_bytes: int | None = None, max_failures: int = _MAX_FAILURES
) -> None:
    """Download a file. Resume it if `partial` already contains its beginning.

    If the server is busy or the connection breaks, wait with increasing delays and try again.

    Args:
        url: URL of the file.
        partial: The file to write. It is kept if the download fails, so that the next call can resume the download.
        report: Receives progress and warnings.
        max_bytes: The maximum size of the file in bytes. If None, the size is not limited.
        max_failures: The number of consecutive attempts without new data after which the download fails.

    Raises:
        NotFoundError: The server has no such file.
        ForbiddenError: The server denies access.
        UnreachableError: The download fails.
        ZooError: The file is larger than `max_bytes`, or the disk is full.
    """
    longest, failures, attempts = _size(partial), 0, 0
    while True:
        attempts += 1
        try:
            with convert_disk_errors(partial):
                return _attempt(url, partial, report, max_bytes)
        except (_RetryError, *_NETWORK_ERRORS) as error:
            failures = 1 if _size(partial) > longest else failures + 1
            longest = max(longest, _size(partial))
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
            if failures >= max_failures or attempts >= _MAX_ATTEMPTS:
                hint = "run the same command again to resume the download, or set ZOO_MIRROR to another source"
                raise UnreachableError(f"`{url}` could not be downloaded: {reason}", hint=hint, exit_code=1) from error
            wait = getattr(error, "wait", None) or 2.0 ** (failures - 1)
            report.warn(f"`{url}`: {reason}; trying again in {wait:.0f} s")
            time.sleep(wait)


def discard(partial: Path) -> None:
    """Remove a partial download, and the file that describes its version."""
    partial.unlink(missing_ok=True)
    _version_file(partial).unlink(missing_ok=True)


def _attempt(url: str, partial: Path, report: Report, max_bytes: int | None) -> None:
    """Request the rest of a file once, and append it to `partial`."""
    offset, version = _size(partial), _read_version(partial)
    headers = {"User-Agent": "zoo"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if version.validator:
            headers["If-Range"] = version.validator
    try:
        request = urllib.request.Request(quote(url, safe="%/:=&?~#+!$,;'@()*[]"), headers=headers)
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            _handle_status(error, url, partial, offset, version)
        return
    except (ValueError, OverflowError, http.client.InvalidURL) as error:
        problem = f"`{url}` is not a valid URL, or redirects to an invalid one: {str(error)[:_QUOTED_CHARACTERS]}"
        raise ZooError(problem, hint=_ADDRESS_HINT, exit_code=1) from None
    with response:
        start, current = _parse_headers(response.status, response.headers)
        if start not in (0, offset) or (start and current.differs(version)):
            discard(partial)
            raise _RetryError("the file has changed since the download began")
        if not start:
            discard(partial)
            _version_file(partial).write_text(json.dumps(asdict(current)))
        total = current.total if current.total is not None or not start else version.total
        _require_at_most(url, partial, total or 0, max_bytes)
        _receive(response, partial, start, total, report, max_bytes)
        _require_at_most(url, partial, _size(partial), max_bytes)


def _require_at_most(url: str, partial: Path, count: int, max_bytes: int | None) -> None:
    if max_bytes is not None and count > max_bytes:
        discard(partial)
        problem = f"the file at `{url}` is larger than the limit of {size(max_bytes)}"
        raise ZooError(problem, hint="check that the URL leads to the right file", exit_code=1)


def _receive(
    response: HTTPResponse, partial: Path, start: int, total: int | None, report: Report, max_bytes: int | None
) -> None:
    """Write a response body to `partial`, starting at byte `start`. Stop if the file exceeds `max_bytes` bytes."""
    name = partial.stem
    require_space(partial.parent, (total or start) - start, f"`{name}`")
    with (
        report.progress(f"downloading {name}", total, "bytes") as progress,
        partial.open("r+b" if start else "wb") as file,
    ):
        file.seek(start)
        file.truncate()
        progress.advance(start)
        measured_from, time_from = start, time.monotonic()
        while (max_bytes is None or file.tell() <= max_bytes) and (chunk := _read(response)):
            file.write(chunk)
            progress.advance(len(chunk))
            if (now := time.monotonic()) - time_from > _TIMEOUT:
                if file.tell() - measured_from < _MIN_BYTES:
                    raise _RetryError(f"the server sends less than {size(_MIN_BYTES)} in {_TIMEOUT:.0f} s")
                measured_from, time_from = file.tell(), now
        end = file.tell()
    if total is not None and end != total:
        end_text, total_text = sizes(end, total)
        if end < total:
            raise _RetryError(f"the connection was lost after {end_text} of {total_text}")
        discard(partial)
        raise _RetryError(f"the server sent {end_text} but had announced {total_text}")


def _read(response: HTTPResponse) -> bytes:
    """Return the bytes that have arrived, or no bytes at the end of the response.

    An OSError here comes from the network, not from the local disk. A ValueError comes from a malformed response.
    """
    try:
        return response.read1(_CHUNK)
    except OSError as error:
        raise _RetryError(f"the connection was lost: {error.strerror or error}") from error
    except ValueError as error:
        raise _RetryError(f"the response is malformed: {str(error)[:_QUOTED_CHARACTERS]}") from error


def _parse_headers(status: int, headers: Message) -> tuple[int, _Version]:
    """Return the byte offset in the remote file at which the response body begins, and the version of the file."""
    tag = headers.get("ETag")
    validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if status == HTTPStatus.PARTIAL_CONTENT:
        match = re.match(rf"bytes ({_NUMBER})-[0-9]+/({_NUMBER}|\*)", headers.get("Content-Range") or "")
        if not match:
            return -1, _Version()
        return int(match[1]), _Version(validator, None if match[2] == "*" else int(match[2]))
    return 0, _Version(validator, _parse_number(headers.get("Content-Length")))


def _parse_number(header: str | None) -> int | None:
    return int(header) if header and re.fullmatch(_NUMBER, header) else None


def _handle_status(error: urllib.error.HTTPError, url: str, partial: Path, offset: int, version: _Version) -> None:
    """Raise an exception for an HTTP error. Return normally if the status means that the file is already complete."""
    message = f"{error.code} {str(error.reason)[:_QUOTED_CHARACTERS]}"
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
        if (error.headers.get("Content-Range") or "") == f"bytes */{offset}" and version.total in (None, offset):
            return
        discard(partial)
        raise _RetryError("the file has changed since the download began")
    if error.code in _BUSY:
        seconds = _parse_number(error.headers.get("Retry-After"))
        raise _RetryError(f"the server returned {message}", None if seconds is None else min(float(seconds), _MAX_WAIT))
    problem = f"`{url}` cannot be downloaded: the server returned {message}"
    raise _ERRORS.get(error.code, ZooError)(problem, hint=_ADDRESS_HINT, exit_code=1)


def _version_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_version(partial: Path) -> _Version:
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return _Version(**json.loads(_version_file(partial).read_bytes()))
    return _Version()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
