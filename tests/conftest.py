"""Tiny worlds that the tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

# Before torch is imported, and for the processes that tests start: threads of a tiny world do little but wait for one
# another, for ten times as long where the machine has other work. What they could change asks for `all_cores`.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

import specs
from compiler import build
from compiler.host import cores
from compiler.kernels import library
from specs import Spec
from zoo.files.atomic import write_json
from zoo.generation import building
from zoo.models.weights import Weights
from zoo.planning import sample
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

# How fast an example is made or tried says something of the machine, and nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

SMALL = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1},
    "vocabulary": {"size": 101},
    "compilation": {"vocabulary_multiple": 8, "backend": "eager"},
}
"""Sizes that differ from one another, so that no two can be mixed up unseen."""


@pytest.fixture
def small() -> Callable[..., Spec]:
    """`tiny` made much smaller; keyword arguments are fields of its architecture."""

    def make(**architecture: object) -> Spec:
        overrides = {**SMALL, "architecture": {**SMALL["architecture"], **architecture}}
        return specs.load("tiny", overrides)

    return make


PAIRS = (
    ("the old dog sees a small house", "der alte Hund sieht ein kleines Haus"),
    ("we read two books today", "heute lesen wir zwei Bücher"),
    ("she does not know the man", "sie kennt den Mann nicht"),
    ("do you see the cat?", "siehst du die Katze?"),
)


@pytest.fixture(scope="session")
def tokens() -> Vocabulary:
    """The 101 tokens of `small`, learned from a few sentences."""
    return Vocabulary.learn(lambda: PAIRS * 3, specs.load("tiny", {"vocabulary": {"size": 101}}).vocabulary)


@pytest.fixture
def trained(small: Callable[..., Spec], tokens: Vocabulary, home: Path) -> Callable[..., Run]:
    """A run of `small` as after training, but with random weights; its dev and test sets are PAIRS, in files."""

    def make(folder: str | Path = "runs/tiny", **fields: object) -> Run:
        for side, language in enumerate(("en", "de")):
            Path(f"pairs.{language}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
        part = [{"source": "pairs.en", "target": "pairs.de"}]
        corpus = {"train": part, "dev": part, "test": part}
        spec = specs.load("tiny", {**SMALL, "corpus": corpus, "decoding": {"extra_length": 3}, **fields})
        run = Run(Path(folder))
        run.folder.mkdir(parents=True)
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        tokens.save(run.folder)
        weights = build(spec).weights()
        Weights(weights, {"steps": "3,6,9", "longest_source": "31"}).write(run.weights)
        score = {"bleu": 12.345, "perplexity": 9.87, "sentences": 4, "signature": "nrefs:1|case:mixed"}
        write_json(run.scores, {"dev": score})
        return run

    return make


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Compiles the native kernels as the library does, but once for all homes of all tests."""
    compiled, compile = tmp_path_factory.mktemp("kernels"), library._compile

    def once(folder: Path) -> None:
        if not any(compiled.iterdir()):
            compile(compiled)
        shutil.copytree(compiled, folder, dirs_exist_ok=True)

    return once


_THREADS = torch.get_num_threads()


@pytest.fixture
def all_cores() -> Iterator[None]:
    """torch on as many threads as it would take by itself, and on two at least."""
    ours = torch.get_num_threads()
    torch.set_num_threads(max(2, cores()))
    yield
    torch.set_num_threads(ours)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: Callable[[Path], None]) -> Path:
    """Every test has a home and a current folder of its own, no network, and patience."""
    monkeypatch.setattr(library, "_compile", kernels)
    monkeypatch.setattr(building, "PATIENCE", 300.0)  # what is said must not depend on how busy the machine is
    monkeypatch.setattr(sample, "_is_busy", lambda: False)
    folder = tmp_path / "home"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("ZOO_HOME", str(folder))
    monkeypatch.chdir(work)
    monkeypatch.delenv("ZOO_MIRROR", raising=False)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    torch.manual_seed(0)
    if torch.get_num_threads() != _THREADS:  # a run that goes on takes as many as it began with, for the whole process
        torch.set_num_threads(_THREADS)
    return folder
