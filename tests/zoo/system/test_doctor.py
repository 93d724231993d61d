"""What `zoo doctor` finds: every backend with the reason where it is absent, and nothing is changed by looking."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

import zoo
from compiler.backends import BACKENDS
from zoo.system import doctor
from zoo.system.doctor import diagnosis

ROOT = Path(__file__).parents[3]


def test_every_backend_is_told_with_why_it_is_absent(home: Path) -> None:
    found = diagnosis()
    assert [each.name for each in found.backends] == list(BACKENDS)
    for each in found.backends:
        assert each.problem == BACKENDS[each.name].unavailable_reason()
        assert each.summary == BACKENDS[each.name].summary
    assert "eager" in [each.name for each in found.backends if each.problem is None]
    assert not home.exists()


def test_what_auto_takes_is_present() -> None:
    found = diagnosis()
    present = {each.name for each in found.backends if each.problem is None}
    assert {"translating on cpu", "training on cpu"} <= found.automatic.keys()
    assert set(found.automatic.values()) <= present


def test_versions_machine_and_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "compiled" / "one").mkdir(parents=True)
    (home / "compiled" / "one" / "artefact").write_bytes(b"12345")
    disk = shutil.disk_usage(home)._replace(free=12345)
    monkeypatch.setattr(shutil, "disk_usage", {home: disk}.__getitem__)
    found = diagnosis()
    assert found.versions["zoo"] == zoo.__version__
    assert found.versions["torch"] == torch.__version__
    assert found.processor.cores >= found.processor.usable >= 1
    assert found.processor.model
    assert len(found.gpus) == torch.cuda.device_count()
    assert {place.what: place.bytes for place in found.places}["compiled programs"] == 5
    assert all(Path(place.folder).is_relative_to(home) for place in found.places)
    assert found.packages == {name: str(ROOT / name) for name in ("specs", "compiler", "zoo", "cli")}
    assert json.loads(json.dumps(asdict(found)))["free_bytes"] == 12345


def test_an_absent_backend_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(BACKENDS["inductor"], absent=lambda: "torch.compile needs a C++ compiler")
    monkeypatch.setattr(doctor, "BACKENDS", {**BACKENDS, "inductor": lost})
    told = {each.name: each.problem for each in diagnosis().backends}
    assert told["inductor"] == "torch.compile needs a C++ compiler"
    assert told["eager"] is None


def test_a_machine_that_says_little_is_described_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cpuinfo", dict)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.metadata, "version", _missing)
    found = diagnosis()
    assert found.processor.compiler is None
    assert found.processor.instructions == ()
    assert found.versions["ctranslate2"] is None


def _missing(name: str) -> str:
    raise doctor.metadata.PackageNotFoundError(name)


def test_tensorrt_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    problem = str(BACKENDS["tensorrt"].unavailable_reason())
    assert "torch-tensorrt" in problem
    assert "package index" in problem
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "NVIDIA GPU" in str(BACKENDS["tensorrt"].unavailable_reason())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert BACKENDS["tensorrt"].unavailable_reason() is None
