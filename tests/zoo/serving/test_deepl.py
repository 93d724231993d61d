"""DeepL's API."""

from __future__ import annotations

import re
import time

import pytest

from tests.zoo.serving.conftest import TEXTS, check_refused
from zoo.serving import documents
from zoo.serving.admission import hash_key

CONTENT = "\n".join(TEXTS)
KEY = {"Authorization": "DeepL-Auth-Key secret"}
LANGUAGES = {"source_lang": "EN", "target_lang": "DE"}


@pytest.fixture
def client(client_of):
    return client_of(keys={hash_key("secret"): 200})


def post(client, headers=KEY, form="json", **fields):
    """Send TEXTS, or the fields that are given instead."""
    return client.post("/v2/translate", headers=headers, **{form: {"text": TEXTS, **LANGUAGES, **fields}})


@pytest.mark.parametrize("form", ["json", "data"])
@pytest.mark.parametrize("ignored", [{}, {"formality": "prefer_more", "context": "a dog", "split_sentences": 0}])
def test_texts_in_a_form_or_in_json_and_options_without_an_effect(client, expected, form, ignored):
    found = [{"detected_source_language": "EN", "text": text} for text in expected]
    assert post(client, form=form, **ignored).json() == {"translations": found}


def test_the_source_language_is_optional_and_characters_are_billed(client, expected):
    given = {"text": TEXTS[:1], "target_lang": "de", "show_billed_characters": True}
    for source in ({}, {"source_lang": "auto"}):
        (answer,) = client.post("/v2/translate", headers=KEY, json={**given, **source}).json()["translations"]
        assert answer == {"detected_source_language": "EN", "text": expected[0], "billed_characters": len(TEXTS[0])}


def test_languages_are_listed_and_glossaries_are_not(client, client_of):
    (target,) = client.get("/v2/languages", headers=KEY, params={"type": "target"}).json()
    assert target == {"language": "DE", "name": "German", "supports_formality": False}
    assert client.get("/v2/languages", headers=KEY, params={"type": "x"}).status_code == 400
    assert client_of().get("/v2/glossaries").json() == {"glossaries": []}
    assert client.get("/v2/glossaries").status_code == 403


def test_errors_have_a_message(client):
    for headers in ({}, {"Authorization": "DeepL-Auth-Key wrong"}, {"Authorization": "Bearer secret"}):
        check_refused(post(client, headers), 403, key="message")


def test_a_target_language_that_needs_a_region_is_listed_with_its_regions(client_of, trained):
    pairs = [{"source": "pairs.de", "target": "pairs.en"}]
    trained(corpus={"source": "de", "target": "en", "train": pairs, "dev": pairs, "test": pairs})
    client = client_of()
    targets = client.get("/v2/languages", params={"type": "target"}).json()
    assert [target["language"] for target in targets] == ["EN-GB", "EN-US"]
    for code in ("en", *(target["language"] for target in targets)):
        assert post(client, text=["das Haus", TEXTS[0]], source_lang="DE", target_lang=code).status_code == 200
        english = post(client, text=TEXTS[0], target_lang=code).json()
        assert english["translations"][0]["text"] == TEXTS[0]


def test_an_error_names_the_option_or_the_language_that_is_not_supported(client):
    names = ("formality", "tag_handling", "split_sentences", "model_type", "translation_memory_id", "glossary_ids")
    others = [("formality", "more"), ("formality", "less"), ("target_lang", ""), ("text", 3)]
    for name, value in [(each, "x") for each in names] + others:
        check_refused(post(client, **{name: value}), 400, f"`{name}`", key="message")
    for name in ("source_lang", "target_lang"):
        check_refused(post(client, **{name: "XX"}), 400, f"`{name}` `XX` is not supported;", key="message")


@pytest.mark.parametrize("model_type", ["quality_optimized", "latency_optimized", "prefer_quality_optimized"])
def test_the_answer_has_the_type_of_the_model_if_the_request_has_one(client, model_type):
    translations = post(client, model_type=model_type).json()["translations"]
    assert [each["model_type_used"] for each in translations] == [model_type.removeprefix("prefer_")] * 2


@pytest.mark.parametrize("form", ["json", "data"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("xml", "<a><t>{}</t>\n<raw>we <b>read</b></raw><c><p>{}</p></c></a>"),
        ("html", "<p>{}</p><p><raw>we <b>read</b></raw></p><hr/><p>{}</p>"),
    ],
)
def test_structure_and_ignored_elements_are_kept(client, expected, form, kind, text):
    answer = post(client, form=form, text=text.format(*TEXTS), tag_handling=kind, ignore_tags="x,raw")
    assert [found["text"] for found in answer.json()["translations"]] == [text.format(*expected)]


def test_the_client_chooses_the_elements_that_split_xml(client, expected):
    first, second = TEXTS[0].split(" sees ")
    texts = [f"<p>{first} sees</p><p>{second}</p>", f"<p>{TEXTS[0]}</p>"]
    options = {"tag_handling": "xml", "outline_detection": False, "splitting_tags": ["p", "q"]}
    split, whole = post(client, text=texts, **options).json()["translations"]
    assert whole["text"] == f"<p>{expected[0]}</p>"
    assert re.fullmatch("<p>.+</p><p>.+</p>", split["text"])


def upload(client, content=CONTENT, name="a.txt", headers=KEY, **fields):
    data = {**LANGUAGES, **fields}
    return client.post("/v2/document", headers=headers, files={"file": (name, content)}, data=data)


def ask(client, handle, part="", headers=KEY):
    """Ask for the status of a document, or for its result."""
    given = {"document_key": handle["document_key"]}
    return client.post(f"/v2/document/{handle['document_id']}{part}", headers=headers, json=given)


def status_of(client, handle) -> dict[str, object]:
    """Return the status of a document when its translation has ended."""
    while (answer := ask(client, handle).json())["status"] == "queued":
        time.sleep(0.01)
    return answer


def test_a_document_is_translated_after_its_upload(client, expected, blocked):
    handle = upload(client).json()
    queued = {"document_id": handle["document_id"], "status": "queued"}
    assert ask(client, handle).json() == queued
    assert ask(client, handle, "/result").status_code == 503
    blocked.set()
    done = {"status": "done", "seconds_remaining": 0, "billed_characters": len(CONTENT)}
    assert status_of(client, handle) == {**queued, **done}
    assert ask(client, handle, "/result").text == "\n".join(expected)
    assert client.get("/v2/usage", headers=KEY).json()["character_count"] == len(CONTENT)


def test_a_document_is_private(client_of):
    client = client_of(keys={hash_key("secret"): None, hash_key("other"): None})
    handle = upload(client).json()
    status_of(client, handle)
    assert re.fullmatch("[0-9A-F]{32}", handle["document_id"])
    assert re.fullmatch("[0-9A-F]{64}", handle["document_key"])
    assert ask(client, handle, "/result", {"Authorization": "DeepL-Auth-Key other"}).status_code == 404
    assert ask(client, {**handle, "document_key": "CD34" * 16}, "/result").status_code == 404
    assert ask(client, handle, "/result", {}).status_code == 403


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        *[(400, {"name": "a.invalid"}), (400, {"output_format": "docx"})],
        *[(400, {"target_lang": "FR"}), (400, {"glossary_id": "a"}), (400, {"content": b"\xff"})],
        *[(413, {"content": "a " * 500}), (456, {"content": "a " * 150})],
    ],
)
def test_a_document_that_cannot_be_translated_is_refused(client_of, status, fields):
    client = client_of(keys={hash_key("secret"): 200}, document_bytes=900)
    check_refused(upload(client, **fields), status, key="message")
    unsupported = upload(client, filename="a.pdf", output_format="docx")
    check_refused(unsupported, 400, "`.pdf` is not supported", key="message")
    assert client.post("/v2/document", headers=KEY, data={"target_lang": "DE"}).status_code == 400


def test_a_document_may_be_larger_than_other_bodies_and_has_its_name_as_a_field(client_of):
    client = client_of(keys={hash_key("secret"): None}, body_bytes=300)
    handle = upload(client, "a\n" * 300, "blob", filename="a.TXT", output_format="txt").json()
    assert status_of(client, handle)["status"] == "done"
    assert ask(client, handle, "/result").text.count("\n") == 300


def test_the_status_of_a_document_has_the_error(client, blocked, monkeypatch):
    monkeypatch.setattr(documents, "DOCUMENT_SECONDS", 0.2)
    assert "0.2 seconds" in status_of(client, late := upload(client).json())["error_message"]
    blocked.set()
    answer = status_of(client, upload(client, source_lang="DE").json())
    assert (answer["status"], answer["error_message"]) == ("error", "Source and target language are the same")
    assert ask(client, late, "/result").status_code == 503
