"""A repository of the Hugging Face Hub is a registry: a commit on an outdated parent is refused.

The Hub is replaced by a class that keeps files and counts commits.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.refusals import refused
from zoo.models.registries import remote_stores
from zoo.models.registries.registry import open_registry
from zoo.models.registries.remote_stores import HubStore
from zoo.report import Report

pytest.importorskip("huggingface_hub", reason="`pip install -e '.[test]'` installs the Hub's client")


class Refused(Exception):
    """Error of the Hub with an HTTP status."""

    def __init__(self, status):
        super().__init__(f"{status} of the Hub")
        self.response = SimpleNamespace(status_code=status)


class Repository:
    """Repository with its files after each commit, with the interfaces of the Hub's fsspec file system and client."""

    def __init__(self):
        self.states, self.before_commit, self.status = [{}], [], None

    @property
    def files(self):
        return self.states[-1]

    def resolve_path(self, address):
        *_, folder = address.removeprefix("hf://").partition("org/name")
        return SimpleNamespace(repo_id="org/name", repo_type="model", revision="main", path_in_repo=folder.strip("/"))

    def invalidate_cache(self):
        pass

    def cat_file(self, path, start, end):
        return self.content(path)[start:end]

    def info(self, path):
        return {"size": len(self.content(path))}

    def find(self, path):
        return [f"org/name/{name}" for name in self.files if f"hf://org/name/{name}".startswith(path)]

    def content(self, path):
        if (inside := path.removeprefix("hf://org/name/")) not in self.files:
            raise FileNotFoundError(path)
        return self.files[inside]

    def repo_info(self, repo_id, repo_type, revision):
        return SimpleNamespace(sha=str(len(self.states) - 1))

    def file_exists(self, repo_id, repo_type, revision, filename):
        return filename in self.states[int(revision)]

    def create_commit(self, repo_id, repo_type, revision, operations, commit_message, parent_commit):
        if self.before_commit:
            self.before_commit.pop(0)()
        if self.status:
            raise Refused(self.status)
        if parent_commit not in (None, str(len(self.states) - 1)):
            raise Refused(412)
        (addition,) = operations
        source = addition.path_or_fileobj
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
        self.states.append({**self.files, addition.path_in_repo: content})


@pytest.fixture
def repository(monkeypatch):
    found = Repository()
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    monkeypatch.setattr(HubStore, "files", found)
    monkeypatch.setattr(HubStore, "_api", found)
    monkeypatch.setattr(remote_stores.huggingface_hub.errors, "HfHubHTTPError", Refused)
    return found


@pytest.mark.parametrize("address", ["hf://org/name", "hf://org/name/some/folder"])
def test_a_published_model_is_found(repository, bundle, summary, address):
    registry = open_registry(address)
    revision = registry.publish("model", bundle(1), summary, Report())
    registry.write_index(Report())
    assert registry.newest("model") == revision
    assert [each.name for each in registry.entries(pytest.fail)] == ["model"]
    folder = address.removeprefix("hf://org/name").strip("/")
    assert all(name.startswith(folder) for name in repository.files)


def test_of_two_publishers_the_second_takes_the_next_number(repository, bundle, summary):
    registry = open_registry("hf://org/name")
    registry.publish("model", bundle(1), summary, Report())
    others = [bundle(seed) for seed in (2, 3)]
    commits = len(list(bundle(4).iterdir())) - 1  # the vocabulary was uploaded before
    publish_other = lambda: registry.publish("model", others.pop(), summary, Report())  # noqa: E731
    repository.before_commit = [*([lambda: None] * commits), publish_other]
    revision = registry.publish("model", bundle(4), summary, Report())
    assert revision.revision == 3
    assert [registry.revision("model", number).revision for number in (1, 2, 3)] == [1, 2, 3]
    assert registry.newest("model") == revision


def test_a_missing_repository_is_an_error(repository, bundle, summary, monkeypatch):
    def missing(address):
        raise FileNotFoundError(f"{address} (repository not found)")

    monkeypatch.setattr(repository, "resolve_path", missing)
    publish = open_registry("hf://org/name").publish
    error = refused("`hf://org/name` cannot be written to: .*not found", publish, "model", bundle(1), summary, Report())
    assert "create the bucket or the repository" in error.hint


def test_errors_of_the_hub_and_endless_conflicts_are_reported(repository, bundle, summary):
    registry, repository.status = open_registry("hf://org/name"), 403
    problem = "`hf://org/name` cannot be reached: 403 of the Hub"
    refused(problem, registry.publish, "model", bundle(1), summary, Report())
    repository.status = 412
    refused("other commits came first 50 times", registry.store.write, "models/model/1.json", b"{}", replace=False)
