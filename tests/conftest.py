"""Small specs, runs and vocabularies that many tests share, and a separate home folder for each test."""

from __future__ import annotations

import gc
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Must be set before torch is imported, and holds for the processes that tests start, too. On tiny tensors, several
# threads mostly wait for each other. Tests that depend on threads use the fixture `all_cores`.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Otherwise, each process that a test starts would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Waiting threads must not take the processor time of other workers of pytest-xdist: they would wait many times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Hide GPUs, so that tests give the same results on all machines. `python -m tests.benchmarks.gpu correct` shows them to
# the tests that need one.
if "ZOO_TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

import specs
from cli.app import run
from compiler import build
from compiler.host import cores
from compiler.kernels import library
from specs import Spec
from tests.examples import PAIRS, SMALL, examples, small, write_pairs
from zoo.data import builtin
from zoo.data.builtin import sentences as generate_pairs
from zoo.files.atomic import write_json
from zoo.generation import compilation
from zoo.models.registries import registry
from zoo.models.registries.file_stores import MARKER
from zoo.models.weights import Weights
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

# A shell makes its background jobs ignore SIGINT, and `nohup` SIGHUP. Tests of signals need the usual handlers. The
# processes that tests start inherit ignored signals, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes depends on the machine, so hypothesis must not check it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class Result(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def printed(self) -> str:
        """The output of a command that must succeed."""
        assert self.status == 0, self
        return self.out

    @property
    def refusal(self) -> str:
        """The error of a command that must fail because of a user's mistake, and print nothing to stdout."""
        assert (self.status, self.out) == (2, ""), self
        return self.err


Zoo = Callable[..., Result]
"""Type of the fixture `zoo`."""
Trained = Callable[..., Run]
"""Type of the fixtures `trained` and `hearing`."""


def missing(text: str, *parts: str) -> list[str]:
    """Return the parts that a text does not contain."""
    return [part for part in parts if part not in text]


LONGEST = """
    compiler/test_conformance.py test_benchmarks.py test_copy_task.py cli/test_decode.py cli/test_serve.py
    zoo/serving/test_limits.py zoo/serving/test_connections.py zoo/serving/test_documents.py
    zoo/interop/test_exporter.py zoo/test_import_zoo.py zoo/interop/test_huggingface.py compiler/test_kernels.py
    hostile/test_hostile.py compiler/test_processors.py zoo/interop/test_multilingual.py
    zoo/training/test_distributed.py compiler/test_switches.py zoo/visualization/test_browser.py
    zoo/serving/test_page.py
"""
"""The slowest modules. They run first, so that at the end no worker of pytest-xdist waits for another."""


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist start modules in the order of the next hook, not those with the fewest tests last."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST.split())}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Exclude torch and the tests from garbage collection: each search for garbage in them takes 0.3 seconds."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests with the mark `gpu` where no GPU is visible."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU: run `python -m tests.benchmarks.gpu correct`")


@pytest.fixture(name="small")
def small_fixture() -> Callable[..., Spec]:
    return small


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    """A function that runs a command line in this process: `zoo("decode", "--spec", "tiny", stdin="...")`."""

    def run_command(*arguments: str, stdin: str | bytes = b"") -> Result:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        capsys.readouterr()
        return Result(run(arguments), *capsys.readouterr())

    return run_command


@pytest.fixture(scope="session")
def tokens() -> Vocabulary:
    """The vocabulary of `small`: 101 tokens, learned from a few sentences."""
    return Vocabulary.learn(lambda: examples(PAIRS * 3), specs.load("tiny", {"vocabulary": {"size": 101}}).vocabulary)


@pytest.fixture(scope="session")
def run_files(tokens: Vocabulary) -> Callable[..., Mapping[str, bytes]]:
    """A function that returns the files of a run of `small`, with random weights.

    They are made once for the same fields and random numbers. Afterwards, torch's generator has the same state anyway.
    """
    made: dict[tuple[str, bytes], tuple[Mapping[str, bytes], torch.Tensor]] = {}

    def make(folder: Path, **fields: object) -> Mapping[str, bytes]:
        key = repr(fields), torch.get_rng_state().numpy().tobytes()
        if key not in made:
            made[key] = write(Run(folder), fields), torch.get_rng_state()
        files, state = made[key]
        torch.set_rng_state(state)
        return files

    def write(run: Run, fields: Mapping[str, object]) -> Mapping[str, bytes]:
        part = [{"source": "pairs.en", "target": "pairs.de"}]
        corpus = {"train": part, "dev": part, "test": part}
        spec = specs.load("tiny", {**SMALL, "corpus": corpus, "decoding": {"extra_length": 3}, **fields})
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        tokens.save(run.folder)
        Weights(build(spec).weights(), {"steps": "3,6,9", "longest_source": "31"}).write(run.weights)
        score = {"bleu": 12.345, "perplexity": 9.87, "sentences": 4, "signature": "nrefs:1|case:mixed"}
        write_json(run.scores, {"dev": score})
        return {file.name: file.read_bytes() for file in run.folder.iterdir()}

    return make


@pytest.fixture
def trained(run_files: Callable[..., Mapping[str, bytes]], home: Path) -> Callable[..., Run]:
    """A function that writes a run of `small` as training leaves it, with random weights; its dev set is PAIRS."""

    def make(folder: str | Path = "runs/tiny", **fields: object) -> Run:
        write_pairs(PAIRS)
        run = Run(Path(folder))
        run.folder.mkdir(parents=True)
        for name, content in run_files(run.folder, **fields).items():
            (run.folder / name).write_bytes(content)
        return run

    return make


@pytest.fixture(scope="session")
def _parser() -> tuple[Spec, Vocabulary]:
    architecture = {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 8, "d_v": 8}
    decoding = {"beam": 4, "extra_length": 12}
    spec = specs.load("parsing/tiny", {**SMALL, "architecture": architecture, "decoding": decoding})
    pairs = list(builtin.examples("train", 50, spec.task.streams, {}))
    return spec, Vocabulary.learn(lambda: pairs, spec.vocabulary, len(pairs), spec.task)


@pytest.fixture
def parser_run(home: Path, _parser: tuple[Spec, Vocabulary]) -> Callable[[str], Run]:
    """A function that writes a run of a small parser, with random weights."""
    spec, vocabulary = _parser

    def make(folder: str) -> Run:
        run = Run(Path(folder))
        run.folder.mkdir(parents=True)
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        vocabulary.save(run.folder)
        Weights(build(spec).weights(), {"steps": "1", "longest_source": "60"}).write(run.weights)
        return run

    return make


@pytest.fixture
def hearing(trained: Callable[..., Run]) -> Callable[..., Run]:
    """A function that writes a run like `trained`, of a model that reads audio."""

    def make(folder: str | Path = "runs/hearing", **fields: object) -> Run:
        source = {"kind": "features", "width": 16, "subsampling": [{"kernel": 3, "stride": 4}]}
        architecture = {**SMALL["architecture"], "source": source, "tied_embeddings": "target"}
        task = {"kind": "recognition", "source": {"kind": "audio", "bins": 16}}
        given = {"task": task, "architecture": architecture, "compilation": {"backend": "eager"}, **fields}
        return trained(folder, **given)

    return make


@pytest.fixture(scope="session", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], None]]:
    """Replace the kernels' compiler with one that compiles once for all tests and fixtures of all worker processes."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    compile = library._compile

    def compile_once(folder: Path) -> None:
        with FileLock(f"{shared}.lock"):
            if not shared.is_dir():
                partial = shared.with_suffix(".partial")
                partial.mkdir(exist_ok=True)
                compile(partial)
                partial.rename(shared)
        shutil.copytree(shared, folder, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_compile", compile_once)
        yield compile_once


@cache
def held_out_pairs(split: str, count: int) -> Sequence[builtin.Pair]:
    """Return the dev or test set of the built-in corpus. All tests of a process share it: 750 pairs take seconds."""
    return tuple(generate_pairs(split, count))


def builtin_pairs(split: str, count: int) -> Iterable[builtin.Pair]:
    return (generate_pairs if split == "train" else held_out_pairs)(split, count)


_THREADS = torch.get_num_threads()


@pytest.fixture
def all_cores() -> Iterator[None]:
    """Let torch use all cores, and at least two threads."""
    ours = torch.get_num_threads()
    torch.set_num_threads(max(2, cores()))
    yield
    torch.set_num_threads(ours)


@pytest.fixture(autouse=True)
def _denormal_numbers() -> Iterator[None]:
    """Restore denormal numbers, which `zoo train` replaces with 0 in its process."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def nothing_included(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry without models, in place of that of the included models."""
    folder = tmp_path_factory.mktemp("included")
    (folder / MARKER).write_text("{}")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, nothing_included: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test its own home and current folder, no network, no included model, and long timeouts."""
    monkeypatch.setattr(registry, "INCLUDED", nothing_included)
    monkeypatch.setattr(builtin, "sentences", builtin_pairs)
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 300.0)  # messages must not depend on how busy the machine is
    folder = tmp_path / "home"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("ZOO_HOME", str(folder))
    monkeypatch.chdir(work)
    monkeypatch.delenv("ZOO_MIRROR", raising=False)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    torch.manual_seed(0)
    if torch.get_num_threads() != _THREADS:  # a resumed run sets the number of threads of the process
        torch.set_num_threads(_THREADS)
    return folder
