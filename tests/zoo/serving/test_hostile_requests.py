"""Requests that once blocked the server or filled its memory are refused, before their work begins."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.zoo.serving.test_limits import BODY
from zoo.serving import admission, service
from zoo.serving.admission import LINE_BREAKS, Admission
from zoo.serving.errors import ServingError
from zoo.serving.metrics import Metrics
from zoo.serving.native import TranslateBody
from zoo.serving.settings import Limits, Settings, hash_key

LIBRETRANSLATE = {"q": "we read two books", "source": "en", "target": "de"}
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
