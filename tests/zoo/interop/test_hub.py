"""`hf:ORG/NAME`, against a stand-in for the Hub on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specs import ZooError
from zoo.interop import hub
from zoo.report import Report

pytest.importorskip("huggingface_hub")

FILES = {
    "config.json": b"{}",
    "source.spm": b"a model",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same weights, pickled",
    "tf_model.h5": b"and for another library",
    "sub/notes.json": b"{}",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """One model, `us/small`."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        found = FILES.get(path.removeprefix(f"/us/small/resolve/{COMMIT}/"))
        if path.startswith("/api/models/us/small"):
            siblings = [{"rfilename": name} for name in FILES]
            found = json.dumps({"id": "us/small", "sha": COMMIT, "siblings": siblings}).encode()
        if "/tree/" in path:
            found = json.dumps(
                [{"type": "file", "path": name, "size": len(said), "oid": "0" * 40} for name, said in FILES.items()]
            ).encode()
        if found is None:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", f'"{sha256(found).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        if body:
            self.wfile.write(found)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetched(endpoint: str, home: Path, source: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the package reads its settings once."""
    code = "import sys; from zoo.report import Report; from zoo.interop import hub\n"
    code += "from specs import ZooError\ntry: print(hub.fetched(sys.argv[1], Report()))\n"
    code += "except ZooError as error: sys.exit(str(error))"
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"}
    return subprocess.run(
        [sys.executable, "-c", code, source],
        env={**os.environ, **settings, "ZOO_OFFLINE": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_an_import_reads_is_fetched(endpoint: str, tmp_path: Path) -> None:
    done = fetched(endpoint, tmp_path, "hf:us/small")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert {file.name for file in folder.rglob("*")} == {"config.json", "source.spm", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_model_that_is_not_there_is_told(endpoint: str, tmp_path: Path) -> None:
    done = fetched(endpoint, tmp_path, "hf:us/other")
    assert done.returncode == 1
    assert done.stderr.startswith("`hf:us/other` cannot be fetched")


def test_where_nobody_answers_that_is_told(endpoint: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and listens to nobody
        done = fetched(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path, "hf:us/small")
    assert done.returncode == 1
    assert done.stderr.startswith("`hf:us/small` cannot be fetched"), done.stderr
    assert "Traceback" not in done.stderr


def test_offline_nothing_is_asked() -> None:
    with pytest.raises(ZooError, match="ZOO_OFFLINE"):
        hub.fetched("hf:us/small", Report())


@pytest.mark.parametrize("source", ["hf:", "hf:alone", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:a /b"])
def test_what_is_no_name_is_refused_before_anything_is_asked(source: str) -> None:
    with pytest.raises(ZooError, match="is no model of the Hub"):
        hub.fetched(source, Report())
