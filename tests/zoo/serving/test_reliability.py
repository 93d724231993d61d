"""A server process that is stopped under load, and clients that are killed in the middle of their requests."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from zoo.training.run import Run

ROOT = Path(__file__).parents[3]
CLIENTS, KILLED, STOPS = 40, 200, 20
LINES = [f"the old dog sees {number} small houses" for number in range(30)]
BODY = {"text": "\n".join(LINES), "source": "en", "target": "de", "beam": 8}


@contextmanager
def server(run: Run) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `zoo serve` on a free port, and yield the process and its address."""
    command = [sys.executable, "-m", "zoo", "serve", "--model", str(run.folder.resolve()), "--port", "0"]
    options = ["--device", "cpu", "--max-wait", "600"]  # accept all requests, although they are an overload
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, *options], env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "http://" in line)
        yield process, line[line.index("http://") :].partition(";")[0]
        process.kill()


def open_requests(url: str) -> int:
    lines = httpx2.get(f"{url}/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("zoo_open_requests ")).split()[1]))


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_accepted_request_is_lost_when_the_server_is_stopped(trained: Callable[..., Run]) -> None:
    run = trained()
    for _ in range(STOPS):
        with server(run) as (process, url), ThreadPoolExecutor(CLIENTS) as threads:
            assert httpx2.post(f"{url}/v1/translate", json={**BODY, "text": "we"}, timeout=120).status_code == 200
            answers = [
                threads.submit(httpx2.post, f"{url}/v1/translate", json=BODY, timeout=300) for _ in range(CLIENTS)
            ]
            # All requests are accepted before the signal: the system resets connections that still wait for that.
            wait_until(lambda url=url, sent=answers: open_requests(url) - 1 + sum(map(Future.done, sent)) >= CLIENTS)
            assert not all(map(Future.done, answers))
            process.send_signal(signal.SIGTERM)
            assert {answer.result().status_code for answer in answers} == {200}
            assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_clients_leave_nothing_behind(trained: Callable[..., Run]) -> None:
    body = json.dumps(BODY).encode()
    head = f"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    with server(trained()) as (_, url):
        expected = httpx2.post(f"{url}/v1/translate", json=BODY, timeout=120).json()
        address = urlsplit(url)
        for number in range(KILLED):
            client = socket.create_connection((address.hostname, address.port))
            sent = head.encode() + b"\r\n\r\n" + body
            client.sendall(sent if number % 2 else sent[: number * len(sent) // KILLED])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, as if killed
            client.close()
        wait_until(lambda: open_requests(url) == 1)  # the request for the metrics
        metrics = httpx2.get(f"{url}/metrics").text
        assert "zoo_queued_texts 0.0" in metrics
        assert httpx2.post(f"{url}/v1/translate", json=BODY, timeout=120).json() == expected
