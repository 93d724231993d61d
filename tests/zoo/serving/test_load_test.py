"""The load test runs at toy size, against `zoo serve` and against the server around CTranslate2."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from compiler import build
from tests.benchmarks import serve_load
from tests.zoo.serving.conftest import run_in_thread
from zoo.interop.ctranslate2.exporter import CTranslate2Export
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
pytestmark = pytest.mark.integration
LINES = ["the old dog", "a small house", "we read two books", "do you see the cat?"]


@pytest.fixture
def peer_url(trained: Callable[..., Run], tokens: Vocabulary) -> Iterator[str]:
    """The address of the server around CTranslate2, with the model `runs/tiny`."""
    from tests.benchmarks.serve_peer import create_app

    run = trained()
    model = Model(run.spec, tokens, Weights(build(run.spec).weights()))
    folder = Path("ctranslate2")
    folder.mkdir()
    CTranslate2Export().write(model, folder)
    app = create_app(str(folder), str(run.folder / "vocabulary.model"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11"))
    with socket.create_server(("127.0.0.1", 0)) as listener, run_in_thread(server, listener) as url:
        yield url


def test_servers_are_compared(url_of, peer_url, monkeypatch, capsys):
    monkeypatch.setattr(serve_load, "FACTORS", (0.5,))
    servers = [f"{name}={url}={os.getpid()}" for name, url in (("zoo", url_of()), ("peer", peer_url))]
    Path("lines").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["serve_load", "lines", *servers, "--toy"])
    serve_load.main()
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.partition(" |")[0] for row in rows] == ["zoo", "peer"]
    assert all("'200'" in row for row in rows)
