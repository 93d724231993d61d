"""One file over HTTP, however often the connection breaks: it goes on from where it broke off."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from specs import ZooError
from zoo.files.files import explained, require_space
from zoo.report import Report, size, sizes

_TRIES = 5  # without a byte more than ever before
_TIMEOUT = 30.0  # seconds in which not a byte arrives
_LONGEST_WAIT = 60.0
_CHUNK = 1 << 18
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_NUMBER = "[0-9]{1,18}"  # no file has more bytes
_SHOWN = 200  # characters of what others wrote
_NETWORK = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


@dataclass(frozen=True)
class _Version:
    """What tells whether a file is still the one whose beginning is here."""

    validator: str | None = None
    """Its strong ETag, else its date."""
    total: int | None = None
    """Its bytes."""

    def differs(self, other: _Version) -> bool:
        """Whether what both know is not the same."""
        known = ((self.validator, other.validator), (self.total, other.total))
        return any(None not in pair and pair[0] != pair[1] for pair in known)


class _Again(Exception):
    """Worth another try, after `wait` seconds if the server named a time."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class NotThere(ZooError):
    """The server says that nothing lies at the address."""


class Forbidden(ZooError):
    """The server says that what lies at the address may not be read; or, of a bucket, whether anything does."""


_KINDS: Mapping[int, type[ZooError]] = {403: Forbidden, 404: NotThere, 410: NotThere}


def offline() -> bool:
    """Whether ZOO_OFFLINE says that the network is left alone."""
    return os.environ.get("ZOO_OFFLINE", "0") not in ("", "0")


def transfer(url: str, partial: Path, report: Report, most: int | None = None, tries: int | None = None) -> None:
    """Brings all of what lies at `url` into the file `partial`, which may hold its beginning from another time.

    Tries again, waiting longer and longer, while the server is busy or the connection breaks (`tries` times); as long
    as more arrives than ever before, without end. Raises ZooError where that does not help, where the server refuses,
    where more than `most` bytes come or the disk is full; what has arrived stays then. Raises NotThere where nothing
    is, and Forbidden where it may not be read.
    """
    longest, failures, tries = _size(partial), 0, tries or _TRIES
    while True:
        try:
            with explained(partial):
                return _go_on(url, partial, report, most)
        except (_Again, *_NETWORK) as error:
            failures = 1 if _size(partial) > longest else failures + 1
            longest = max(longest, _size(partial))
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
            if failures >= tries:
                hint = "what has arrived is kept: the same command goes on from there; ZOO_MIRROR names another source"
                raise ZooError(f"`{url}` could not be fetched: {reason}", hint=hint, exit_code=1) from error
            wait = getattr(error, "wait", None) or 2.0 ** (failures - 1)
            report.warn(f"`{url}`: {reason}; trying again in {wait:.0f} s")
            time.sleep(wait)


def discard(partial: Path) -> None:
    """Removes what has arrived, and what is known of it."""
    partial.unlink(missing_ok=True)
    _notes(partial).unlink(missing_ok=True)


def _go_on(url: str, partial: Path, report: Report, most: int | None) -> None:
    begun, version = _size(partial), _remembered(partial)
    request = urllib.request.Request(quote(url, safe="%/:=&?~#+!$,;'@()*[]"), headers={"User-Agent": "zoo"})
    if begun:
        request.add_header("Range", f"bytes={begun}-")
        if version.validator:
            request.add_header("If-Range", version.validator)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            _refused(error, url, partial, begun, version)
        return
    except ValueError as error:
        raise ZooError(f"`{url}` leads to what is no address: {str(error)[:_SHOWN]}", exit_code=1) from None
    with response:
        start, found = _announced(response.status, response.headers)
        if start not in (0, begun) or (start and found.differs(version)):
            discard(partial)
            raise _Again("it has changed since its beginning was fetched")
        if not start:
            discard(partial)
            _notes(partial).write_text(json.dumps(asdict(found)))
        total = found.total if found.total is not None or not start else version.total
        _require_few(url, partial, total or 0, most)
        _receive(response, partial, start, total, report, most)
        _require_few(url, partial, _size(partial), most)


def _require_few(url: str, partial: Path, count: int, most: int | None) -> None:
    if most is not None and count > most:
        discard(partial)
        raise ZooError(f"`{url}` has more than the {size(most)} that it may have", exit_code=1)


def _receive(
    response: Any, partial: Path, start: int, total: int | None, report: Report, most: int | None = None
) -> None:
    """Appends the body from `start` on; no more of it once there are more than `most` bytes."""
    name = partial.stem
    require_space(partial.parent, (total or start) - start, f"`{name}`")
    with (
        report.progress(f"fetching {name}", total, "bytes") as progress,
        partial.open("r+b" if start else "wb") as file,
    ):
        file.seek(start)
        file.truncate()
        progress.advance(start)
        while (most is None or file.tell() <= most) and (chunk := _read(response)):
            file.write(chunk)
            progress.advance(len(chunk))
        end = file.tell()
    if total is not None and end < total:
        has, wanted = sizes(end, total)
        raise _Again(f"the connection broke off after {has} of {wanted}")
    if total is not None and end > total:
        discard(partial)
        has, wanted = sizes(end, total)
        raise _Again(f"{has} arrived where {wanted} were announced")


def _read(response: Any) -> bytes:
    """What has arrived next. Whatever goes wrong here does so on the way, and not on our disk."""
    try:
        chunk: bytes = response.read(_CHUNK)
    except OSError as error:
        raise _Again(f"the connection broke off: {error.strerror or error}") from error
    return chunk


def _announced(status: int, headers: Message) -> tuple[int, _Version]:
    """Where the body begins, and of which version of the file it is."""
    tag = headers.get("ETag")
    validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if status == HTTPStatus.PARTIAL_CONTENT:
        found = re.match(rf"bytes ({_NUMBER})-[0-9]+/({_NUMBER}|\*)", headers.get("Content-Range") or "")
        if not found:
            return -1, _Version()
        return int(found[1]), _Version(validator, None if found[2] == "*" else int(found[2]))
    return 0, _Version(validator, _number(headers.get("Content-Length")))


def _number(said: str | None) -> int | None:
    """What a header says; None where that is no number."""
    return int(said) if said and re.fullmatch(_NUMBER, said) else None


def _refused(error: urllib.error.HTTPError, url: str, partial: Path, begun: int, version: _Version) -> None:
    """An answer that is no file. Returns where it means that nothing is missing."""
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and begun:
        if (error.headers.get("Content-Range") or "") == f"bytes */{begun}" and version.total in (None, begun):
            return
        discard(partial)
        raise _Again("it has changed since its beginning was fetched")
    if error.code in _BUSY:
        asked = _number(error.headers.get("Retry-After"))
        wait = None if asked is None else min(float(asked), _LONGEST_WAIT)
        raise _Again(f"the server answers {error.code} {str(error.reason)[:_SHOWN]}", wait)
    hint = "look at the address; ZOO_MIRROR names a folder or an address that has copies"
    raise _KINDS.get(error.code, ZooError)(
        f"`{url}` cannot be fetched: the server answers {error.code} {str(error.reason)[:_SHOWN]}",
        hint=hint,
        exit_code=1,
    )


def _notes(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _remembered(partial: Path) -> _Version:
    try:
        return _Version(**json.loads(_notes(partial).read_bytes()))
    except (OSError, ValueError, TypeError):
        return _Version()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
