"""A registry that a web server serves: any that sends files will do, and one that sends ranges lets pulls go on.

It is read by our own transfer, which goes on where a connection broke off; fsspec's has no such thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from specs import ZooError
from zoo.files.transfer import Forbidden, NotThere, transfer
from zoo.models.registries.place import MARK, missing
from zoo.models.registries.revision import MOST
from zoo.report import Report

_NEVER = "models/-/0.json"
"""A path that no registry has: no model is called so."""
_TRIES = 2  # for a small file: there may be another registry


@dataclass(frozen=True)
class Web:
    """Read only, and nothing can be listed: its index says what there is."""

    address: str
    outside = True

    def read(self, path: str, most: int) -> bytes | None:
        with TemporaryDirectory(prefix="zoo-") as folder, _told():
            partial = Path(folder) / f"{Path(path).name}.partial"
            try:
                transfer(f"{self.address}/{path}", partial, Report(), most, _TRIES)
            except NotThere:
                return None
            except Forbidden:
                if not self._is_unlisted:
                    raise
                return None
            return partial.read_bytes() if partial.exists() else b""

    @cached_property
    def _is_unlisted(self) -> bool:
        """Whether it forbids what is not there, too, as a bucket does that strangers may read and not list."""
        return self._refusal(MARK) is None and self._refusal(_NEVER) is Forbidden

    def _refusal(self, path: str) -> type[ZooError] | None:
        with TemporaryDirectory(prefix="zoo-") as folder:
            try:
                transfer(f"{self.address}/{path}", Path(folder) / "asked.partial", Report(), MOST, _TRIES)
            except ZooError as error:
                return type(error)
        return None

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        try:
            with _told():
                transfer(f"{self.address}/{path}", partial, report, size)
        except NotThere:
            raise missing(self.address, path) from None

    def revisions(self) -> None:
        return None


@contextmanager
def _told() -> Iterator[None]:
    """Its errors with a remedy that is one for registries."""
    try:
        yield
    except NotThere:
        raise
    except ZooError as error:
        raise ZooError(error.problem, hint=_HINT, exit_code=1) from None


_HINT = "look at the address (ZOO_REGISTRIES, registries.txt) and the network; what has arrived is kept"
