"""`zoo publish --to`, `pull`, `remove`, `list --published`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.models import find
from zoo.training.run import Run

NAME = "transformer-tiny-ende"


def test_from_a_run_to_a_registry_and_to_another_home(
    zoo: Callable[..., Any], trained: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained()
    place = str(tmp_path / "registry")
    done = zoo("publish", "tiny", "--to", place, "--formerly", "old")
    assert done.status == 0, done.err
    folder, pin = done.out.splitlines()
    assert folder == str(tmp_path / "home" / "models" / NAME)
    assert pin.startswith(f"{NAME}@1 sha256:")
    done = zoo("publish", NAME, "--to", place)
    assert done.out.splitlines()[1] == pin, "what is on the shelf is published by its name, and is the same revision"

    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_REGISTRIES", place)
    (only,) = json.loads(zoo("list", "--published", "--json").out)
    assert (only["name"], only["where"], only["revision"]) == (NAME, place, 1)
    pulled = zoo("pull", "old")
    assert pulled.out == f"{tmp_path}/another/models/{NAME}\n"
    assert f"warning: `old` is called `{NAME}` now" in pulled.err
    assert f"`{NAME}@1` from `{place}`" in pulled.err
    decoded = zoo("decode", "--model", f"{NAME}@1", "--device", "cpu", stdin="we read\n")
    assert (decoded.status, decoded.out.count("\n")) == (0, 1)
    table = zoo("list", "--published").out
    assert table.count(NAME) == 2
    assert "shelf" in table

    kept = zoo("remove", NAME)
    assert kept.status == 2
    assert "`--yes` removes it without asking" in kept.err
    assert zoo("remove", NAME, "--yes").status == 0
    assert not (tmp_path / "another" / "models" / NAME).exists()


def test_what_is_nowhere_is_told_with_the_places(
    zoo: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_REGISTRIES", f"{tmp_path}/registry https://models.example.org")
    done = zoo("pull", "nothing")
    assert done.status == 2
    assert done.err.startswith("error: there is no published model `nothing`: looked for")
    where = (
        f"in `{tmp_path}/registry`, which is not there, and not in `https://models.example.org`: ZOO_OFFLINE forbids it"
    )
    assert where in done.err
    listed = zoo("list", "--published")
    assert listed.out == ""
    assert f"warning: `{tmp_path}/registry` is not there\n" in listed.err
    (tmp_path / "registry").mkdir()
    assert f"`{tmp_path}/registry`, which is no registry" in zoo("pull", "nothing").err
    assert f"warning: `{tmp_path}/registry` is no registry\n" in zoo("list", "--published").err


def test_a_pull_from_nowhere_says_that_no_registry_is_named(zoo: Callable[..., Any], home: Path) -> None:
    done = zoo("pull", "nothing")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: `nothing` cannot be pulled: no registry is named\n\nhint: ")
    assert "ZOO_REGISTRIES" in done.err
    assert str(home / "registries.txt") in done.err


def test_an_old_name_needs_a_registry(zoo: Callable[..., Any], trained: Callable[..., Run]) -> None:
    trained()
    done = zoo("publish", "tiny", "--formerly", "old")
    assert (done.status, done.out) == (2, "")
    assert "`--formerly` needs `--to`" in done.err


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        *(("", "is empty"), ("http://models.org/x", "it is only read"), ("s3:/x", "is no address")),
        *(("hf://foo", "is no address"), ("s3://bucket/x", "ZOO_OFFLINE"), ("tom.txt", "is a file, and no folder")),
    ],
)
def test_a_place_is_looked_at_before_anything_is_published(
    zoo: Callable[..., Any], trained: Callable[..., Run], home: Path, place: str, problem: str
) -> None:
    trained()
    Path("tom.txt").write_text("tom")
    done = zoo("publish", "tiny", "--to", place)
    assert (done.status, done.out) == (2, "")
    assert problem in done.err
    assert not (home / "models").exists()


def test_a_pull_that_is_interrupted_says_that_it_goes_on(
    zoo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str, report: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(find, "pull_model", interrupted)
    done = zoo("pull", "model")
    assert done.status == 130
    assert "the same command goes on with it" in done.err
