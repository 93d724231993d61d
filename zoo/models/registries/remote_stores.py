"""Storage of registries on the network: web servers, S3 and the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import fsspec
from fsspec.callbacks import Callback

from specs import ZooError, install_hint
from zoo.files.transfer import ForbiddenError, NotFoundError, transfer
from zoo.models.registries.file_stores import MARKER, FileStore, append_chunks, missing_blob, newest_numbers
from zoo.models.registries.revision import MAX_BYTES
from zoo.report import SILENT, Progress, Report, size

with suppress(ImportError):  # optional
    import huggingface_hub.errors

_ABSENT_PATH = "models/-/0.json"
"""Path that never exists, because `-` is not a valid model name. It is requested to find out how a server reports
missing files."""
_MAX_FAILURES = 2
"""Maximum number of attempts to read a small file. The number is low, because another registry may have the model."""
_CHUNK = 1 << 23
_CONFLICT_STATUSES = {409, 412}  # another commit came first
_MAX_COMMITS = 50


@dataclass(frozen=True)
class WebStore:
    """Read access to a registry's files on a web server.

    Web servers cannot list their files, so the index of the registry is used instead.

    Downloads use zoo's own HTTP client, because fsspec's client does not resume interrupted downloads.
    """

    address: str

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Download a small file. Return None if it does not exist."""
        with _with_registry_hint():
            try:
                return self._download(path, max_bytes)
            except NotFoundError:
                return None
            except ForbiddenError:
                if not self._forbids_missing_files:
                    raise
                return None

    @cached_property
    def _forbids_missing_files(self) -> bool:
        """Whether the server returns status 403 for missing files, as S3 does for buckets that cannot be listed."""
        with suppress(ZooError):
            self._download(MARKER, MAX_BYTES)
            try:
                self._download(_ABSENT_PATH, MAX_BYTES)
            except ForbiddenError:
                return True
        return False

    def _download(self, path: str, max_bytes: int) -> bytes:
        with TemporaryDirectory(prefix="zoo-") as folder:
            partial = Path(folder) / f"{Path(path).name}.partial"
            transfer(f"{self.address}/{path}", partial, SILENT, max_bytes, _MAX_FAILURES)
            return partial.read_bytes() if partial.exists() else b""

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        """Download a file to `partial`, or resume its download."""
        try:
            with _with_registry_hint():
                transfer(f"{self.address}/{path}", partial, report, size)
        except NotFoundError:
            raise missing_blob(self.address, path) from None

    def newest_revisions(self) -> None:
        """Return None, because a web server cannot list its files."""


@contextmanager
def _with_registry_hint() -> Iterator[None]:
    """If the `with` block raises a ZooError, replace its hint with a hint about registries.

    NotFoundError is raised unchanged.
    """
    try:
        yield
    except NotFoundError:
        raise
    except ZooError as error:
        hint = "check the address (in ZOO_REGISTRIES or registries.txt) and the network; a partial download is kept"
        raise ZooError(error.problem, hint=hint, exit_code=1) from None


class FsspecStore:
    """Read access to a registry's files on an fsspec file system."""

    extra: ClassVar[str]
    """Name of zoo's optional dependency group that provides the file system."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._scheme = address.partition("://")[0]

    @cached_property
    def files(self) -> Any:
        """The fsspec file system, without caching, because the files may change at any time."""
        try:
            return fsspec.filesystem(self._scheme, skip_instance_cache=True, use_listings_cache=False)
        except ImportError as error:
            raise ZooError(f"`{self.address}` cannot be reached: {error}", hint=install_hint(self.extra)) from None

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a small file, or None if the file does not exist."""
        try:
            content = self._read_range(path, 0, max_bytes + 1)  # one more byte, to detect that the file is too large
        except FileNotFoundError:
            return None
        if len(content) > max_bytes:
            problem = f"`{self._address_of(path)}` is larger than the limit of {size(max_bytes)}"
            raise ZooError(problem, hint="check that the address belongs to a registry", exit_code=1)
        return content

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        """Download a file to `partial` in chunks, or resume its download."""

        def read(offset: int) -> bytes:
            try:
                return self._read_range(path, offset, min(offset + _CHUNK, size))
            except FileNotFoundError:
                raise missing_blob(self.address, path) from None

        with report.progress(f"downloading {partial.stem}", size, "bytes") as progress:
            append_chunks(partial, size, read, progress)

    def newest_revisions(self) -> dict[str, int]:
        """Return the newest revision number of each model, keyed by model name."""
        with self._convert_errors(), suppress(FileNotFoundError):
            return newest_numbers(list(self.files.find(self._address_of("models"))))
        return {}

    def has(self, path: str, size: int) -> bool:
        """Return whether the file exists and has `size` bytes."""
        self.files.invalidate_cache()
        return self._size(path) == size

    def _read_range(self, path: str, start: int, end: int) -> bytes:
        with self._convert_errors():
            content: bytes = self.files.cat_file(self._address_of(path), start=start, end=end)
            return content

    def _size(self, path: str) -> int | None:
        with self._convert_errors(), suppress(FileNotFoundError):
            return int(self.files.info(self._address_of(path))["size"])
        return None

    def _address_of(self, path: str) -> str:
        return f"{self.address}/{path}"

    @contextmanager
    def _convert_errors(self, *, writing: bool = False) -> Iterator[None]:
        """Convert exceptions in the `with` block to ZooErrors. When reading, FileNotFoundError is not converted."""
        try:
            yield
        except ZooError:
            raise
        except FileNotFoundError as error:
            if not writing:
                raise
            problem = f"`{self.address}` cannot be written to: {error}"
            raise ZooError(problem, hint="create the bucket or the repository first") from None
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            hint = "check the address, your permissions there, and the network"
            raise ZooError(f"`{self.address}` cannot be reached: {reason[:300]}", hint=hint, exit_code=1) from error


class S3Store(FsspecStore):
    """Files in a bucket on S3 or an S3-compatible service. Writes are atomic."""

    extra = "s3"

    def put(self, path: str, file: Path, progress: Progress) -> None:
        """Upload a local file to `path`."""
        with self._convert_errors(writing=True):
            self.files.put_file(str(file), self._address_of(path), callback=_ProgressCallback(progress))

    def write(self, path: str, content: bytes, *, replace: bool) -> bool:
        """Write a small file atomically. Return False if the file exists and `replace` is False."""
        mode = "overwrite" if replace else "create"  # `create` sends If-None-Match
        with self._convert_errors(writing=True):
            try:
                self.files.pipe_file(self._address_of(path), content, mode=mode)
            except FileNotFoundError:
                raise
            except Exception:  # services report an existing object in different ways
                if replace or self._size(path) is None:
                    raise
                return False
        return True


class _ProgressCallback(Callback):  # type: ignore[misc]
    """Callback through which fsspec reports the progress of an upload."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def relative_update(self, inc: int = 1) -> None:
        super().relative_update(inc)
        self._progress.advance(inc)


class HubStore(FsspecStore):
    """Files in a repository on the Hugging Face Hub. Each write is a commit.

    The address is `hf://ORG/NAME` or `hf://datasets/ORG/NAME`. A folder may follow. The repository must exist.
    """

    extra = "hf"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        owner, _, name = address.partition("://")[2].removeprefix("datasets/").partition("/")
        if not owner or not name:
            hint = "write `hf://ORG/NAME` or `hf://datasets/ORG/NAME`"
            raise ZooError(f"`{address}` is not the address of a repository on the Hugging Face Hub", hint=hint)

    def put(self, path: str, file: Path, progress: Progress) -> None:
        """Commit a local file as `path`."""
        self.write(path, file, replace=True)
        progress.advance(file.stat().st_size)

    def write(self, path: str, content: Path | bytes, *, replace: bool) -> bool:
        """Commit a file with the given content. Return False if the file exists and `replace` is False.

        If another commit came first, try again. `content` is the path of a local file, or the content itself.
        """
        with self._convert_errors(writing=True):
            place = self.files.resolve_path(self.address)
        repository = {"repo_id": place.repo_id, "repo_type": place.repo_type, "revision": place.revision}
        name, head = f"{place.path_in_repo}/{path}".lstrip("/"), None
        for _ in range(_MAX_COMMITS):
            with self._convert_errors(writing=True):
                if not replace:
                    head = self._api.repo_info(**repository).sha
                    if self._api.file_exists(filename=name, **{**repository, "revision": head}):
                        return False
                addition = huggingface_hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=content)
                try:
                    self._api.create_commit(
                        operations=[addition], commit_message=f"Add {path}", parent_commit=head, **repository
                    )
                    return True
                except huggingface_hub.errors.HfHubHTTPError as error:
                    if error.response is None or error.response.status_code not in _CONFLICT_STATUSES:
                        raise
        problem = f"`{path}` could not be committed to `{self.address}`: other commits came first {_MAX_COMMITS} times"
        raise ZooError(problem, hint="run the command again later", exit_code=1)

    @cached_property
    def _api(self) -> Any:
        files = self.files  # first, because it raises an error with a hint if a package is missing
        return huggingface_hub.HfApi(endpoint=files.endpoint, token=files.token)


_Stores = Mapping[str, Callable[[str], FileStore]]
STORES: _Stores = {"http": WebStore, "https": WebStore, "s3": S3Store, "s3a": S3Store, "hf": HubStore}
"""Classes of stores, keyed by the scheme of the address."""
