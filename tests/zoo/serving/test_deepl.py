"""DeepL's API."""

from __future__ import annotations

import re
import time

import pytest

from zoo.serving import documents
from zoo.serving.settings import hash_key

TEXTS = ["the old dog sees a small house", "we read two books today"]
KEY = {"Authorization": "DeepL-Auth-Key secret"}


@pytest.fixture
def client(client_of):
    return client_of(keys={hash_key("secret"): 200})


@pytest.fixture
def expected(translator):
    return translator.translate(TEXTS)


def test_texts_in_a_form_or_in_json(client, expected):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE"}
    for options in ({"json": given}, {"data": given}):
        answer = client.post("/v2/translate", headers=KEY, **options)
        assert answer.json() == {
            "translations": [{"detected_source_language": "EN", "text": text} for text in expected]
        }


def test_the_source_language_is_optional_and_characters_are_billed(client, expected):
    given = {"text": TEXTS[:1], "target_lang": "de", "show_billed_characters": True}
    for source in ({}, {"source_lang": "auto"}):
        (answer,) = client.post("/v2/translate", headers=KEY, json={**given, **source}).json()["translations"]
        assert answer == {"detected_source_language": "EN", "text": expected[0], "billed_characters": len(TEXTS[0])}


def test_the_quota_of_a_key_ends(client):
    given = {"text": "x" * 150, "source_lang": "EN", "target_lang": "DE"}
    assert client.post("/v2/translate", headers=KEY, json=given).status_code == 200
    refused = client.post("/v2/translate", headers=KEY, json=given)
    assert (refused.status_code, list(refused.json())) == (456, ["message"])
    assert client.get("/v2/usage", headers=KEY).json() == {"character_count": 150, "character_limit": 200}


def test_languages(client):
    assert client.get("/v2/languages", headers=KEY).json() == [{"language": "EN", "name": "English"}]
    (target,) = client.get("/v2/languages", headers=KEY, params={"type": "target"}).json()
    assert target == {"language": "DE", "name": "German", "supports_formality": False}
    assert client.get("/v2/languages", headers=KEY, params={"type": "x"}).status_code == 400


def test_the_list_of_glossaries_is_empty(client_of):
    assert client_of().get("/v2/glossaries").json() == {"glossaries": []}
    assert client_of(keys={"0" * 64: None}).get("/v2/glossaries").status_code == 403


def test_errors_have_a_message(client):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE"}
    for headers in ({}, {"Authorization": "DeepL-Auth-Key wrong"}, {"Authorization": "Bearer secret"}):
        answer = client.post("/v2/translate", headers=headers, json=given)
        assert (answer.status_code, list(answer.json())) == (403, ["message"])
    for wrong in ({"tag_handling": "x"}, {"target_lang": "FR"}, {"target_lang": ""}, {"text": 3}):
        answer = client.post("/v2/translate", headers=KEY, json={**given, **wrong})
        assert (answer.status_code, list(answer.json())) == (400, ["message"])
    assert client.get("/v2/usage").status_code == 403


def test_a_target_language_that_needs_a_region_is_listed_with_its_regions(client_of, trained):
    pairs = [{"source": "pairs.de", "target": "pairs.en"}]
    trained(corpus={"source": "de", "target": "en", "train": pairs, "dev": pairs, "test": pairs})
    client = client_of()
    targets = client.get("/v2/languages", params={"type": "target"}).json()
    assert [target["language"] for target in targets] == ["EN-GB", "EN-US"]
    for code in ("en", *(target["language"] for target in targets)):
        given = {"text": ["das Haus", TEXTS[0]], "source_lang": "DE", "target_lang": code}
        assert client.post("/v2/translate", json=given).status_code == 200
        english = {"text": TEXTS[0], "source_lang": "EN", "target_lang": code}
        assert client.post("/v2/translate", json=english).json()["translations"][0]["text"] == TEXTS[0]


@pytest.mark.parametrize("name", ["source_lang", "target_lang"])
def test_an_error_names_the_language_that_is_not_supported(client, name):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE", name: "XX"}
    answer = client.post("/v2/translate", headers=KEY, json=given)
    assert (answer.status_code, answer.json()["message"].partition(";")[0]) == (400, f"`{name}` `XX` is not supported")


@pytest.mark.parametrize(
    "options",
    [
        *({"formality": value} for value in ("more", "less", "invalid")),
        *({name: "x"} for name in ("split_sentences", "model_type", "tag_handling_version", "translation_memory_id")),
    ],
)
def test_options_that_no_model_has_are_refused(client, options):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE", **options}
    answer = client.post("/v2/translate", headers=KEY, json=given)
    assert (answer.status_code, f"`{next(iter(options))}`" in answer.json()["message"]) == (400, True)


@pytest.mark.parametrize("form", ["json", "data"])
def test_options_without_an_effect_are_accepted(client, expected, form):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE", "formality": "prefer_more", "context": "a dog"}
    answer = client.post("/v2/translate", headers=KEY, **{form: {**given, "split_sentences": 0}})
    assert [translation["text"] for translation in answer.json()["translations"]] == expected


@pytest.mark.parametrize("model_type", ["quality_optimized", "latency_optimized", "prefer_quality_optimized"])
def test_the_answer_has_the_type_of_the_model_if_the_request_has_one(client, model_type):
    given = {"text": TEXTS, "source_lang": "EN", "target_lang": "DE", "model_type": model_type}
    translations = client.post("/v2/translate", headers=KEY, json=given).json()["translations"]
    used = model_type.removeprefix("prefer_")
    assert [translation["model_type_used"] for translation in translations] == [used, used]


@pytest.mark.parametrize("form", ["json", "data"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("xml", "<a><t>{}</t>\n<raw>we <b>read</b></raw><c><p>{}</p></c></a>"),
        ("html", "<p>{}</p><p><raw>we <b>read</b></raw></p><hr/><p>{}</p>"),
    ],
)
def test_structure_and_ignored_elements_are_kept(client, expected, form, kind, text):
    given = {"source_lang": "EN", "target_lang": "DE", "tag_handling": kind, "ignore_tags": "x,raw"}
    answer = client.post("/v2/translate", headers=KEY, **{form: {**given, "text": text.format(*TEXTS)}})
    assert [found["text"] for found in answer.json()["translations"]] == [text.format(*expected)]


def test_the_client_chooses_the_elements_that_split_xml(client, expected):
    given = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "outline_detection": False}
    first, second = TEXTS[0].split(" sees ")
    given |= {"text": [f"<p>{first} sees</p><p>{second}</p>", f"<p>{TEXTS[0]}</p>"], "splitting_tags": ["p", "q"]}
    split, whole = client.post("/v2/translate", headers=KEY, json=given).json()["translations"]
    assert whole["text"] == f"<p>{expected[0]}</p>"
    assert re.fullmatch("<p>.+</p><p>.+</p>", split["text"])


def upload(client, content=f"{TEXTS[0]}\n{TEXTS[1]}", name="a.txt", headers=KEY, **fields):
    given = {"source_lang": "EN", "target_lang": "DE", **fields}
    return client.post("/v2/document", headers=headers, files={"file": (name, content)}, data=given)


def status_of(client, handle) -> dict[str, object]:
    """Return the status of a document when its translation has ended."""
    path, given = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    while (answer := client.post(path, headers=KEY, json=given).json())["status"] == "queued":
        time.sleep(0.01)
    return answer


def download(client, handle, headers=KEY):
    given = {"document_key": handle["document_key"]}
    return client.post(f"/v2/document/{handle['document_id']}/result", headers=headers, json=given)


def test_a_document_is_translated_after_its_upload(client, expected, blocked):
    handle = upload(client).json()
    path, given = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    queued = {"document_id": handle["document_id"], "status": "queued"}
    assert client.post(path, headers=KEY, json=given).json() == queued
    assert download(client, handle).status_code == 503
    blocked.set()
    characters = len("\n".join(TEXTS))
    done = {"status": "done", "seconds_remaining": 0, "billed_characters": characters}
    assert status_of(client, handle) == {**queued, **done}
    assert download(client, handle).text == "\n".join(expected)
    assert client.get("/v2/usage", headers=KEY).json()["character_count"] == characters


def test_a_document_is_private(client_of):
    client = client_of(keys={hash_key("secret"): None, hash_key("other"): None})
    handle = upload(client).json()
    status_of(client, handle)
    assert re.fullmatch("[0-9A-F]{32}", handle["document_id"])
    assert re.fullmatch("[0-9A-F]{64}", handle["document_key"])
    assert download(client, handle, {"Authorization": "DeepL-Auth-Key other"}).status_code == 404
    assert download(client, {**handle, "document_key": "CD34" * 16}).status_code == 404
    assert download(client, handle, {}).status_code == 403
    assert upload(client, headers={}).status_code == 403


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        *[(400, {"name": "a.invalid"}), (400, {"filename": "a.pdf"}), (400, {"output_format": "docx"})],
        *[(400, {"target_lang": "FR"}), (400, {"glossary_id": "a"}), (400, {"content": b"\xff"})],
        *[(413, {"content": "a " * 500}), (456, {"content": "a " * 150})],
    ],
)
def test_a_document_that_cannot_be_translated_is_refused(client_of, status, fields):
    client = client_of(keys={hash_key("secret"): 200}, document_bytes=900)
    answer = upload(client, **fields)
    assert (answer.status_code, list(answer.json())) == (status, ["message"])
    assert client.post("/v2/document", headers=KEY, data={"target_lang": "DE"}).status_code == 400


def test_a_document_may_be_larger_than_other_bodies_and_has_its_name_as_a_field(client_of):
    client = client_of(keys={hash_key("secret"): None}, body_bytes=300)
    handle = upload(client, "a\n" * 300, "blob", filename="a.TXT", output_format="txt").json()
    assert status_of(client, handle)["status"] == "done"
    assert download(client, handle).text.count("\n") == 300


def test_the_status_of_a_document_has_the_error(client, blocked, monkeypatch):
    monkeypatch.setattr(documents, "DOCUMENT_SECONDS", 0.2)
    assert "0.2 seconds" in status_of(client, late := upload(client).json())["error_message"]
    blocked.set()
    answer = status_of(client, upload(client, source_lang="DE").json())
    assert (answer["status"], answer["error_message"]) == ("error", "Source and target language are the same")
    assert download(client, late).status_code == 503
