"""LibreTranslate's API: all three forms of a request, and answers in the form that its clients expect."""

from __future__ import annotations

import pytest

from zoo.serving.settings import hash_key

TEXT = "the old dog sees a small house"
GERMAN = "der alte Hund sieht heute ein kleines Haus"


@pytest.fixture
def expected(translator):
    return translator.translate(TEXT)


def test_a_request_is_json_a_form_or_a_query(client, expected):
    given = {"q": TEXT, "source": "en", "target": "de"}
    multipart = {name: (None, value) for name, value in given.items()}
    for options in ({"json": given}, {"data": given}, {"params": given}, {"files": multipart}):
        answer = client.post("/translate", **options)
        assert (answer.status_code, answer.json()) == (200, {"translatedText": expected})
    mixed = {"q": TEXT, "target": "de", "format": "text"}
    for key in ({}, {"apiKey": ""}, {"api_key": "x"}, {"key": "x"}):  # as the clients in npm name and send it
        answer = client.post("/translate", params={"source": "en"}, json={**mixed, **key})
        assert answer.json() == {"translatedText": expected}


def test_a_list_gives_a_list(client, expected):
    assert client.post("/translate", json={"q": [TEXT], "source": "en", "target": "de"}).json() == {
        "translatedText": [expected]
    }
    repeated = client.post("/translate", data={"q": [TEXT, TEXT], "source": "en", "target": "de"})
    assert repeated.json() == {"translatedText": [expected, expected]}


def test_the_detected_language_is_part_of_the_answer_only_for_auto(client, expected):
    one = client.post("/translate", json={"q": TEXT, "source": "auto", "target": "de"}).json()
    assert one["translatedText"] == expected
    assert one["detectedLanguage"]["language"] == "en"
    assert 50 < one["detectedLanguage"]["confidence"] <= 100
    several = client.post("/translate", json={"q": [TEXT, GERMAN], "source": "AUTO", "target": "DE"}).json()
    assert several["translatedText"] == [expected, GERMAN]
    assert [each["language"] for each in several["detectedLanguage"]] == ["en", "de"]


def test_alternatives_only_if_asked_for(client):
    given = {"q": TEXT, "source": "en", "target": "de"}
    one = client.post("/translate", json={**given, "alternatives": 3}).json()
    assert len(one["alternatives"]) <= 3
    assert one["translatedText"] not in one["alternatives"]
    several = client.post("/translate", json={**given, "q": [TEXT, TEXT], "alternatives": "3"}).json()
    assert several["alternatives"] == [one["alternatives"]] * 2
    assert "alternatives" not in client.post("/translate", json={**given, "alternatives": 0}).json()
    assert client.post("/translate", json={**given, "alternatives": 99}).status_code == 400


def test_languages_are_listed_also_if_the_request_has_a_body(client):
    listed = [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.get("/languages").json() == listed
    body = {"content": b"api_key=x", "headers": {"content-type": "application/x-www-form-urlencoded"}}
    assert client.request("GET", "/languages", **body).json() == listed
    settings = client.get("/frontend/settings").json()
    assert (settings["keyRequired"], settings["language"]["target"]["code"]) == (False, "de")


def test_a_language_is_detected(client):
    best, *_ = client.post("/detect", data={"q": TEXT}).json()
    assert best["language"] == "en"
    assert 0 <= best["confidence"] <= 100
    assert client.post("/detect", json={}).status_code == 400


def test_a_wrong_key_gets_403(client_of, expected):
    client = client_of(keys={hash_key("secret"): None})
    given = {"q": TEXT, "source": "en", "target": "de"}
    for key in ({}, {"api_key": "wrong"}, {"api_key": ""}):
        answer = client.post("/translate", params={**given, **key})
        assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert client.post("/detect", json={"q": TEXT}).status_code == 403
    for name in ("api_key", "apiKey"):
        assert client.post("/translate", json={**given, name: "secret"}).json() == {"translatedText": expected}
    assert client.get("/languages").status_code == 200


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "`q`"), ({"q": TEXT}, "`target`"), ({"q": 3, "target": "de"}, "`q`"), ({"q": [TEXT, 3]}, "`q`"),
        ({"q": TEXT, "target": ["de"]}, "`target`"), ({"q": TEXT, "source": "en", "target": "fr"}, "fr"),
        ({"q": TEXT, "source": "en", "target": "xx"}, "xx"), ({"q": TEXT, "target": "de", "format": "xml"}, "html"),
        ({"q": TEXT, "target": "de", "format": "x"}, "`format`"), ({"q": {}, "target": "de"}, "`q`"),
        ({"q": TEXT, "target": "de", "alternatives": "many"}, "`alternatives`"), ({"q": TEXT, "target": "fr"}, "fr"),
        ({"q": TEXT, "target": "de", "alternatives": 1.5}, "`alternatives`"), ({"q": [], "target": "de"}, "no text"),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong(client, given, word):
    answer = client.post("/translate", json=given)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert word in answer.json()["error"]


def test_other_bodies_are_refused(client):
    for content, kind in ((b"{", "application/json"), (b"[1]", "application/json"), (b"x", "text/xml")):
        assert client.post("/translate", content=content, headers={"content-type": kind}).status_code == 400
    nan = b'{"q": "a", "source": "en", "target": "de", "alternatives": NaN}'
    assert client.post("/translate", content=nan, headers={"content-type": "application/json"}).status_code == 400
    file = {"q": ("name.txt", b"we read")}
    assert client.post("/translate", files=file, params={"target": "de"}).status_code == 400
    assert client.get("/translate").status_code == 405


def test_a_language_without_a_model_is_named(client):
    french = "Le vieux chien voit une petite maison."
    answer = client.post("/translate", json={"q": french, "source": "auto", "target": "de"})
    assert (answer.status_code, "French" in answer.json()["error"]) == (400, True)
    assert client.post("/detect", json={"q": french}).json()[0]["language"] == "fr"
    assert client.post("/translate", json={"q": french, "source": "en", "target": "de"}).status_code == 200


def test_an_address_that_ends_with_a_slash_is_understood(client, expected):
    given = {"q": TEXT, "source": "en", "target": "de"}
    assert client.post(f"{client.base_url}//translate", json=given).json() == {"translatedText": expected}
    assert client.get(f"{client.base_url}///languages").status_code == 200
