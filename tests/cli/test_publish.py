"""`zoo publish`, `zoo verify`, `zoo pull`, `zoo remove` and `zoo clean`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.main import get_command

from cli.app import build_app, run
from tests.conftest import Trained, Zoo, missing
from zoo.files import storage
from zoo.interop import FORMATS
from zoo.interop.formats import format_named
from zoo.models import find
from zoo.models.weights import read

NAME = "transformer-tiny-ende"


@pytest.mark.integration
def test_models_reach_another_home(zoo: Zoo, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    registry = str(tmp_path / "registry")
    folder, pin = zoo("publish", "tiny", "--to", registry).printed.splitlines()
    assert (Path(folder).is_relative_to(tmp_path / "home"), pin) == (True, f"{NAME}@1")
    assert zoo("publish", NAME, "--to", registry).out.splitlines()[1] == pin, "the stored model is the same revision"
    assert zoo("publish", NAME, "--to", registry, "--replace").status == 2

    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_REGISTRIES", registry)
    (listed,) = json.loads(zoo("list", "--published", "--json").out)
    assert (listed["name"], listed["location"], listed["revision"]) == (NAME, registry, 1)
    stored = Path(zoo("pull", NAME).out.strip())
    assert (stored.is_relative_to(tmp_path / "another"), stored.name) == (True, NAME)
    assert zoo("decode", "--model", f"{NAME}@1", "--device", "cpu", stdin="we read\n").printed.count("\n") == 1
    assert zoo("list", "--published").out.count(NAME) == 2

    refused = zoo("remove", NAME)
    assert (refused.status, "`--yes`" in refused.err) == (2, True)
    assert zoo("remove", NAME, "--yes").status == 0
    assert not stored.exists()


@pytest.mark.integration
def test_an_int8_model_is_published_with_notes_verified_and_loaded(zoo: Zoo, trained: Trained) -> None:
    run = trained("runs/tiny")
    replace(read(run.weights), int8_dimensions={"embedding": 0}).write(run.weights)
    assert zoo("publish", "tiny", "--notes", "missing.md").status == 1
    Path("notes.md").write_text("## Known limits\n\nIt was never trained.\n", encoding="utf-8")
    result = zoo("publish", "tiny", "--notes", "notes.md")
    folder = Path(result.printed.strip())
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "\n\n## Known limits\n\nIt was never trained.\n\n## How to use\n" in card
    assert f"zoo decode --model {NAME}" in result.err
    assert "`--notes` applies to runs only" in zoo("publish", NAME, "--notes", "notes.md", "--to", "registry").refusal
    assert zoo("verify", NAME).printed.startswith(f"{NAME}: 7 files have the published hashes\n")
    assert (folder / "weights.safetensors").read_bytes() == run.weights.read_bytes()
    assert zoo("decode", "--model", NAME, "--backend", "eager").status == 0
    assert zoo("verify", NAME, "--backend", "nope").status == 2
    (folder / "scores.json").write_text("{}\n")
    result = zoo("verify", NAME)
    assert (result.status, result.out, str(folder / "scores.json") in result.err) == (1, "", True)


def test_a_missing_model_is_an_error(zoo: Zoo, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not missing(zoo("pull", "nothing").refusal, "ZOO_REGISTRIES", str(home / "registries.txt"))
    monkeypatch.setenv("ZOO_REGISTRIES", f"{tmp_path}/registry https://models.example.org")
    assert not missing(zoo("pull", "nothing").refusal, f"`{tmp_path}/registry`", "`https://models.example.org`")
    listed = zoo("list", "--published")
    assert (listed.out, f"warning: `{tmp_path}/registry`" in listed.err) == ("", True)


def test_addresses_and_names_are_checked_before_publishing(zoo: Zoo, trained: Trained, home: Path) -> None:
    trained()
    assert "`s3:/x`" in zoo("publish", "tiny", "--to", "s3:/x").refusal
    assert "`../x`" in zoo("publish", "tiny", "--name", "../x").refusal
    assert not home.exists() or not list(home.rglob("weights.safetensors"))


def test_an_interrupted_pull_can_be_resumed(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "pull_model", Mock(side_effect=KeyboardInterrupt))
    result = zoo("pull", "model")
    assert (result.status, "run the same command again" in result.err) == (130, True)


@pytest.fixture
def cache() -> Path:
    folder = storage.compiled() / f"native-{'1' * 24}"
    folder.mkdir(parents=True)
    (folder / "kernels.so").write_bytes(b"x" * 1_000_000)
    return folder


def test_clean_removes_caches_and_named_runs_only_with_yes(zoo: Zoo, cache: Path, trained: Trained) -> None:
    model = trained("runs/tiny")
    result = zoo("clean", stdin="y\n")
    assert not missing(result.out, f"compiled   1.0 MB  {cache}\n", "total      1.0 MB\n")
    assert result.err.startswith("error: nothing was removed, because stdin is not a terminal")
    assert (result.status, cache.exists()) == (2, True)
    assert zoo("clean", "--yes").err == "removed 1.0 MB\n"
    assert not cache.exists()
    assert zoo("clean").err == "there is nothing to remove\n"
    assert model.weights.exists()
    assert zoo("clean", "tiny", "--yes").status == 0
    assert not model.folder.exists()
    assert zoo("clean", "compild").status == 2


def test_clean_asks_first(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for answer, removed in (("n\n", False), ("\n", False), ("", False), ("y\n", True)):
        monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: True, readline=Mock(return_value=answer)))
        assert run(["clean"]) == 0
        assert "remove all of this? [y/N] " in capsys.readouterr().err
        assert cache.exists() is not removed


def test_help_lists_all_formats() -> None:
    app: Any = get_command(build_app(["import", "export"]))
    for command, formats in ((name, [*FORMATS[name]]) for name in app.commands):
        assert "|".join(formats) in [parameter.metavar for parameter in app.commands[command].params]
        assert [format_named(name, command).name for name in formats] == formats
