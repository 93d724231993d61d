"""Requests that once blocked the server or filled its memory are refused, before their work begins."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError
from starlette import formparsers

from tests.zoo.serving.conftest import RUN
from tests.zoo.serving.test_limits import BODY
from zoo.generation.translator import Translator
from zoo.serving import admission, service
from zoo.serving.admission import LINE_BREAKS, Admission, Metrics
from zoo.serving.answer import ServingError
from zoo.serving.native import TranslateBody
from zoo.serving.settings import Limits, Settings, hash_key, new_key, read_keys

LIBRETRANSLATE = {"q": "we read two books", "source": "en", "target": "de"}
KEY_LINE = hash_key("first").encode()
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("unit", [" ", "\n", " \n", "a \n", "\u2029 "])
def test_white_space_is_split_in_linear_time(unit):
    text = unit * (1_000_000 // len(unit))
    assert "".join(LINE_BREAKS.split(text)) == text


def test_a_request_has_a_maximum_of_lines(client_of, monkeypatch):
    monkeypatch.setattr(admission, "MAX_LINES", 3)
    client = client_of()
    assert client.post("/v1/translate", json={**BODY, "text": "we\nread\n\ntwo"}).status_code == 200
    assert client.post("/v1/translate", json={**BODY, "text": ["we\nread", "we\r\nread\n"]}).status_code == 413


def test_a_ligature_of_eighteen_letters_counts_as_eighteen(client_of):
    client = client_of(text_characters=20)
    assert client.post("/v1/translate", json={**BODY, "text": "\ufdfa"}).status_code == 200
    assert client.post("/v1/translate", json={**BODY, "text": "\ufdfa" * 2}).status_code == 413


@pytest.mark.parametrize("long", ["text", "translation"])
def test_long_texts_are_not_scored(client_of, monkeypatch, long):
    monkeypatch.setattr(service, "_MAX_SCORED_TOKENS", 30)
    monkeypatch.setattr(service, "_MAX_ATTENTION_TOKENS", 30)
    client, given = client_of(), {**BODY, "translation": "wir lesen"}
    for path in ("/v1/score", "/v1/attention"):
        assert client.post(path, json=given).status_code == 200
        answer = client.post(path, json={**given, long: "we read two books " * 20})
        assert (answer.status_code, "tokens" in answer.json()["error"]) == (413, True)


def test_pairs_are_scored_in_chunks(client_of, monkeypatch):
    client = client_of()
    given = {**BODY, "text": ["we", "we read", "we read two books"], "translation": ["wir", "wir lesen", "x"]}
    whole = client.post("/v1/score", json=given).json()
    monkeypatch.setattr(service, "_CHUNK_CHARACTERS", 5)
    assert client.post("/v1/score", json=given).json()["log_probabilities"] == pytest.approx(
        whole["log_probabilities"], abs=1e-3
    )


def test_long_sentences_of_a_document_have_no_alignment(client_of, monkeypatch):
    client, given = client_of(), {**LIBRETRANSLATE, "q": "<p>we <b>read</b> two books</p>", "format": "html"}
    assert "<b>" in client.post("/translate", json=given).json()["translatedText"]
    monkeypatch.setattr(service, "_MAX_SCORED_TOKENS", 1)
    assert "<b>" in client.post("/translate", json=given).json()["translatedText"]


def test_the_bodies_of_all_requests_share_a_limit(client_of):
    assert client_of(held_bytes=1_000).post("/v1/translate", json=BODY).status_code == 200
    refused = client_of(held_bytes=50).post("/v1/translate", json=BODY)
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    limited = Admission(Settings(Limits(held_bytes=10)), Metrics())
    with limited.hold() as one, limited.hold() as other:
        one(4), other(6)
        with pytest.raises(ServingError):
            one(1)
    with limited.hold() as again:
        again(10)


KEYS = {hash_key("right"): None}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/translate", {}),
        ("/v1/score", {"authorization": "Bearer wrong"}),
        ("/v2/document", {}),
        ("/v2/document", {"authorization": "DeepL-Auth-Key wrong", "content-type": "multipart/form-data; boundary=x"}),
        ("/v2/translate", {"authorization": "DeepL-Auth-Key wrong"}),
    ],
)
def test_the_key_is_checked_before_the_body(client_of, path, headers):
    client = client_of(keys=KEYS)
    for content in (b"not JSON", b"x" * 30_000_000):
        answer = client.post(path, content=content, headers=headers)
        assert (answer.status_code, "key" in str(answer.json())) == (403, True)


def test_monitoring_needs_no_key(client_of):
    client = client_of(keys=KEYS)
    assert {client.get(path).status_code for path in ("/health", "/metrics", "/v1/models", "/languages")} == {200}


def test_the_first_wrong_item_ends_the_validation(client_of):
    for given in ({"text": [1] * 1_000}, {str(number): 1 for number in range(1_000)}):
        with pytest.raises(ValidationError) as error:
            TranslateBody.model_validate(given)
        assert error.value.error_count() == 1
    client = client_of()
    answer = client.post("/v1/translate", json={**BODY, "text": ["we", 1]})
    assert (answer.status_code, answer.json()["error"]) == (400, "`text` should contain only strings")
    answer = client.post("/v1/translate", json={**BODY, "txet": "we"})
    assert (answer.status_code, answer.json()["error"]) == (400, "there is no parameter `txet`")
    assert client.post("/translate", json={**LIBRETRANSLATE, "q": [1] * 300_000}).status_code == 400


@pytest.mark.parametrize("path", ["/translate", "/translate_file", "/v2/translate", "/v2/document"])
def test_a_form_has_a_maximum_of_fields(client_of, path):
    client = client_of()
    assert client.post(path, content=b"&" * 900_000, headers=FORM).status_code == 400
    assert client.post(path, content=b"&" * 19_000_000, headers=FORM).status_code == 413


def test_forms_are_read_as_utf_8(client_of):
    client = client_of()
    raw = client.post("/translate", content="q=zwölf&source=de&target=de".encode(), headers=FORM)
    quoted = client.post("/translate", data={"q": "zwölf", "source": "de", "target": "de"})
    assert raw.json()["translatedText"] == quoted.json()["translatedText"] == "zwölf"


@pytest.mark.parametrize("charset", ["undefined", "punycode", "utf-7", "no-such-one", '"idna"'])
def test_a_form_has_a_usual_charset(client_of, charset):
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nwe\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x; charset={}"
    params = {"source": "en", "target": "de"}
    client = client_of()
    refused = client.post("/translate", params=params, content=body, headers={"content-type": kind.format(charset)})
    assert (refused.status_code, "charset" in refused.json()["error"]) == (400, True)
    accepted = client.post("/translate", params=params, content=body, headers={"content-type": kind.format("UTF-8")})
    assert accepted.status_code == 200


def test_an_upload_to_a_full_disk_is_reported(client_of, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    client = client_of()
    monkeypatch.setattr(formparsers, "SpooledTemporaryFile", fail)
    assert client.post("/translate_file", files={"file": ("a.txt", b"we")}, data=LIBRETRANSLATE).status_code == 503


@pytest.mark.parametrize(
    "scores",
    [
        '{"test": [1]}',
        '{"test": {"bleu": "good"}}',
        '{"dev": {"bleu": 1e999}}',
        "[" * 100_000,
        "[]",
        '{"test": 1}',
        "x",
    ],
)
def test_wrong_scores_are_left_out(client_of, scores):
    client = client_of()
    Path(RUN, "scores.json").write_text(scores)
    answer = client.get("/v1/models")
    assert (answer.status_code, answer.json()["data"][0]["scores"]) == (200, {})


@pytest.mark.parametrize("path", ["/v1/attention", "/translate"])
def test_a_model_that_is_damaged_while_it_serves_is_not_an_internal_error(client_of, path):
    client = client_of()
    assert client.post("/v1/translate", json=BODY).status_code == 200
    for file in Path(RUN).glob("*.safetensors"):
        content = file.read_bytes()
        file.unlink()  # the server may still have the file itself in memory
        file.write_bytes(content[:100])
    given = {**LIBRETRANSLATE, "q": "we <b>read</b>", "format": "html"}  # alignments need the weights
    if path == "/v1/attention":
        given = {**BODY, "translation": "wir lesen"}
    answer = client.post(path, json=given)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
    assert client.post("/v1/translate", json=BODY).status_code == 200


def test_a_new_key_is_a_line_of_its_own(tmp_path):
    file = tmp_path / "keys.txt"
    for before in (b"", KEY_LINE, KEY_LINE + b"\n", KEY_LINE + b"\r\n", b"# my keys"):
        file.write_bytes(before)
        keys = [new_key(file, "one"), new_key(file, "two")]
        assert set(map(hash_key, keys)) <= set(read_keys(file))
        assert len(read_keys(file)) == 2 + (KEY_LINE in before)
        assert file.read_bytes().startswith(before)


def test_names_that_were_bound_to_the_address_are_refused(client_of):
    client = client_of(hosts=("localhost", "translate.example.org"))
    for name in ("localhost", "localhost:5000", "LOCALHOST", "127.0.0.1:80", "[::1]:5000", "10.0.0.7"):
        assert client.post("/v1/translate", json=BODY, headers={"host": name}).status_code == 200
    for name in ("evil.example.org", "localhost.evil.org:5000", "127.0.0.1.evil.org", "", "[::1", "a@localhost"):
        answer = client.post("/v1/translate", json=BODY, headers={"host": name})
        assert (answer.status_code, "--allow-host" in answer.json()["error"]) == (421, True)
    assert client_of().post("/v1/translate", json=BODY, headers={"host": "any.org"}).status_code == 200


def test_a_quota_counts_texts_and_translations(client_of):
    client = client_of(keys={hash_key("right"): 30})
    headers = {"authorization": "Bearer right"}
    given = {**BODY, "text": "we read", "translation": "wir lesen"}  # 16 characters
    for path in ("/v1/score", "/v1/attention"):
        assert client.post(path, json={**given, "translation": "wir lesen" * 4}, headers=headers).status_code == 456
    assert client.post("/v1/score", json=given, headers=headers).status_code == 200
    assert client.post("/v1/attention", json=given, headers=headers).status_code == 456


def test_attention_does_not_delay_scores(client_of, monkeypatch):
    waiting, attention = threading.Event(), Translator.attention
    monkeypatch.setattr(Translator, "attention", lambda *args, **kw: waiting.wait(60) and attention(*args, **kw))
    client, given = client_of(), {**BODY, "translation": "wir lesen"}
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(client.post, "/v1/attention", json=given)
        assert client.post("/v1/score", json=given).status_code == 200
        waiting.set()
        assert answer.result().status_code == 200
