"""Beyond a limit, a request is rejected immediately, and clients that are slow or leave do no harm."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.zoo.serving.conftest import PAIR, check_refused
from zoo.generation.hypotheses import SearchHistory
from zoo.generation.translator import Translator
from zoo.serving import service
from zoo.serving.answer import Call

BODY = {"text": "we read two books", **PAIR}
JSON = {"content-type": "application/json"}


def metric(url: str, name: str) -> float:
    lines = httpx2.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def send(url: str, body: dict = BODY) -> httpx2.Response:
    return httpx2.post(f"{url}/v1/translate", json=body, timeout=120)


def connect(url: str) -> socket.socket:
    return socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=120)


def raw_request(length: int, content: bytes) -> bytes:
    head = f"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}"
    return head.encode() + b"\r\n\r\n" + content


RAW = b'{"text": "we read", "source": "en", "target": "de"}'


def test_a_large_body_is_refused_and_not_kept(client_of):
    client = client_of(body_bytes=1_000)
    for content in (b"x" * 10_000_000, iter([b"x" * 1_000] * 10_000), b'{"text": "' + b"x" * 1_000 + b'"}'):
        check_refused(client.post("/v1/translate", content=content, headers=JSON), 413)
    for path in ("/v2/translate", "/v1/audio/unknown"):
        assert '{"message":"the body is larger than 1,000' in client.post(path, files={"file": b"x" * 1_001}).text


def test_a_request_has_a_maximum_of_texts_and_characters(client_of):
    client = client_of(texts=2, text_characters=20)
    ligature = "\ufdfa"  # of 18 letters, which count as 18
    for text, status in ((["a"] * 2, 200), (["a"] * 3, 413), ("a" * 21, 413), (ligature, 200), (ligature * 2, 413)):
        assert client.post("/v1/translate", json={**BODY, "text": text}).status_code == status, text
    assert client.post("/v1/translate", json={**BODY, "prefix": "a" * 21}).status_code == 413
    assert client.post("/translate", json={"q": "a" * 21, "target": "de"}).json().keys() == {"error"}
    assert client.post("/detect", json={"q": "a" * 21}).status_code == 413
    assert client.post("/v1/score", json={**BODY, "text": "a", "translation": "a" * 21}).status_code == 413


@pytest.mark.parametrize(
    ("limit", "status", "ready", "reason"),
    [
        ({"queued_texts": 1}, 429, 503, "queue"),
        ({"queued_characters": 20}, 429, 200, "queue"),
        ({"requests": 1}, 503, 200, "requests"),
        ({"wait_seconds": 0.2}, 429, 200, "wait"),
    ],
)
def test_a_busy_server_refuses_requests_until_it_has_answered(url_of, blocked, limit, status, ready, reason):
    url = url_of(**limit)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(send, url)
        wait_until(lambda: metric(url, "zoo_queued_texts") == metric(url, "zoo_loaded_models") == 1)
        time.sleep(5 * limit.get("wait_seconds", 0))  # the request begins to wait when its model is loaded
        refused = send(url)
        check_refused(refused, status)
        assert int(refused.headers["retry-after"]) > 0
        given = {"text": [BODY["text"]], "source_lang": "en", "target_lang": "de"}
        check_refused(httpx2.post(f"{url}/v2/translate", json=given), status, key="message")
        assert httpx2.get(f"{url}/health").status_code == 200
        assert httpx2.get(f"{url}/health/ready").status_code == ready
        blocked.set()
        assert first.result().status_code == 200
    wait_until(lambda: metric(url, "zoo_open_requests") == 0)  # an answer can arrive before its request ends
    assert send(url).status_code == 200
    assert metric(url, "zoo_queued_characters") == 0
    assert metric(url, f'zoo_rejected_total{{reason="{reason}"}}') == 2
    assert metric(url, f'zoo_requests_total{{path="/v2/translate",status="{status}"}}') == 1


def test_a_request_that_never_fits_the_queue_is_too_large(client_of):
    client = client_of(queued_characters=10, queued_texts=2)
    for text, status in ((BODY["text"], 413), (["a"] * 3, 413), ("we", 200)):
        assert client.post("/v1/translate", json={**BODY, "text": text}).status_code == status


def test_a_request_has_a_maximum_time(client_of, blocked):
    client = client_of(request_seconds=0.2)
    answer = client.post("/v1/translate", json=BODY)
    check_refused(answer, 503)
    assert "retry-after" in answer.headers
    streamed = client.post("/v1/translate", json={**BODY, "stream": True, "text": ["we", "read"]})
    assert streamed.text.count('"status": 503') == 2
    assert "zoo_queued_texts 0.0" in client.get("/metrics").text


def test_requests_take_turns_while_languages_are_detected(service_of, monkeypatch):
    detected = list[str]()
    monkeypatch.setattr(service, "detect_source", lambda text, *_: (detected.append(text) or "en", 1.0))

    async def plan() -> None:
        own, call = service_of(), Call("", target="de")
        await asyncio.gather(own.plan(call, ["one"] * 3), own.plan(call, ["two"] * 3))

    asyncio.run(plan())
    assert detected == ["one", "two"] * 3


def test_a_slow_body_is_refused(url_of):
    with connect(url_of(body_seconds=0.2)) as client:
        client.sendall(raw_request(len(RAW), RAW[:5]))
        assert client.recv(10_000).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_work(url_of, blocked, monkeypatch, caplog, stream):
    translated, finish = [], SearchHistory.hypotheses
    monkeypatch.setattr(SearchHistory, "hypotheses", lambda self: translated.append(self.source.text) or finish(self))
    caplog.set_level(logging.INFO)
    url = url_of()
    content = RAW.replace(b'"source"', b'"stream": true, "source"') if stream else RAW
    with connect(url) as client:
        client.sendall(raw_request(len(content), content))
        wait_until(lambda: metric(url, "zoo_queued_texts") == 1)
    wait_until(lambda: metric(url, "zoo_queued_texts") == 0)
    blocked.set()
    assert send(url).status_code == 200
    assert translated == [BODY["text"]], "the text of the client that left was not translated"
    assert sum("disconnected" in record.getMessage() for record in caplog.records) == (not stream)


def test_clients_that_are_killed_or_leave_are_forgotten(url_of):
    url, whole = url_of(), raw_request(len(RAW), RAW)
    for number in range(40):
        with connect(url) as client:
            client.sendall(whole if number % 2 else whole[: number * len(whole) // 40])
            if number % 4:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, as if killed
    wait_until(lambda: metric(url, "zoo_open_requests") == 0)
    assert metric(url, "zoo_queued_texts") == 0
    assert send(url).status_code == 200


def test_no_text_is_logged(client, monkeypatch, caplog):
    monkeypatch.setattr(Translator, "submit", Mock(side_effect=RuntimeError("a secret")))
    caplog.set_level(logging.DEBUG)
    answer = client.post("/translate", params={"q": "a secret", **PAIR})
    check_refused(answer, 500)
    assert "secret" not in answer.text
    own = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
    assert sum("internal error RuntimeError" in message for message in own) == 1
    assert not any("secret" in message for message in own)


def test_other_web_pages_may_use_the_server_only_if_they_are_listed(client_of):
    origin, other = "https://example.org", "https://other.org"
    for listed, asked, allowed in (((), origin, None), ((origin,), origin, origin), ((origin,), other, None)):
        answer = client_of(cors=listed).get("/languages", headers={"Origin": asked})
        assert answer.headers.get("access-control-allow-origin") == allowed
