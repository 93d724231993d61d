"""A registry: names, the revisions of each, and what an old name leads to.

    blobs/sha256/HEX        files of bundles, called by their content
    models/NAME/N.json      revision N of a model, from 1 on without a gap; made once, never changed
    models/OLD/forward.json the name that took the place of an old one
    registry.json           that it is one, and of which format
    index.json, index.html  made again after each publication from what is there; never the truth

What nobody can list (a web server) is found all the same: by asking for one number after another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from specs import ZooError
from zoo.models.registries import revision as revisions
from zoo.models.registries.folder import Folder
from zoo.models.registries.hub import Hub
from zoo.models.registries.place import MARK, Place
from zoo.models.registries.reference import Reference
from zoo.models.registries.remote import Bucket, Remote
from zoo.models.registries.revision import Entry, Forward, Revision, Written, parsed
from zoo.models.registries.web import Web
from zoo.report import Report

INDEX, PAGE = "index.json", "index.html"
_MOST_BEFORE = 10_000
"""Revisions before the newest among which a digest is looked for: a server may have any number that is asked for."""
_LARGEST_INDEX = 100_000_000  # bytes

_KINDS: Mapping[str, Callable[[str], Place]] = {"http": Web, "https": Web, "s3": Bucket, "s3a": Bucket, "hf": Hub}


class Index(Written):
    """What there was when it was written."""

    format: Literal[1] = 1
    models: tuple[Entry, ...]


@dataclass(frozen=True)
class Registry:
    """All of it raises ZooError where the place cannot be reached, or where what is read there is damaged."""

    place: Place

    @property
    def address(self) -> str:
        return self.place.address

    def absent(self) -> str | None:
        """What is said of the place where no registry is there; None where one is."""
        if isinstance(self.place, Folder) and not self.place.folder.exists():
            return "is not there"
        return "is no registry" if self.place.read(MARK, revisions.MOST) is None else None

    def find(self, wanted: Reference) -> Revision | None:
        """The revision that is referred to; None where there is none."""
        if wanted.revision is not None:
            return self.revision(wanted.name, wanted.revision)
        newest = self.newest(wanted.name)
        if wanted.digest is None:
            return newest
        return next((each for each in self._before(newest) if each.digest == wanted.digest), None)

    def newest(self, name: str) -> Revision | None:
        """Of a model: the numbers have no gap, so that it is found by doubling, and then by halving."""
        found, there, absent = None, 0, 1
        while (seen := self.revision(name, absent)) is not None:
            found, there, absent = seen, absent, 2 * absent
        while absent - there > 1:
            middle = (there + absent) // 2
            if (seen := self.revision(name, middle)) is not None:
                found, there = seen, middle
            else:
                absent = middle
        return found

    def revision(self, name: str, number: int) -> Revision | None:
        path = revision_path(name, number)
        content = self.place.read(path, revisions.MOST)
        if content is None:
            return None
        try:
            found = parsed(Revision, content, f"{self.address}/{path}")
            if (found.name, found.revision) != (name, number):
                raise ZooError(f"`{self.address}/{path}` is damaged: it is of `{found.pin}`")
        except ZooError as error:
            earlier = f"`{name}@{number - 1}` is an earlier one; " if number > 1 else ""
            hint = f"{earlier}whoever keeps the registry restores that file, or removes it and publishes again"
            raise ZooError(error.problem, hint=hint, exit_code=1) from None
        return found

    def forward(self, name: str) -> str | None:
        """The name that took the place of this one."""
        path = forward_path(name)
        content = self.place.read(path, revisions.MOST)
        return None if content is None else parsed(Forward, content, f"{self.address}/{path}").to

    def blob(self, sha256: str, most: int) -> bytes | None:
        """A small one."""
        return self.place.read(blob_path(sha256), most)

    def fetch(self, sha256: str, partial: Path, size: int, report: Report) -> None:
        self.place.fetch(blob_path(sha256), partial, size, report)

    def entries(self, unread: Callable[[ZooError], None] | None = None) -> tuple[Entry, ...]:
        """Each model's newest revision, in the order of the names; where nothing can be listed, as the index has it.

        What is damaged or cannot be reached is told to `unread`, and is then as the index has it, if at all; where
        `unread` is None it is raised as ZooError.
        """
        listed = self.place.revisions()
        try:
            known = self._indexed()
        except ZooError:
            if listed is None:
                raise
            known = {}  # what can be listed needs no index: the next publication makes it again
        if listed is None:
            return tuple(known[name] for name in sorted(known))
        return tuple(self._entries(listed, known, unread))

    def _indexed(self) -> dict[str, Entry]:
        content = self.place.read(INDEX, _LARGEST_INDEX)
        index = () if content is None else parsed(Index, content, f"{self.address}/{INDEX}").models
        return {each.name: each for each in index}

    def _entries(
        self, listed: dict[str, int], known: dict[str, Entry], unread: Callable[[ZooError], None] | None
    ) -> Iterator[Entry]:
        for name, number in sorted(listed.items()):
            if name in known and known[name].revision == number:
                yield known[name]
                continue
            try:
                found = self.revision(name, number)
            except ZooError as error:
                if unread is None:
                    raise
                unread(error)
                if name in known:
                    yield known[name]
                continue
            if found is not None:
                yield found.entry

    def _before(self, newest: Revision | None) -> Iterator[Revision]:
        """A revision, and all before it, the newest first."""
        if newest is None:
            return
        yield newest
        for number in range(newest.revision - 1, max(0, newest.revision - 1 - _MOST_BEFORE), -1):
            if (found := self.revision(newest.name, number)) is not None:
                yield found


def registry(address: str) -> Registry:
    """The one at a folder, or at an address of http(s)://, s3://, hf:// and what else fsspec reads.

    Nothing is asked there yet. Raises ZooError where it is no address.
    """
    if not address.strip():
        raise ZooError("the address of a registry is empty", hint=_ADDRESS)
    scheme, remote, _ = address.partition("://")
    try:
        host = unquote(urlsplit(address).netloc)
    except ValueError:
        host = ""
    local = not remote or scheme == "file"
    if local and not host and not _HALF.match(address):
        folder = url2pathname(urlsplit(address).path) if remote else address
        return Registry(Folder(Path(os.path.expanduser(folder)).absolute()))
    if local or not host:
        raise ZooError(f"`{address}` is no address of a registry", hint=_ADDRESS)
    return Registry(_KINDS.get(scheme, Remote)(address.rstrip("/")))


_ADDRESS = (
    "a registry is a folder (`./NAME` where the name has a colon), or a whole address such as https://models.org/zoo "
    "or s3://bucket/zoo"
)
_HALF = re.compile(r"[a-z][a-z0-9]+:(?!//)")  # a scheme, and a slash or two too few


def blob_path(sha256: str) -> str:
    return f"blobs/sha256/{sha256}"


def revision_path(name: str, number: int) -> str:
    return f"models/{name}/{number}.json"


def forward_path(name: str) -> str:
    return f"models/{name}/forward.json"
