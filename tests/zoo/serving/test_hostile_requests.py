"""Requests that once blocked the server or filled its memory are refused, before their work begins."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic import ValidationError
from starlette import formparsers

from tests.zoo.serving.conftest import PAIR, RUN, check_refused
from tests.zoo.serving.test_limits import BODY
from zoo.generation.translator import Translator
from zoo.serving import Limits, admission, service
from zoo.serving.admission import LINE_BREAKS, Admission, Metrics, Settings, hash_key, new_key, read_keys
from zoo.serving.answer import ServingError
from zoo.serving.native import TranslateBody

LIBRETRANSLATE = {"q": "we read two books", **PAIR}
KEY_LINE = hash_key("first").encode()
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("unit", [" ", "\n", " \n", "a \n", "\u2029 "])
def test_white_space_is_split_in_linear_time(unit):
    text = unit * (1_000_000 // len(unit))
    assert "".join(LINE_BREAKS.split(text)) == text


def test_a_request_has_a_maximum_of_lines(client, monkeypatch):
    monkeypatch.setattr(admission, "MAX_LINES", 3)
    assert client.post("/v1/translate", json={**BODY, "text": "we\nread\n\ntwo"}).status_code == 200
    assert client.post("/v1/translate", json={**BODY, "text": ["we\nread", "we\r\nread\n"]}).status_code == 413


@pytest.mark.parametrize("long", ["text", "translation"])
def test_long_texts_are_not_scored(client, monkeypatch, long):
    monkeypatch.setattr(service, "_MAX_SCORED_TOKENS", 30)
    monkeypatch.setattr(service, "_MAX_ATTENTION_TOKENS", 30)
    given = {**BODY, "translation": "wir lesen"}
    for path in ("/v1/score", "/v1/attention"):
        assert client.post(path, json=given).status_code == 200
        check_refused(client.post(path, json={**given, long: "we read two books " * 20}), 413, "tokens")


def test_pairs_are_scored_in_chunks(client, monkeypatch):
    given = {**BODY, "text": ["we", "we read", "we read two books"], "translation": ["wir", "wir lesen", "x"]}
    whole = client.post("/v1/score", json=given).json()["log_probabilities"]
    monkeypatch.setattr(service, "_CHUNK_CHARACTERS", 5)
    assert client.post("/v1/score", json=given).json()["log_probabilities"] == pytest.approx(whole, abs=1e-3)


def test_long_sentences_of_a_document_have_no_alignment(client, monkeypatch):
    given = {**LIBRETRANSLATE, "q": "<p>we <b>read</b> two books</p>", "format": "html"}
    assert "<b>" in client.post("/translate", json=given).json()["translatedText"]
    monkeypatch.setattr(service, "_MAX_SCORED_TOKENS", 1)
    assert "<b>" in client.post("/translate", json=given).json()["translatedText"]


def test_the_bodies_of_all_requests_share_a_limit(client_of):
    assert client_of(held_bytes=1_000).post("/v1/translate", json=BODY).status_code == 200
    refused = client_of(held_bytes=50).post("/v1/translate", json=BODY)
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    memory = Admission(Settings(Limits(held_bytes=10)), Metrics()).memory
    with memory.hold(4) as add, memory.hold(6), pytest.raises(ServingError):
        add(1)
    assert memory.held == 0


def test_the_key_is_checked_before_the_body_and_monitoring_needs_none(client_of):
    client, wrong = client_of(keys={hash_key("right"): None}), {"authorization": "DeepL-Auth-Key wrong"}
    form = {**wrong, "content-type": "multipart/form-data; boundary=x"}
    for path, headers in (
        ("/v1/translate", {}),
        ("/v1/score", {"authorization": "Bearer wrong"}),
        ("/v2/translate", wrong),
        ("/v2/document", {}),
        ("/v2/document", form),
    ):
        for content in (b"not JSON", b"x" * 30_000_000):
            answer = client.post(path, content=content, headers=headers)
            assert (answer.status_code, "key" in str(answer.json())) == (403, True), path
    assert {client.get(path).status_code for path in ("/health", "/metrics", "/v1/models", "/languages")} == {200}


def test_the_first_wrong_item_ends_the_validation(client):
    for given in ({"text": [1] * 1_000}, {str(number): 1 for number in range(1_000)}):
        with pytest.raises(ValidationError) as error:
            TranslateBody.model_validate(given)
        assert error.value.error_count() == 1
    wrong = (("text", ["we", 1], "`text` should contain only strings"), ("txet", "we", "there is no parameter `txet`"))
    for name, value, problem in wrong:
        answer = client.post("/v1/translate", json={**BODY, name: value})
        assert (answer.status_code, answer.json()["error"]) == (400, problem)
    assert client.post("/translate", json={**LIBRETRANSLATE, "q": [1] * 300_000}).status_code == 400


@pytest.mark.parametrize("path", ["/translate", "/translate_file", "/v2/translate", "/v2/document"])
def test_a_form_has_a_maximum_of_fields(client, path):
    assert client.post(path, content=b"&" * 900_000, headers=FORM).status_code == 400
    assert client.post(path, content=b"&" * 19_000_000, headers=FORM).status_code == 413


def test_forms_are_read_as_utf_8(client):
    raw = client.post("/translate", content="q=zwölf&source=de&target=de".encode(), headers=FORM)
    quoted = client.post("/translate", data={"q": "zwölf", "source": "de", "target": "de"})
    assert raw.json()["translatedText"] == quoted.json()["translatedText"] == "zwölf"


def test_a_form_has_a_usual_charset(client):
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nwe\r\n--x--\r\n'

    def post(charset: str):
        headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
        return client.post("/translate?source=en&target=de", content=body, headers=headers)

    for charset in ("undefined", "punycode", "utf-7", "no-such-one", '"idna"'):
        check_refused(post(charset), 400, "charset")
    assert post("UTF-8").status_code == 200


def test_an_upload_to_a_full_disk_is_reported(client, monkeypatch):
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(formparsers, "SpooledTemporaryFile", full)
    assert client.post("/translate_file", files={"file": ("a.txt", b"we")}, data=LIBRETRANSLATE).status_code == 503


WRONG_NUMBERS = ['{"test": {"bleu": "good"}}', '{"dev": {"bleu": 1e999}}']


@pytest.mark.parametrize("scores", ["x", "[]", '{"test": 1}', '{"test": [1]}', *WRONG_NUMBERS, "[" * 100_000])
def test_wrong_scores_are_left_out(client_of, trained, scores):
    trained()
    Path(RUN, "scores.json").write_text(scores)
    answer = client_of().get("/v1/models")
    assert (answer.status_code, answer.json()["data"][0]["scores"]) == (200, {})


@pytest.mark.parametrize("path", ["/v1/attention", "/translate"])
def test_a_model_that_is_damaged_while_it_serves_is_not_an_internal_error(client, path):
    assert client.post("/v1/translate", json=BODY).status_code == 200
    for file in Path(RUN).glob("*.safetensors"):
        content = file.read_bytes()
        file.unlink()  # the server may still have the file itself in memory
        file.write_bytes(content[:100])
    markup = {**LIBRETRANSLATE, "q": "we <b>read</b>", "format": "html"}  # alignments need the weights
    answer = client.post(path, json=markup if path == "/translate" else {**BODY, "translation": "wir lesen"})
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
        check_refused(client.post("/v1/translate", json=BODY, headers={"host": name}), 421, "--allow-host")
    assert client_of().post("/v1/translate", json=BODY, headers={"host": "any.org"}).status_code == 200


def test_a_quota_counts_texts_and_translations(client_of):
    client = client_of(keys={hash_key("right"): 30})
    headers = {"authorization": "Bearer right"}
    given = {**BODY, "text": "we read", "translation": "wir lesen"}  # 16 characters
    for path in ("/v1/score", "/v1/attention"):
        assert client.post(path, json={**given, "translation": "wir lesen" * 4}, headers=headers).status_code == 456
    assert client.post("/v1/score", json=given, headers=headers).status_code == 200
    assert client.post("/v1/attention", json=given, headers=headers).status_code == 456


def test_attention_does_not_delay_scores(client, monkeypatch):
    waiting, attention = threading.Event(), Translator.attention
    monkeypatch.setattr(Translator, "attention", lambda *args, **kw: waiting.wait(60) and attention(*args, **kw))
    given = {**BODY, "translation": "wir lesen"}
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(client.post, "/v1/attention", json=given)
        assert client.post("/v1/score", json=given).status_code == 200
        waiting.set()
        assert answer.result().status_code == 200
