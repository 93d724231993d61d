"""HTML and documents over HTTP: text equals that of plain requests, and files are private and expire."""

from __future__ import annotations

import io
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

from zoo.serving import documents, files

LINES = ["the old dog sees a small house", "we read two books"]
HTML = "<h1>{}</h1><p>{}<br><code>x</code></p><!-- c -->"


@pytest.fixture
def client(client_of):
    return client_of()


@pytest.fixture
def expected(client):
    answer = client.post("/translate", json={"q": LINES, "source": "en", "target": "de"})
    return answer.json()["translatedText"]


TEXT = "\n".join(LINES).encode()


def upload(client, name="a.txt", content=TEXT, **fields):
    given = {"source": "en", "target": "de", **fields}
    return client.post("/translate_file", files={"file": (name, content)}, data=given)


def test_html_is_translated_between_its_tags(client, expected):
    given = {"q": HTML.format(*LINES), "source": "en", "target": "de", "format": "html"}
    assert client.post("/translate", json=given).json() == {"translatedText": HTML.format(*expected)}
    several = client.post("/translate", json={**given, "q": [given["q"], "<p>12</p>", ""], "alternatives": 1}).json()
    assert several["translatedText"] == [HTML.format(*expected), "<p>12</p>", ""]
    assert len(several["alternatives"]) == 3


def test_inline_tags_are_balanced_and_text_is_escaped(client):
    given = {"q": "we <b>read</b> two &lt;books&gt;", "source": "en", "target": "de", "format": "html"}
    text = client.post("/translate", json=given).json()["translatedText"]
    assert text.count("<b>") == text.count("</b>") >= 1
    assert "<books>" not in text


def test_the_language_of_html_is_detected_from_its_text(client_of):
    given = {"q": "<p class='de'>The old dog sees a small house.</p>", "target": "de", "format": "html"}
    answer = client_of().post("/translate", json=given).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_a_document_can_be_downloaded(client, expected):
    answer = upload(client)
    assert answer.status_code == 200, answer.text
    found = client.get(answer.json()["translatedFileUrl"])
    assert found.text == "\n".join(expected)
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a.de.txt"
    assert found.headers["content-type"] == "application/octet-stream"
    assert client.get("/frontend/settings").json()["filesTranslation"] is True


def test_documents_are_private_and_expire(client, monkeypatch):
    secret = upload(client, "../../etc/a \u00e4.txt").json()["translatedFileUrl"].rpartition("/")[2]
    (stored,) = Path(tempfile.gettempdir()).glob(f"zoo-serve-*/{secret}")
    assert stored.parent.stat().st_mode & 0o077 == 0
    assert len(secret) >= 32
    assert "a%20%C3%A4.de.txt" in client.get(f"/download_file/{secret}").headers["content-disposition"]
    assert client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code == 404
    now = files.time.monotonic()
    monkeypatch.setattr(files.time, "monotonic", lambda: now + files.MAX_SECONDS + 1)
    assert client.get(f"/download_file/{secret}").status_code == 404
    assert not stored.exists()


def test_invalid_documents_are_refused(client_of):
    client = client_of(document_bytes=5_000)
    damaged = io.BytesIO()
    with zipfile.ZipFile(damaged, "w") as archive:
        archive.writestr("word/document.xml", "<w:p>")
    for name, content, status in (
        ("a.pdf", b"x", 400),
        ("a.txt", b"\xff", 400),
        ("a.docx", damaged.getvalue(), 400),
        ("a.txt", b"x" * 6_000, 413),
    ):
        answer = upload(client, name, content)
        assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
    assert upload(client, target="fr").status_code == 400
    assert client.post("/translate_file", data={"target": "de"}).status_code == 400
    assert upload(client, content=b"").status_code == 200


def test_documents_have_a_maximum_size_together(client, monkeypatch, expected):
    monkeypatch.setattr(files, "MAX_BYTES", len("\n".join(expected).encode()) + 1)
    assert [upload(client).status_code for _ in range(2)] == [200, 503]


def test_parsing_has_the_time_of_a_request(client_of, monkeypatch):
    monkeypatch.setattr(documents, "Document", lambda content, name: time.sleep(0.5))
    assert upload(client_of(request_seconds=0.1)).status_code == 503
