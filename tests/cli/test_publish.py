"""`zoo publish`, `zoo verify`, `zoo pull`, `zoo remove` and `zoo clean`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.app import run
from tests.conftest import Zoo
from zoo.files import storage
from zoo.models import find
from zoo.models.weights import Weights, read
from zoo.training.run import Run

NAME = "transformer-tiny-ende"


@pytest.mark.integration
def test_from_a_run_to_a_registry_and_to_another_home(
    zoo: Zoo, trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained()
    registry = str(tmp_path / "registry")
    result = zoo("publish", "tiny", "--to", registry)
    assert result.status == 0, result.err
    folder, pin = result.out.splitlines()
    assert Path(folder).is_relative_to(tmp_path / "home")
    assert pin == f"{NAME}@1"
    result = zoo("publish", NAME, "--to", registry)
    assert result.out.splitlines()[1] == pin, "the stored model is the same revision"
    assert zoo("publish", NAME, "--to", registry, "--replace").status == 2

    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_REGISTRIES", registry)
    (listed,) = json.loads(zoo("list", "--published", "--json").out)
    assert (listed["name"], listed["location"], listed["revision"]) == (NAME, registry, 1)
    pulled = zoo("pull", NAME)
    stored = Path(pulled.out.strip())
    assert stored.is_relative_to(tmp_path / "another")
    assert stored.name == NAME
    decoded = zoo("decode", "--model", f"{NAME}@1", "--device", "cpu", stdin="we read\n")
    assert (decoded.status, decoded.out.count("\n")) == (0, 1)
    assert zoo("list", "--published").out.count(NAME) == 2

    refused = zoo("remove", NAME)
    assert (refused.status, "`--yes`" in refused.err) == (2, True)
    assert zoo("remove", NAME, "--yes").status == 0
    assert not stored.exists()


@pytest.mark.integration
def test_publish_and_verify(zoo: Zoo, trained: Callable[..., Run], home: Path) -> None:
    trained("runs/tiny")
    result = zoo("publish", "tiny")
    folder = Path(result.out.strip())
    assert (result.status, folder.is_relative_to(home)) == (0, True)
    assert f"zoo decode --model {NAME}" in result.err
    result = zoo("verify", NAME)
    assert result.status == 0
    assert result.out.startswith(f"{NAME}: 7 files have the published hashes\n")
    assert zoo("verify", NAME, "--backend", "nope").status == 2
    (folder / "scores.json").write_text("{}\n")
    result = zoo("verify", NAME)
    assert (result.status, result.out, str(folder / "scores.json") in result.err) == (1, "", True)


@pytest.mark.integration
def test_notes_of_the_publisher_are_in_the_card(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    assert zoo("publish", "tiny", "--notes", "missing.md").status == 1
    Path("notes.md").write_text("## Known limits\n\nIt was never trained.\n", encoding="utf-8")
    folder = Path(zoo("publish", "tiny", "--notes", "notes.md").out.strip())
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "\n\n## Known limits\n\nIt was never trained.\n\n## How to use\n" in card
    assert "`--notes` applies to runs only" in zoo("publish", NAME, "--notes", "notes.md", "--to", "registry").refusal


@pytest.mark.integration
def test_int8_weights_are_published_verified_and_loaded(zoo: Zoo, trained: Callable[..., Run]) -> None:
    run = trained("runs/tiny")
    full = read(run.weights)
    Weights(full.tensors, {**full.metadata, "stored_type": "int8"}).write(run.weights)
    folder = Path(zoo("publish", "tiny").out.strip())
    assert zoo("verify", NAME).status == 0
    assert (folder / "weights.safetensors").read_bytes() == run.weights.read_bytes()
    assert zoo("decode", "--model", NAME, "--backend", "eager").status == 0


def test_missing_models_are_reported_with_the_registries(
    zoo: Zoo, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = zoo("pull", "nothing").refusal
    assert "ZOO_REGISTRIES" in error
    assert str(home / "registries.txt") in error
    monkeypatch.setenv("ZOO_REGISTRIES", f"{tmp_path}/registry https://models.example.org")
    error = zoo("pull", "nothing").refusal
    assert f"`{tmp_path}/registry`" in error
    assert "`https://models.example.org`" in error
    listed = zoo("list", "--published")
    assert (listed.out, f"warning: `{tmp_path}/registry`" in listed.err) == ("", True)


def test_registries_and_names_are_checked_before_anything_is_published(
    zoo: Zoo, trained: Callable[..., Run], home: Path
) -> None:
    trained()
    Path("tom.txt").write_text("tom")
    for place in ("", "http://models.org/x", "s3:/x", "hf://foo", "s3://bucket/x", "tom.txt"):
        result = zoo("publish", "tiny", "--to", place)
        assert (result.status, result.out) == (2, ""), place
    assert "`../x`" in zoo("publish", "tiny", "--name", "../x").refusal
    assert not home.exists() or not list(home.rglob("weights.safetensors"))


def test_an_interrupted_pull_can_be_resumed(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str, report: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(find, "pull_model", interrupt)
    result = zoo("pull", "model")
    assert (result.status, "run the same command again" in result.err) == (130, True)


@pytest.fixture
def cache() -> Path:
    folder = storage.compiled() / f"native-{'1' * 24}"
    folder.mkdir(parents=True)
    (folder / "kernels.so").write_bytes(b"x" * 1_000_000)
    return folder


def test_clean_without_a_terminal_only_shows_what_it_would_remove(zoo: Zoo, cache: Path) -> None:
    result = zoo("clean", stdin="y\n")
    assert result.status == 2
    assert f"compiled   1.0 MB  {cache}\n" in result.out
    assert "total      1.0 MB\n" in result.out
    assert result.err.startswith("error: nothing was removed, because stdin is not a terminal")
    assert cache.exists()


def test_clean_yes_removes_caches_and_named_runs(zoo: Zoo, cache: Path, trained: Callable[..., Run]) -> None:
    model = trained("runs/tiny")
    assert zoo("clean", "--yes").err == "removed 1.0 MB\n"
    assert not cache.exists()
    assert zoo("clean").err == "there is nothing to remove\n"
    assert model.weights.exists()
    assert zoo("clean", "tiny", "--yes").status == 0
    assert not model.folder.exists()
    assert zoo("clean", "compild").status == 2


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_clean_asks_for_confirmation(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, removed: bool
) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert run(["clean"]) == 0
    assert "remove all of this? [y/N] " in capsys.readouterr().err
    assert cache.exists() is not removed
