"""`zoo serve`: it starts, answers, and ends after SIGTERM without losing a request."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests import forks
from tests.conftest import Trained, Zoo, missing
from tests.forks import Fork
from tests.unreadable import unreadable

pytest.importorskip("fastapi")

from zoo.serving.admission import hash_key, read_keys

_REQUESTS, _TEXTS = 6, 30
_START = ("serve", "--model", "runs/tiny", "--port", "0", "--device", "cpu")


@pytest.fixture
def server(trained: Trained) -> Iterator[tuple[Fork, str]]:
    trained()
    process = Fork(forks.COMMAND, *_START)
    while not (found := re.search(r"http://[\d.]+:\d+", process.stderr)):
        assert process.process.is_alive()
        time.sleep(0.01)
    yield process, found[0]
    process.process.kill()


@pytest.mark.integration
def test_sigterm_under_load_loses_no_accepted_request(server: tuple[Fork, str]) -> None:
    process, url = server
    body = {"text": ["we read two books today"] * _TEXTS, "source": "en", "target": "de"}

    def send(_: int) -> httpx2.Response:
        return httpx2.post(f"{url}/v1/translate", json=body, timeout=120)

    def accepted() -> bool:
        metrics = httpx2.get(f"{url}/metrics", timeout=120).text
        done = re.findall(r'zoo_requests_total\{path="/v1/translate".*\} (\d+)', metrics)
        (queued,) = re.findall(r"zoo_queued_texts (\d+)", metrics)
        return int(queued) // _TEXTS + sum(map(int, done)) == _REQUESTS

    httpx2.post(f"{url}/translate", content=b"x", headers={"content-type": "multipart/form-data; boundary=x"})
    with ThreadPoolExecutor(_REQUESTS) as threads:
        answers = threads.map(send, range(_REQUESTS))
        while not accepted():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert [(each.status_code, len(each.json()["results"])) for each in answers] == [(200, _TEXTS)] * _REQUESTS
    assert (process.wait(120), "WARNING" in process.stderr) == (0, False), "clients could fill the disk"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health")


@pytest.mark.integration
def test_the_server_can_be_stopped_while_it_loads_a_model(server: tuple[Fork, str]) -> None:
    process, url = server
    assert httpx2.get(f"{url}/health", timeout=120).status_code == 200  # signals are handled from now on
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert missing(process.stderr, "Exception", "requests:") == ["Exception", "requests:"]  # only those for monitoring
    assert process.stderr.endswith("INFO stopped\n")


@pytest.mark.integration
def test_the_server_can_be_stopped_while_it_compiles(trained: Trained, tmp_path: Path) -> None:
    trained()
    (tmp_path / "c++").write_text("#!/bin/sh\necho endless\n[ $1 = --version ] || { touch $0.began; sleep 600; }\n")
    (tmp_path / "c++").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = Fork(forks.COMMAND, *_START, "--backend", "native", environment=environment)
    while not (tmp_path / "c++.began").exists():
        assert process.process.is_alive()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert [line.rpartition(" ")[2] for line in process.stderr.splitlines()[1:]] == ["stopped"]


_FULL_DISK = f"""
import errno, logging
from py3langid.langid import LanguageIdentifier
def fail(*_, **__):
    for name in "library", "asyncio": logging.getLogger(name).warning(name)
    raise OSError(errno.ENOSPC, "No space left on device")
LanguageIdentifier.from_model_file = fail
{forks.COMMAND}
"""


@pytest.mark.integration
def test_a_full_disk_or_a_model_that_cannot_be_loaded_ends_the_server(trained: Trained) -> None:
    weights = trained().weights
    damage = "error: the model `runs/tiny` cannot be loaded"
    for program, messages in ((_FULL_DISK, ["No space left", "TMPDIR", "WARNING library"]), (forks.COMMAND, [damage])):
        result = forks.run(program, *_START)
        assert result.wait() == 1
        assert missing(result.stderr, *messages, "Traceback", "asyncio") == ["Traceback", "asyncio"]
        weights.write_bytes(weights.read_bytes()[:100])


def test_keys_are_created_and_stored_as_hashes(zoo: Zoo, home: Path) -> None:
    created = [zoo("serve", "--new-key", name, "--keys", "keys.txt").out.strip() for name in ("alice", "bob@x 2")]
    text = Path("keys.txt").read_text(encoding="utf-8")
    assert not any(key in text for key in created)
    Path("keys.txt").write_text(f"# two keys\n\n{text}{hash_key('third')} 5000  # limited\n", encoding="utf-8")
    assert read_keys(Path("keys.txt")) == {**dict.fromkeys(map(hash_key, created)), hash_key("third"): 5000}
    assert [line.partition("#")[2] for line in text.splitlines()] == [" alice", " bob@x 2"]
    for arguments in (["--new-key"], ["--new-key", "alice"]):
        assert zoo("serve", *arguments).status == 2


def test_a_key_needs_a_new_name_of_one_line(zoo: Zoo, home: Path) -> None:
    assert zoo("serve", "--new-key", "alice", "--keys", "keys.txt").status == 0
    before = Path("keys.txt").read_text(encoding="utf-8")
    for name in ("alice", "", "--keys", "a#b", "a\nb", "a\tb", "a" * 101):
        assert "error: " in zoo("serve", f"--new-key={name}", "--keys", "keys.txt").refusal
        assert Path("keys.txt").read_text(encoding="utf-8") == before


def test_problems_are_reported_before_the_server_starts(zoo: Zoo, trained: Trained) -> None:
    assert "no model to serve" in zoo("serve").err
    assert "missing" in zoo("serve", "--model", "missing").err
    trained()
    Path("keys.txt").write_text("secret # bob\n", encoding="utf-8")
    for options in (("--model", "runs/tiny"), ("--new-key", "alice")):
        error = zoo("serve", *options, "--keys", "keys.txt").refusal
        assert not missing(error, "keys.txt:1", "delete the line", "--new-key")
    assert Path("keys.txt").read_text(encoding="utf-8") == "secret # bob\n"
    Path("keys.txt").write_text("", encoding="utf-8")
    for file in ("keys.txt", "missing.txt"):
        assert f"--new-key NAME --keys {file}" in zoo("serve", "--model", "runs/tiny", "--keys", file).refusal
    result = zoo("serve", "--model", "runs/tiny", "--host", "203.0.113.1")
    assert (result.status, missing(result.err, "cannot listen", "--host")) == (1, [])


def test_names_that_no_request_can_have_are_refused(zoo: Zoo) -> None:
    invalid = {"--allow-host": ("https://a.example", "a.example:443"), "--cors": ("a.example", "https://a.example/")}
    for option, value in ((option, value) for option, values in invalid.items() for value in values):
        assert not missing(zoo("serve", option, value).refusal, f"`{option}`: `{value}`", "such as")
    names = ["--allow-host", "a.example", "--cors", "https://a.example:8443", "--cors", "*", "--cors", "null"]
    assert "no model to serve" in zoo("serve", *names, "--cors", "chrome-extension://abc").err


def test_the_error_for_keys_without_permission_says_how_to_permit(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("keys.txt").write_text(f"{hash_key('first')}\n", encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with unreadable(Path("keys.txt"), PermissionError()):
        assert "chmod" in zoo("serve", "--keys", "keys.txt").err


def test_a_missing_extra_is_named(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zoo.serving.app", None)
    assert "pip install -e '.[serve]'" in zoo("serve").refusal


def test_limits_are_finite_numbers(zoo: Zoo) -> None:
    for option in ("--timeout", "--max-wait", "--idle-minutes", "--max-memory"):
        for value in ("inf", "-inf", "nan", "1e300"):
            assert option in zoo("serve", option, value).refusal
