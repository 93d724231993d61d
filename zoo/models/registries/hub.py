"""A registry in a repository of the Hugging Face Hub: read as files, written by commits."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.models.registries.remote import Remote
from zoo.report import Progress

with suppress(ImportError):  # an extra: without it fsspec's reading says so
    import huggingface_hub.errors

_TAKEN = {409, 412}  # statuses: somebody else's commit came first
_TRIES = 50


class Hub(Remote):
    """`hf://ORG/NAME`, of a repository that is there; `hf://datasets/ORG/NAME`, and a folder behind either."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        owner, _, name = address.partition("://")[2].removeprefix("datasets/").partition("/")
        if not owner or not name:
            hint = "write hf://ORG/NAME, or hf://datasets/ORG/NAME"
            raise ZooError(f"`{address}` is no address of a repository", hint=hint)

    def has(self, path: str, size: int) -> bool:
        self.files.invalidate_cache()
        return self._size(path) == size

    def put(self, path: str, file: Path, progress: Progress) -> None:
        for _ in range(_TRIES):
            if self._commit(path, str(file), None):
                return progress.advance(file.stat().st_size)
        raise self._busy(path)

    def create(self, path: str, content: bytes) -> bool:
        for _ in range(_TRIES):
            with self._told():
                head = self._api.repo_info(**self._repository).sha
                if self._api.file_exists(filename=self._inside(path), **{**self._repository, "revision": head}):
                    return False
            if self._commit(path, content, head):
                return True
        raise self._busy(path)

    def replace(self, path: str, content: bytes) -> None:
        for _ in range(_TRIES):
            if self._commit(path, content, None):
                return
        raise self._busy(path)

    def _busy(self, path: str) -> ZooError:
        return ZooError(f"`{self.address}` is written to again and again: `{path}` finds no place", exit_code=1)

    def _commit(self, path: str, content: str | bytes, head: str | None) -> bool:
        """One file, on top of `head` if that is given; False where somebody else's commit came first."""
        with self._told():
            adding = huggingface_hub.CommitOperationAdd(path_in_repo=self._inside(path), path_or_fileobj=content)
            try:
                self._api.create_commit(
                    operations=[adding], commit_message=f"Add {path}", parent_commit=head, **self._repository
                )
            except huggingface_hub.errors.HfHubHTTPError as error:
                if error.response is None or error.response.status_code not in _TAKEN:
                    raise
                return False
        return True

    @cached_property
    def _api(self) -> Any:
        files = self.files  # first: it says how what is missing is installed
        return huggingface_hub.HfApi(endpoint=files.endpoint, token=files.token)

    @cached_property
    def _place(self) -> Any:
        with self._told():
            return self.files.resolve_path(self.address)

    @property
    def _repository(self) -> dict[str, Any]:
        place = self._place
        return {"repo_id": place.repo_id, "repo_type": place.repo_type, "revision": place.revision}

    def _inside(self, path: str) -> str:
        return f"{self._place.path_in_repo}/{path}".lstrip("/")
