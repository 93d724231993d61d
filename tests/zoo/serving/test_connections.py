"""Clients that are slow, idle or too many are disconnected, and the others do not notice them."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import time
from contextlib import ExitStack, suppress
from unittest.mock import AsyncMock, Mock, patch

import httpx2
import pytest

from tests.zoo.serving.conftest import running
from tests.zoo.serving.test_documents import upload_to
from tests.zoo.serving.test_limits import RAW, connect, metric, raw_request, send, wait_until
from zoo.serving import app
from zoo.serving.app import Server
from zoo.serving.documents import Documents

LARGE = 30_000_000
UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def impatient(monkeypatch) -> None:
    for name in ("KEEP_ALIVE_SECONDS", "_STALLED_SECONDS_AT_END", "_BODY_SECONDS_AT_END"):
        monkeypatch.setattr(app, name, 0.5)
    monkeypatch.setattr(app, "_SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(app, "STALLED_SECONDS", 1.0)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1_000_000) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nhost: x\r\nx: "])
def test_an_idle_connection_is_closed(url_of, impatient, sent):
    with connect(url_of()) as client:
        client.sendall(sent)
        assert is_closed(client)


def test_a_head_that_arrives_bit_by_bit_has_a_maximum_time(url_of, impatient):
    with connect(url_of()) as client:
        client.settimeout(0.05)
        while not is_closed(client):
            with suppress(ConnectionError):
                client.sendall(b"x")


def test_what_is_not_http_gets_json_and_no_traceback(url_of, caplog):
    url, head = url_of(body_bytes=10), b"POST /translate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    large, wrong = head + b"fff\r\n%s\r\n" % bytes(4_095), b"nonsense\r\n\r\n"
    only_head = head.replace(b"POST", b"HEAD") + wrong
    for sent, status, rest in ((wrong, 400, b""), (head + wrong, 400, b""), (only_head, 400, b""), (large, 413, wrong)):
        with connect(url) as client, client.makefile("rb") as answer:
            client.sendall(sent)
            assert answer.readline().startswith(b"HTTP/1.1 %d " % status)
            client.sendall(rest)
            assert answer.read().count(b'{"error":') == 1
    assert "Traceback" not in caplog.text


def test_little_is_logged_if_there_is_no_file_descriptor(url_of, monkeypatch, caplog):
    url, accept = url_of(), Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
    with httpx2.Client(base_url=url, timeout=60) as early, monkeypatch.context() as context:
        assert early.get("/health").status_code == 200
        context.setattr(socket.socket, "accept", accept)
        with connect(url):
            wait_until(lambda: accept.called)
            assert early.get("/health").status_code == 200
    assert caplog.text.count("out of system resource") < 500, "a client could fill the disk"


def test_a_head_request_gets_no_body_and_keeps_the_connection(url_of):
    with connect(url_of()) as client, client.makefile("rb") as answers:
        client.sendall(b"".join(b"%s /health/ready HTTP/1.1\r\nhost: x\r\n\r\n" % each for each in (b"HEAD", b"GET")))
        assert [*iter(answers.readline, b"\r\n")][:1] == [answers.readline()] == [b"HTTP/1.1 200 OK\r\n"]


def test_a_large_body_is_read_in_small_parts(url_of, monkeypatch):
    receive, parts = app.Connection.data_received, []
    monkeypatch.setattr(app.Connection, "data_received", lambda self, data: [parts.append(data), receive(self, data)])
    httpx2.post(url_of(), content=bytes(500_000))
    assert max(map(len, parts)) <= 16_384, "the server parses each part before it reads from other clients"


def request_document(url: str, size: int, buffer: int = 4_096) -> socket.socket:
    """Request a large document from a server. The buffer for what arrives has the given size."""
    with patch.object(Documents, "translate_document", AsyncMock(return_value=os.urandom(size))):
        url = upload_to(url).json()["translatedFileUrl"]
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(120)
    client.connect((httpx2.URL(url).host, httpx2.URL(url).port))
    client.sendall(f"GET {httpx2.URL(url).path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return client


def test_a_client_that_accepts_nothing_is_disconnected(url_of, impatient):
    url = url_of()
    with request_document(url, LARGE) as client:
        wait_until(lambda: metric(url, "zoo_open_requests") == 1)
        wait_until(lambda: metric(url, "zoo_open_requests") == 0)
        received = 0
        with suppress(ConnectionError):
            while part := client.recv(1_000_000):
                received += len(part)
        assert received < LARGE


def test_a_client_that_is_only_slow_gets_the_whole_document(url_of, impatient):
    size = 3_000_000
    with request_document(url_of(), size, 64_000) as client:
        received, start = 0, time.monotonic()
        while received < size:
            part = client.recv(64_000)
            assert part
            received += len(part)
            time.sleep(0.02)
        assert time.monotonic() > start + 0.5


def test_many_idle_connections_stop_nobody_and_close_no_open_request(url_of, blocked, monkeypatch):
    monkeypatch.setattr(app, "max_connections", lambda: 10)
    url = url_of()
    with ExitStack() as stack:
        busy = [stack.enter_context(connect(url)) for _ in range(3)]
        for client in busy:
            client.sendall(raw_request(len(RAW), RAW))
        wait_until(lambda: metric(url, "zoo_queued_texts") == 3)
        idle = [stack.enter_context(connect(url)) for _ in range(30)]
        assert httpx2.get(f"{url}/health").status_code == 200
        assert is_closed(idle[0]), "the oldest idle connection is closed first"
        blocked.set()
        assert send(url).status_code == 200
        assert all(client.recv(10_000).startswith(b"HTTP/1.1 200") for client in busy)


@pytest.mark.timeout(100)  # without the limits, the server waits 125 seconds
def test_slow_clients_do_not_keep_a_server_from_ending(service_of, impatient):
    with ExitStack() as stack:
        with running(service_of()) as url:
            stack.enter_context(request_document(url, LARGE))
            client = stack.enter_context(connect(url))
            client.sendall(raw_request(len(RAW), RAW[:5]))
            wait_until(lambda: metric(url, "zoo_open_requests") == 2)
        assert is_closed(client)


@pytest.mark.parametrize(
    ("limits", "raised", "connections_"),
    [
        ((256, 256), 256, 85),
        ((1_024, 1_024), 1_024, 824),
        ((1_024, 4_096), 4_096, 2_000),
        ((1_024, UNLIMITED), 65_536, 2_000),
        ((UNLIMITED, UNLIMITED), UNLIMITED, 2_000),
    ],
)
def test_connections_leave_file_descriptors_for_others(monkeypatch, limits, raised, connections_):
    current = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: current[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: current.append(new))
    assert app.max_connections() == connections_
    assert current[-1][0] == raised


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_server(service_of, number):
    service = service_of()
    server = Server(service)
    with server.capture_signals():
        os.kill(os.getpid(), number)
        assert server.should_exit
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with server.capture_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "`nohup` has its effect"
    signal.signal(signal.SIGHUP, previous)
