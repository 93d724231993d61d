"""A server process whose clients are killed in the middle of their requests."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

import httpx2
import pytest

from tests.paths import ROOT
from tests.zoo.serving.test_limits import connect, metric, raw_request, wait_until
from zoo.training.run import Run

KILLED = 200
LINES = [f"the old dog sees {number} small houses" for number in range(30)]
BODY = {"text": "\n".join(LINES), "source": "en", "target": "de", "beam": 8}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_clients_leave_nothing_behind(trained: Callable[..., Run]) -> None:
    body = json.dumps(BODY).encode()
    sent = raw_request(len(body), body)
    command = [sys.executable, "-m", "zoo", "serve", "--model", str(trained().folder.resolve()), "--port", "0"]
    options = ["--device", "cpu", "--max-wait", "600"]  # accept all requests, although they are an overload
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, *options], env=environment, stderr=subprocess.PIPE, text=True) as process:
        line = next(line for line in process.stderr if "http://" in line)
        url = line[line.index("http://") :].partition(";")[0]
        expected = httpx2.post(f"{url}/v1/translate", json=BODY, timeout=120).json()
        for number in range(KILLED):
            client = connect(url)
            client.sendall(sent if number % 2 else sent[: number * len(sent) // KILLED])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, as if killed
            client.close()
        wait_until(lambda: metric(url, "zoo_open_requests") == 1)  # the request for the metrics
        assert metric(url, "zoo_queued_texts") == 0
        assert httpx2.post(f"{url}/v1/translate", json=BODY, timeout=120).json() == expected
        process.kill()
