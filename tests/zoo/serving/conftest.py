"""A server on tiny random models: in this process for most tests, on a port of this machine for real clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from zoo.generation.engine import _Worker
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.serving import Limits, processes
from zoo.serving.admission import Keys, Settings
from zoo.serving.app import Server, create_app, open_socket
from zoo.serving.pool import ModelPool
from zoo.serving.service import Service
from zoo.training.run import Run

RUN = "runs/tiny"
TEXT = "the old dog sees a small house"
TEXTS = [TEXT, "we read two books today"]
PAIR = {"source": "en", "target": "de"}
_IDLE: list[processes._Process] = []
"""Worker processes of closed servers, which the next servers use: it takes half a second to start one."""


@pytest.fixture(scope="session", autouse=True)
def _shared_processes() -> Iterator[None]:
    start, close = processes._Process, processes.Processes.close

    def start_or_reuse() -> processes._Process:
        with suppress(IndexError):
            return _IDLE.pop()
        return start()

    def close_but_keep_idle(self: processes.Processes) -> None:
        _IDLE.extend(self._idle)
        self._started.difference_update(self._idle)
        close(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_Process", start_or_reuse)
        patch.setattr(processes.Processes, "close", close_but_keep_idle)
        yield
    for process in _IDLE:
        process.kill()


def open_quietly(folder: Path | str = RUN):
    return open_model(Path(folder), device="cpu", report=Report())


def check_refused(answer, status: int, problem: str = "", key: str = "error") -> None:
    """Check that the answer to a request has a status, and only an error that contains the problem."""
    assert (answer.status_code, list(answer.json())) == (status, [key]), answer.text
    assert problem in answer.json()[key]


@pytest.fixture
def service_of(trained: Callable[..., Run]) -> Callable[..., Service]:
    """A function that returns the service of a run of `small`, from `en` to `de`. Keyword arguments set limits."""

    def make(names=(RUN,), keys=None, cors=(), hosts=(), memory_bytes=10**10, **limits) -> Service:
        if RUN in names and not Path(RUN).exists():
            trained()
        patient = {"wait_seconds": 60.0, **limits}  # other programs can take the processor during a test
        settings = Settings(Limits(**patient), keys if isinstance(keys, Keys) else Keys(keys), cors, hosts)
        pool = ModelPool(names, memory_bytes=memory_bytes, idle_seconds=1_800, open_translator=open_quietly)
        return Service(settings, pool)

    return make


@pytest.fixture
def client_of(service_of) -> Iterator[Callable[..., TestClient]]:
    """A function that returns a client of a server with these settings."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(TestClient(create_app(service_of(**settings))))


@pytest.fixture
def client(client_of) -> TestClient:
    return client_of()


@pytest.fixture
def translator(client) -> Translator:
    """The model that the server uses."""
    return open_quietly()


@pytest.fixture
def expected(translator) -> list[str]:
    """The translations of TEXTS."""
    return translator.translate(TEXTS)


@pytest.fixture
def url_of(service_of) -> Iterator[Callable[..., str]]:
    """A function that starts a server on a free port of this machine, and returns its address."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(service_of(**settings)))


@contextmanager
def running(service: Service, preloaded: Sequence[str] = ()) -> Iterator[str]:
    listener = open_socket("127.0.0.1", 0)
    server = Server(service, preloaded)
    server.capture_signals = nullcontext  # signals belong to the main thread
    with run_in_thread(server, listener) as url:
        yield url
    listener.close()


@contextmanager
def run_in_thread(server: Any, listener: socket.socket) -> Iterator[str]:
    """Run a server of uvicorn in a thread, and yield its address."""
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that all searches wait for."""
    event, step = threading.Event(), _Worker._run_steps

    def step_later(self) -> None:
        event.wait()
        step(self)

    monkeypatch.setattr(_Worker, "_run_steps", step_later)
    yield event
    event.set()
