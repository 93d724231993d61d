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
_COMMAND = "from zoo.entry_point import main; main()"  # as the script does that is installed


_QUICK = """
extends: tiny
name: mine
architecture: {N: 1, d_model: 16, d_ff: 24, h: 2, d_k: 6, d_v: 4}
vocabulary: {size: 200}
corpus: {train: [{grammar: 300}], dev: [{grammar: 4}], test: [{grammar: 4}]}
training: {steps: 2, checkpoint_steps: 1, average: 1, warmup_steps: 5, source_tokens: 400, target_tokens: 400}
"""


def python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, [*folders, ROOT]))
    environment = {**os.environ, "PYTHONPATH": path}
    how = ["-m", "zoo"] if code == "-m" else ["-c", code]
    return subprocess.run([sys.executable, *how], capture_output=True, text=True, env=environment, check=False)


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
    assert zoo.load("tiny", device="cpu").translate(text) == zoo.load(str(run.folder), max_batch_tokens=50).translate(
        text
    )
    assert zoo.load(run.folder, device="cpu").translate(text) == zoo.load([run.folder], device="cpu").translate(text)
    with pytest.raises(ZooError, match="there is no model"):
        zoo.load("../x")


def test_model_and_train_take_a_name_or_a_path_as_spec_does(
    small: Callable[..., Spec], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yaml").write_text(_QUICK)
    assert zoo.spec(Path("mine.yaml")) == zoo.spec("mine.yaml")
    parameters = [sum(p.numel() for p in zoo.model(spec).parameters()) for spec in ("mine.yaml", zoo.spec("mine.yaml"))]
    assert parameters[0] == parameters[1]
    run = zoo.train(Path("mine.yaml"), run=Path("here"), device="cpu")
    assert run.weights.is_file()
    assert "averaged the last checkpoints into here/weights.safetensors\n" in capsys.readouterr().err
    assert zoo.train("mine.yaml", run="here", quiet=True).folder == run.folder
    assert capsys.readouterr().err == ""


def test_an_error_tells_its_remedy_and_a_warning_is_pythons(trained: Callable[..., Run]) -> None:
    with pytest.raises(ZooError) as caught:
        zoo.spec("bgi")
    assert str(caught.value) == f"{caught.value.summary}\n\nhint: {caught.value.hint}"
    assert caught.value.summary == "there is no spec `bgi`"
    assert str(ZooError("a", where="b:1")) == "a (b:1)"
    trained("runs/tiny")
    with pytest.warns(UserWarning, match="longer than"):
        zoo.load("tiny", device="cpu").translate("the old dog sees a small house " * 9)


@pytest.mark.parametrize("room", ["zoo", "specs", "compiler", "cli"])
def test_its_types_are_there_for_others(room: str) -> None:
    assert (ROOT / room / "py.typed").is_file()


def stranger(folder: Path, name: str, kind: str) -> Path:
    """A module or a package of this name, which stands before ours."""
    file = folder / f"{name}.py" if kind == "module" else folder / name / "__init__.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit('a stranger ran')")
    return file


def message(name: str, file: Path) -> str:
    return f"zoo needs its own package `{name}`, in `{ROOT}`, but Python finds `{file}`\n\nhint: "


@pytest.mark.parametrize("code", ["import zoo; zoo.spec('tiny')", "from zoo import Spec", "import zoo; zoo.names()"])
@pytest.mark.parametrize(("name", "kind"), [("specs", "module"), ("specs", "package"), ("compiler", "package")])
def test_a_stranger_under_our_neighbours_name_is_named(tmp_path: Path, name: str, kind: str, code: str) -> None:
    file = stranger(tmp_path, name, kind)
    done = python(code, tmp_path)
    assert done.returncode == 1
    assert f"ImportError: {message(name, file)}" in done.stderr
    assert "a stranger ran" not in done.stderr


@pytest.mark.parametrize("command", [_COMMAND, "-m"])
@pytest.mark.parametrize(
    ("name", "kind"), [("specs", "module"), ("specs", "package"), ("compiler", "package"), ("cli", "package")]
)
def test_the_command_says_whose_package_is_in_its_way(tmp_path: Path, name: str, kind: str, command: str) -> None:
    file = stranger(tmp_path, name, kind)
    done = python(command, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message(name, file)}")
    assert "Traceback" not in done.stderr
    assert "PYTHONPATH" in done.stderr


def test_a_stranger_called_cli_is_in_nobodys_way_who_imports_zoo(tmp_path: Path) -> None:
    stranger(tmp_path, "cli", "package")
    assert python("import zoo; zoo.spec('tiny')", tmp_path).returncode == 0


def test_the_function_model_stays_when_its_room_is_imported() -> None:
    code = (
        "import zoo; import zoo.models.find; assert zoo.models.__name__ == 'model'; zoo.names(); zoo.models.__doc__[0]"
    )
    assert python(code).returncode == 0


def test_it_is_a_command_of_pythons() -> None:
    done = python("-m")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: zoo" in done.stdout


def test_ctrl_c_while_packages_are_loaded_is_no_traceback() -> None:
    code = "import zoo.entry_point as door\ndef load(name): raise KeyboardInterrupt\ndoor.import_module = load\ndoor.main()"
    done = python(code)
    assert (done.returncode, done.stderr) == (130, "\ninterrupted\n")


def test_a_folder_that_is_no_package_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.yaml").write_text("extends: tiny\n")
    assert python("import zoo; zoo.spec('tiny')", tmp_path).returncode == 0
