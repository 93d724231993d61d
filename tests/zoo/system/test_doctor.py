"""`zoo doctor` lists every backend with the reason if it is not available, and changes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import zoo
from compiler.backends import BACKENDS
from zoo.system import doctor
from zoo.system.doctor import diagnosis


def test_backends_are_listed_with_their_problems(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(BACKENDS["inductor"], unavailable_reason=lambda: "torch.compile needs a C++ compiler")
    monkeypatch.setattr(doctor, "BACKENDS", {**BACKENDS, "inductor": lost})
    result = diagnosis()
    assert [backend.name for backend in result.backends] == list(BACKENDS)
    for backend in result.backends:
        expected = lost if backend.name == "inductor" else BACKENDS[backend.name]
        assert (backend.problem, backend.summary) == (expected.unavailable_reason(), expected.summary)
    available = {backend.name for backend in result.backends if backend.problem is None}
    assert "eager" in available
    assert {"translating on cpu", "training on cpu"} <= result.automatic.keys()
    assert set(result.automatic.values()) <= available | {"inductor"}
    assert not home.exists()


def test_versions_machine_and_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "compiled" / "one").mkdir(parents=True)
    (home / "compiled" / "one" / "artefact").write_bytes(b"12345")
    disk = shutil.disk_usage(home)._replace(free=12345)
    monkeypatch.setattr(shutil, "disk_usage", {home: disk}.__getitem__)
    result = diagnosis()
    assert (result.versions["zoo"], result.versions["torch"]) == (zoo.__version__, torch.__version__)
    assert result.processor.cores >= result.processor.usable >= 1
    assert result.processor.model
    assert len(result.gpus) == torch.cuda.device_count()
    assert {folder.contents: folder.bytes for folder in result.places}["compiled programs"] == 5
    assert all(Path(folder.folder).is_relative_to(home) for folder in result.places)
    assert result.package == str(Path(zoo.__file__).parent)
    assert json.loads(json.dumps(asdict(result)))["free_bytes"] == 12345


def test_missing_information_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cpuinfo", dict)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.metadata, "version", Mock(side_effect=doctor.metadata.PackageNotFoundError))
    result = diagnosis()
    assert (result.processor.compiler, result.processor.instructions) == (None, ())
    assert result.versions["ctranslate2"] is None


def test_tensorrt_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = BACKENDS["tensorrt"].unavailable_reason
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "torch-tensorrt" in str(reason())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    for available, problem in ((False, "NVIDIA GPU"), (True, "None")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert problem in str(reason())
