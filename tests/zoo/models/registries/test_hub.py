"""The Hugging Face Hub, as its commits are: whoever builds on another state than the newest is refused.

The Hub itself is not asked: what stands for it keeps files, and counts commits.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from specs import ZooError
from zoo.models.registries import hub, publishing
from zoo.models.registries.registry import Registry, open_registry
from zoo.models.registries.remote_stores import HubStore
from zoo.report import Report

pytest.importorskip("huggingface_hub", reason="the Hub asks for its client: `pip install -e '.[test]'` brings it")


class Refused(Exception):
    """The Hub's error of a status."""

    def __init__(self, status):
        super().__init__(f"{status} of the Hub")
        self.response = SimpleNamespace(status_code=status)


class Repository:
    """A repository: its files after each commit, read as fsspec's file system and written as the Hub's client."""

    def __init__(self):
        self.states, self.before, self.refuses = [{}], [], None

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
        if self.before:
            self.before.pop(0)()
        if self.refuses:
            raise Refused(self.refuses)
        if parent_commit not in (None, str(len(self.states) - 1)):
            raise Refused(412)
        (adding,) = operations
        given = adding.path_or_fileobj
        content = given if isinstance(given, bytes) else Path(given).read_bytes()
        self.states.append({**self.files, adding.path_in_repo: content})


@pytest.fixture
def repository(monkeypatch):
    found = Repository()
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    monkeypatch.setattr(HubStore, "files", found)
    monkeypatch.setattr(HubStore, "_api", found)
    monkeypatch.setattr(hub.huggingface_hub.errors, "HfHubHTTPError", Refused)
    return found


@pytest.mark.parametrize("address", ["hf://org/name", "hf://org/name/some/folder"])
def test_what_is_published_is_found(repository, bundle, summary, address):
    place = open_registry(address)
    made = publishing.publish(place, "model", bundle(1), summary, Report())
    publishing.write_index(place, str)
    assert place.newest("model") == made
    assert [each.name for each in place.entries()] == ["model"]
    folder = address.removeprefix("hf://org/name").strip("/")
    assert all(name.startswith(folder) for name in repository.files)


def test_whoever_comes_second_takes_the_next_number(repository, bundle, summary):
    place = open_registry("hf://org/name")
    publishing.publish(place, "model", bundle(1), summary, Report())
    others = [bundle(seed) for seed in (2, 3)]
    commits = len(list(bundle(4).iterdir())) - 1  # the vocabulary is there already
    late = [lambda: None] * commits
    repository.before = [*late, lambda: publishing.publish(place, "model", others.pop(), summary, Report())]
    made = publishing.publish(place, "model", bundle(4), summary, Report())
    assert made.revision == 3
    assert [place.revision("model", number).revision for number in (1, 2, 3)] == [1, 2, 3]
    assert place.newest("model") == made


def test_what_the_hub_refuses_is_told(repository, bundle, summary):
    repository.refuses = 403
    with pytest.raises(ZooError, match=r"`hf://org/name` cannot be reached: 403 of the Hub"):
        publishing.publish(open_registry("hf://org/name"), "model", bundle(1), summary, Report())


def test_a_repository_that_never_rests_is_told(repository, monkeypatch):
    repository.refuses = 412
    with pytest.raises(ZooError, match="again and again"):
        Registry(HubStore("hf://org/name")).place.create("models/model/1.json", b"{}")
