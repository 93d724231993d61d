"""The Python API of `zoo`, what importing it loads, and packages of other projects with the same names."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrize import register_parametrization

import specs
import zoo
from specs import ZooError, parse
from tests import forks
from tests.paths import ROOT
from tests.refusals import refused
from zoo.data.prepare import prepare
from zoo.data.training_set import TrainingSet
from zoo.models.loading import read_model
from zoo.publishing.publish import publish
from zoo.report import Report
from zoo.training.run import Run

TINY = """
extends: tiny
name: mine
architecture: {N: 1, d_model: 16, d_ff: 24, h: 2, d_k: 6, d_v: 4, dropout: 0.1}
vocabulary: {size: 200}
corpus: {train: [{grammar: 300}], dev: [{grammar: 4}], test: [{grammar: 4}]}
training: {steps: 2, checkpoint_steps: 1, average: 1, warmup_steps: 2, source_tokens: 400, target_tokens: 400}
"""


def test_all_public_names_exist() -> None:
    assert all(getattr(zoo, name) is not None for name in zoo.__all__)
    assert set(zoo.__all__) <= set(dir(zoo))
    with pytest.raises(AttributeError, match="nothing"):
        zoo.nothing  # noqa: B018
    assert all((ROOT / package / "py.typed").is_file() for package in ("zoo", "specs", "compiler", "cli"))


def test_load_accepts_a_name_a_folder_and_a_list(trained: Callable[..., Run]) -> None:
    run = trained("runs/tiny")
    text = "we read two books"
    expected = zoo.load("tiny", device="cpu").translate(text)
    assert zoo.load(str(run.folder), max_batch_tokens=50).translate(text) == expected
    assert zoo.load([run.folder], device="cpu").translate(text) == expected
    refused(None, zoo.load, [])
    refused("`egaer`", zoo.load, "nowhere", backend="egaer")


def test_warnings_are_python_warnings(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    with pytest.warns(UserWarning, match="31 tokens"):
        zoo.load("tiny", device="cpu").translate("the old dog sees a small house " * 9)


@pytest.mark.integration
def test_own_training_loop_gives_a_run_that_translates_and_is_published() -> None:
    Path("mine.yaml").write_text(TINY)
    spec = zoo.spec("mine.yaml")
    model = zoo.model(spec)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches, losses = list(islice(zoo.batches("mine.yaml"), 30)), []
    prepared = prepare(spec, Report())
    expected = TrainingSet.from_prepared(spec, prepared).batches_from(0)
    for batch, (own, _) in zip(batches, expected, strict=False):
        assert torch.equal(batch.source.values, own.to_batch().source.values)
        loss = model(batch.source, batch.target.values)
        assert loss.tokens == batch.size.target_tokens
        (loss.smoothed / loss.tokens).backward()
        losses.append(float(loss.smoothed.detach() / loss.tokens))
        optimiser.step()
        optimiser.zero_grad()
    assert sum(losses[-5:]) < sum(losses[:5]), "the model learns"
    seeds = [torch.manual_seed(step) and float(model(batch.source, batch.target.values).plain) for step in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]
    with pytest.raises(TypeError, match=r"`source` must be a `zoo\.PaddedBatch`"):
        model(batch.source.values, batch.target.values)
    run = zoo.save(model, "runs/own", steps=30)
    refused("has trained weights, but no checkpoint", zoo.train, "mine.yaml", run=run.folder)
    longest = zoo.load("runs/own/spec.yaml", device="cpu", backend="eager").longest_source
    assert longest == int(prepared.store("train").lengths["source"].max())
    assert all(torch.equal(model.weights()[name], own) for name, own in read_model(run.folder).weights.tensors.items())
    run.scores.write_text("{}")
    zoo.save(model, run.folder, steps=31)
    assert not run.scores.exists()
    assert json.loads((publish(run.folder) / "facts.json").read_text())["training"]["steps"] == 31
    other = zoo.model(zoo.spec("mine.yaml", ["architecture.d_ff=32"]))
    refused("was started with a different spec", zoo.save, other, run.folder, steps=1)
    Path("blocked/.lock").mkdir(parents=True)
    problems = {"/proc/own/run": "`/proc/own/run` cannot be", "blocked": "`blocked` cannot be written"}
    for folder, problem in {**problems, "x" * 300: "is too long", "a\0b": "contains a NUL character"}.items():
        refused(problem, zoo.save, model, folder, steps=1)
    refused("contains a NUL character", zoo.train, "mine.yaml", run="a\0b", fresh=True)
    for steps in (2.5, True):
        refused(f"`steps` must be a non-negative integer, not `{steps}`", zoo.save, model, run.folder, steps=steps)
    next(model.parameters()).data.fill_(torch.nan)
    refused("are not finite", zoo.save, model, "runs/diverged", steps=1)
    assert not Path("runs/diverged").exists()


@pytest.mark.integration
def test_modules_can_be_pickled_and_saved_inside_their_wrappers() -> None:
    Path("mine.yaml").write_text(TINY)
    model = zoo.model("mine.yaml").eval()
    source, target = zoo.PaddedBatch.pad([[7, 3]]), torch.tensor([[2, 9, 3]])
    assert pickle.loads(pickle.dumps(model))(source, target).plain == model(source, target).plain
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    for number, wrapper in enumerate([DistributedDataParallel, torch.compile, fully_shard]):
        run = zoo.save(wrapper(deepcopy(model)), f"runs/{number}", steps=1)
        torch.testing.assert_close(read_model(run.folder).weights.tensors, model.weights(), rtol=0, atol=0)
    distributed.destroy_process_group()
    refused("contains 0 modules", zoo.save, torch.nn.Linear(1, 1), "runs/other", steps=1)
    refused("contains 2 modules", zoo.save, torch.nn.ModuleList([model, deepcopy(model)]), "runs/other", steps=1)
    register_parametrization(model.encoder[0].feed_forward, "w1", torch.nn.Identity())
    refused("parametrizations.w1.original`, which its spec does not define", zoo.save, model, "runs/other", steps=1)
    assert not Path("runs/other").exists()


def test_own_kind_of_sublayer_is_used_after_it_is_registered() -> None:
    Path("mine.yaml").write_text(TINY)
    done = forks.run(Path(__file__).with_name("own_sublayer.py").read_text("utf-8"))
    assert done.stdout.splitlines() == [
        "`architecture.encoder[0].scale` must be at least 1, not `0` (override: `architecture.encoder`)",
        "a kind of sub-layer named `own_linear` already exists",
        "the lowering function of the sub-layer `narrow` returns f[batch, source, 8] for an input f[batch, source, 16]",
    ], done.stderr
    with pytest.raises(ZooError, match=r"not `own_linear`; if it is a kind of your own, call `zoo\.register_sublayer`"):
        parse(Path("spec.yaml").read_text(), "spec.yaml")


class SeveralKinds(specs.Sublayer):
    kind: Literal["one", "two"]


class AnyKind(specs.Sublayer):
    kind: str


@pytest.mark.parametrize("sublayer", [SeveralKinds, AnyKind, specs.Sublayer, dict, lambda x, sublayer, context: x])
def test_sublayer_class_without_exactly_one_kind_is_rejected(sublayer: Any) -> None:
    with pytest.raises(ZooError, match=r"is not a subclass of `specs\.Sublayer` with one `kind`"):
        zoo.register_sublayer(sublayer, lambda x, sublayer, context: x)


@pytest.mark.integration
def test_train_accepts_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(TINY)
    run = zoo.train(Path("mine.yaml"), run=Path("run"), device="cpu")
    assert "run/weights.safetensors" in capsys.readouterr().err
    assert zoo.train("mine.yaml", run="run", quiet=True).folder == run.folder
    assert capsys.readouterr().err == ""


def python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code, or the module `zoo` for "-m", with these folders before this repository on the path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*folders, ROOT]))}
    command = [sys.executable, *(["-m", "zoo"] if code == "-m" else ["-c", code])]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.integration
def test_foreign_packages_are_not_imported(tmp_path: Path) -> None:
    for name, file, code, status in (
        ("specs", "specs.py", "import zoo; zoo.spec('tiny')", 1),
        ("compiler", "compiler/__init__.py", "from zoo import Spec", 1),
        ("cli", "cli/__init__.py", "-m", 2),
    ):
        foreign = tmp_path / f"beside {name}" / file
        foreign.parent.mkdir(parents=True)
        foreign.write_text("raise SystemExit('foreign code ran')")
        process = python(code, tmp_path / f"beside {name}")
        message = f"zoo needs its package `{name}` in `{ROOT}`, but Python finds `{foreign}`\n\nhint: "
        assert process.returncode == status
        assert message in process.stderr
        assert "foreign code ran" not in process.stderr
        assert ("Traceback" in process.stderr) == (status == 1), "the command prints only the error"


@pytest.mark.integration
def test_the_module_is_the_command_and_unrelated_folders_and_packages_are_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.yaml").write_text("extends: tiny\n")
    process = python("-m", tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert "Usage: zoo" in process.stdout
    (tmp_path / "cli.py").write_text("raise SystemExit('foreign code ran')")
    assert python("import zoo; zoo.spec('tiny'); zoo.names()", tmp_path).returncode == 0
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")  # Python then removes docstrings, which contain the help texts
    assert python("import cli.options").stderr == ""


@pytest.mark.integration
def test_an_interrupt_ends_the_process_by_the_signal(tmp_path: Path) -> None:
    """An interrupt during an import ends it, too, even if the imported module swallows exceptions.

    A background job of a shell keeps ignoring interrupts.
    """
    for name, number in (("swallows", 2), ("swallows_sigterm", 15)):
        text = f"import signal\ntry: signal.raise_signal({number})\nexcept BaseException: pass\n"
        (tmp_path / f"{name}.py").write_text(text)
    stopped = "from signal import *\nfrom pathlib import Path\nfrom cli.console import open_output\ndef main():\n"
    stopped += " with open_output(Path('out'), ()) as write"
    apps = [
        ("def main(): return 143", -signal.SIGTERM),
        (f"{stopped}: [write('a'), raise_signal(SIGTERM)]", -signal.SIGTERM),
        (f"{stopped}: [write('a'), raise_signal(SIGINT)]", -signal.SIGINT),
        ("def main(): import swallows; return 0", -signal.SIGINT),
        ("def main(): import swallows_sigterm; return 0", -signal.SIGTERM),
        ("def main(): return 3", 3),
        ("from signal import *; signal(SIGINT, SIG_IGN)\ndef main(): raise_signal(SIGINT); return 0", 0),
    ]
    for number, (app, status) in enumerate(apps):
        (tmp_path / f"app{number}.py").write_text(app)
        code = f"import app{number} as app, zoo.entry_point as e; e.import_module = lambda name: app; e.main()"
        process = python(code, tmp_path)
        assert process.returncode == status, app
        kept = "warning: `out` was not written: the command failed or was stopped; `out.partial` contains the first"
        assert re.sub(rf"{kept} 1 line\n", "", process.stderr) in ("", "\ninterrupted\n", "terminated\n")
        assert ("interrupted" in process.stderr) == (status == -signal.SIGINT)
        assert ("out.partial" in process.stderr) == ("open_output" in app), "the lines written so far are kept"
