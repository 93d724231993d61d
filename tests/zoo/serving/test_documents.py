"""HTML and documents over HTTP: text equals that of plain requests, and files are private and expire."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from unittest.mock import AsyncMock, Mock

import httpx2
import pytest

from tests.hostile.documents import archive
from tests.zoo.serving.conftest import PAIR, TEXTS, check_refused, running
from tests.zoo.serving.test_deepl import upload as upload_to_deepl
from tests.zoo.serving.test_limits import metric, wait_until
from zoo.generation.translation import Translation
from zoo.serving import documents, processes
from zoo.serving.answer import ServingError
from zoo.serving.service import Service

TEXT = "\n".join(TEXTS).encode()
HTML = "<h1>{}</h1><p>{}<br><code>x</code></p><!-- c -->"


def upload(client, name="a.txt", content=TEXT, **fields):
    return client.post("/translate_file", files={"file": (name, content)}, data={**PAIR, **fields})


def upload_to(url, timeout=60.0):
    with httpx2.Client(base_url=url, timeout=timeout) as client:
        return upload(client)


def test_html_is_translated_between_its_tags(client, expected):
    given = {"q": HTML.format(*TEXTS), **PAIR, "format": "html"}
    assert client.post("/translate", json=given).json() == {"translatedText": HTML.format(*expected)}
    several = client.post("/translate", json={**given, "q": [given["q"], "<p>12</p>", ""], "alternatives": 1}).json()
    assert several["translatedText"] == [HTML.format(*expected), "<p>12</p>", ""]
    assert len(several["alternatives"]) == 3


def test_paragraphs_to_check_are_counted_in_the_log(client, caplog):
    """A model after a few steps is never sure."""
    with caplog.at_level("INFO"):
        assert upload(client, content=b"we read two books").status_code == 200
    assert "1 of 1 translated paragraphs have a low probability" in caplog.text
    assert "books" not in caplog.text


def test_the_language_of_html_is_detected_from_its_text(client):
    given = {"q": "<p class='de'>The old dog sees a small house.</p>", "target": "de", "format": "html"}
    answer = client.post("/translate", json=given).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_a_document_can_be_downloaded(client, expected):
    answer = upload(client)
    assert answer.status_code == 200, answer.text
    found = client.get(answer.json()["translatedFileUrl"])
    assert found.text == "\n".join(expected)
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a.de.txt"
    assert found.headers["content-type"] == "application/octet-stream"
    assert client.get("/frontend/settings").json()["filesTranslation"] is True


def test_the_language_of_a_page_is_set(client, expected):
    page = '<html lang="{}"><p title="{}">{}</p>'
    answer = upload(client, "a.html", page.format("en", *TEXTS).encode())
    assert client.get(answer.json()["translatedFileUrl"]).text == page.format("de", *expected)


def test_spaces_around_a_translation_begin_no_code_block(client, monkeypatch):
    translations = [Translation("    eins "), Translation("zwei")]
    monkeypatch.setattr(Service, "_submit", AsyncMock(return_value=[[each] for each in translations]))
    answer = upload(client, "a.md", b"one\n\ntwo\n")
    assert client.get(answer.json()["translatedFileUrl"]).text == "eins\n\nzwei\n"


def test_documents_are_private_and_expire(client, monkeypatch):
    secret = upload(client, "../../etc/a \u00e4.txt").json()["translatedFileUrl"].rpartition("/")[2]
    assert len(secret) >= 32
    assert "a%20%C3%A4.de.txt" in client.get(f"/download_file/{secret}").headers["content-disposition"]
    assert client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code == 404
    monkeypatch.setattr(documents, "DOWNLOAD_SECONDS", 0.1)
    expired = upload(client).json()["translatedFileUrl"]
    wait_until(lambda: client.get(expired).status_code == 404)


def test_invalid_documents_are_refused(client_of):
    client = client_of(document_bytes=5_000)
    damaged = archive(".docx", "<w:p>")
    check_refused(upload(client, "a.pdf"), 400, "`.pdf` is not supported; use .txt")
    for name, content, status in (("a.txt", b"\xff", 400), ("a.docx", damaged, 400), ("a.txt", b"x" * 6_000, 413)):
        check_refused(upload(client, name, content), status)
    assert {upload(client, **each).status_code for each in ({"target": "fr"}, {"model": "other"})} == {400}
    assert client.post("/translate_file", data={"target": "de"}).status_code == 400
    assert upload(client, content=b"").status_code == 200


def test_documents_have_a_maximum_size_together(client, monkeypatch, expected):
    monkeypatch.setattr(documents, "MAX_STORED_BYTES", len("\n".join(expected).encode()) + 1)
    first, refused = upload(client), upload(client)
    assert (first.status_code, refused.status_code, "retry-after" in refused.headers) == (200, 503, True)


def test_a_document_that_is_being_downloaded_counts_after_it_has_expired(monkeypatch):
    monkeypatch.setattr(documents, "MAX_STORED_BYTES", 3)
    monkeypatch.setattr(documents, "DOWNLOAD_SECONDS", 0.0)

    async def run() -> None:
        downloads = documents.Downloads()
        response = downloads.get(downloads.add(b"abc", "a.txt")).response()
        await asyncio.sleep(0.01)
        with pytest.raises(ServingError, match="too many"):
            downloads.add(b"d", "d.txt")
        del response
        downloads.add(b"d", "d.txt")

    asyncio.run(run())


def test_reading_has_the_time_of_a_request(client_of, monkeypatch):
    monkeypatch.setattr(BaseProcess, "join", Mock(side_effect=RuntimeError("the event loop waits for a process")))
    monkeypatch.setattr(documents, "read_texts", _sleep)
    assert upload(client_of(request_seconds=0.5)).status_code in (413, 503)
    monkeypatch.setattr(documents, "_CALL_SECONDS", 0.5)
    check_refused(upload(client_of()), 413, "0.5 seconds")


def test_a_document_that_needs_too_much_memory_harms_no_other(client, expected, monkeypatch):
    with monkeypatch.context() as context:
        for harm, status in ((_fill_memory, 413), (_die, 413), (_fail, 500)):
            context.setattr(documents, "read_texts", harm)
            assert upload(client).status_code == status
    assert client.get(upload(client).json()["translatedFileUrl"]).text == "\n".join(expected)


def _sleep(sources: object) -> None:
    time.sleep(1000)


def _fill_memory(sources: object) -> bytes:
    return bytes(2 * processes.MAX_BYTES)


def _die(sources: object) -> None:
    os._exit(1)


def _fail(sources: object) -> None:
    raise RuntimeError


def test_a_process_is_used_again_unless_it_has_become_large_or_was_killed():
    async def run() -> list[int]:
        pool = processes.Processes(1)
        try:
            numbers = [await pool.run(60, function) for function in (os.getpid, os.getpid, _become_large, os.getpid)]
            os.kill(numbers[-1], signal.SIGKILL)
            pool._idle[0]._process.join()
            return [*numbers, await pool.run(60, os.getpid)]
        finally:
            pool.close()

    first, second, large, killed, last = asyncio.run(run())
    assert first == second == large != killed != last


_KEPT = []


def _become_large() -> int:
    _KEPT.append(b"x" * (processes._MAX_IDLE_BYTES + 1))
    return os.getpid()


def test_paragraphs_have_a_maximum_length_and_number(client_of, monkeypatch):
    client = client_of(text_characters=20)
    assert upload(client, content=b"x" * 20).status_code == 200
    assert upload(client, content=b"x" * 21).status_code == 413
    monkeypatch.setattr(documents, "MAX_LINES", 1)
    assert upload(client, content=b"a\nb").status_code == 413


@pytest.mark.timeout(120)
def test_clients_that_left_occupy_no_process(url_of, monkeypatch):
    monkeypatch.setattr(documents, "_PROCESSES", 1)
    monkeypatch.setattr(documents, "_CALL_SECONDS", 600.0)
    url = url_of()
    with monkeypatch.context() as context:
        context.setattr(documents, "read_texts", _sleep)
        for _ in range(2 * documents._PROCESSES):
            with pytest.raises(httpx2.TimeoutException):
                upload_to(url, timeout=1.0)
    assert upload_to(url).status_code == 200


def test_a_server_that_ends_waits_for_no_document(service_of, monkeypatch):
    monkeypatch.setattr(documents, "read_texts", _sleep)
    with ThreadPoolExecutor() as threads, running(service_of()) as url:
        answer = threads.submit(upload_to, url)
        wait_until(lambda: metric(url, "zoo_open_requests") == 1)
        time.sleep(0.5)
    assert answer.result().status_code == 503


def test_a_server_that_ends_stops_the_translation_of_documents(service_of, monkeypatch, caplog):
    cancelled = []

    async def wait(*_: object) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    service = service_of()
    monkeypatch.setattr(service, "translate_groups", wait)
    with ThreadPoolExecutor() as threads, running(service) as url:
        answer = threads.submit(upload_to, url)
        with httpx2.Client(base_url=url, timeout=60) as client:
            assert upload_to_deepl(client).status_code == 200
        wait_until(lambda: metric(url, "zoo_queued_texts") == 2)
    assert answer.result().status_code == 503
    assert answer.result().json() == {"error": "the server is shutting down; try again later"}
    assert (cancelled, "ERROR" in caplog.text) == ([True, True], False)
