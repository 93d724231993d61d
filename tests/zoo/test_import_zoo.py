"""`import zoo`: what it offers, what it waits for, and what it says when its neighbours are somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import zoo
from specs import BOS, EOS, Spec, ZooError
from zoo.training.run import Run

ROOT = Path(__file__).parents[2]


def python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, [*folders, ROOT]))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_everything_it_names_is_there() -> None:
    assert all(getattr(zoo, name) is not None for name in zoo.__all__)
    assert set(zoo.__all__) <= set(dir(zoo))
    with pytest.raises(AttributeError, match="nothing"):
        zoo.nothing  # noqa: B018


def test_a_spec_takes_overrides_as_text_and_as_a_mapping() -> None:
    assert zoo.spec("base", ["architecture.h=4"]) == zoo.spec("base", {"architecture": {"h": 4}})
    with pytest.raises(ZooError):
        zoo.spec("bsae")


def test_a_model_is_a_module_to_train(small: Callable[..., Spec]) -> None:
    model = zoo.model(small(dropout=0.0))
    assert isinstance(model, torch.nn.Module)
    source, target = torch.tensor([[5, 6, EOS]]), torch.tensor([[BOS, 7, EOS]])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    before = model(source, target)
    (before.smoothed / before.tokens).backward()
    optimiser.step()
    assert model(source, target).smoothed < before.smoothed


def test_load_takes_a_name_a_folder_and_a_spec(trained: Callable[..., Run]) -> None:
    run = trained("runs/tiny")
    text = "we read two books"
    assert zoo.load("tiny", device="cpu").translate(text) == zoo.load(str(run.folder), tokens=50).translate(text)
    with pytest.raises(ZooError, match="there is no model"):
        zoo.load("../x")


@pytest.mark.parametrize("stranger", ["specs", "compiler"])
@pytest.mark.parametrize("kind", ["module", "package"])
def test_a_stranger_under_our_neighbours_name_is_named(tmp_path: Path, stranger: str, kind: str) -> None:
    file = tmp_path / f"{stranger}.py" if kind == "module" else tmp_path / stranger / "__init__.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit('a stranger ran')")
    for code, status in (("import zoo", 1), ("import cli.app", 2)):
        done = python(code, tmp_path)
        assert done.returncode == status
        assert str(file) in done.stderr
        assert "a stranger ran" not in done.stderr
        assert "PYTHONPATH" in done.stderr
    told = python("import cli.app", tmp_path).stderr
    assert "Traceback" not in told
    assert "\n\nhint: " in told


def test_a_folder_that_is_no_package_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.yaml").write_text("extends: tiny\n")
    assert python("import zoo; zoo.spec('tiny')", tmp_path).returncode == 0
