"""LibreTranslate's API: all three forms of a request, and answers in the form that its clients expect."""

from __future__ import annotations

from tests.zoo.serving.conftest import PAIR, TEXT, check_refused
from zoo.serving.admission import hash_key

GIVEN = {"q": TEXT, **PAIR}
GERMAN = "der alte Hund sieht heute ein kleines Haus"
FRENCH = "Le vieux chien voit une petite maison."


def test_a_request_is_json_a_form_or_a_query(client, expected):
    multipart = {name: (None, value) for name, value in GIVEN.items()}
    for options in ({"json": GIVEN}, {"data": GIVEN}, {"params": GIVEN}, {"files": multipart}):
        answer = client.post("/translate", **options)
        assert (answer.status_code, answer.json()) == (200, {"translatedText": expected[0]})
        assert answer.headers["x-content-type-options"] == "nosniff", "browsers never guess that a text is markup"
    mixed = {"q": TEXT, "target": "de", "format": "text"}
    for key in ({}, {"apiKey": ""}, {"api_key": "x"}, {"key": "x"}):  # as the clients in npm name and send it
        answer = client.post("/translate", params={"source": "en"}, json={**mixed, **key})
        assert answer.json() == {"translatedText": expected[0]}


def test_a_list_gives_a_list(client, expected):
    one = client.post("/translate", json={**GIVEN, "q": [TEXT]})
    assert one.json() == {"translatedText": [expected[0]]}
    repeated = client.post("/translate", data={**GIVEN, "q": [TEXT, TEXT]})
    assert repeated.json() == {"translatedText": [expected[0]] * 2}


def test_the_detected_language_is_part_of_the_answer_only_for_auto(client, expected):
    one = client.post("/translate", json={"q": TEXT, "source": "auto", "target": "de"}).json()
    assert one["translatedText"] == expected[0]
    assert one["detectedLanguage"]["language"] == "en"
    assert 50 < one["detectedLanguage"]["confidence"] <= 100
    several = client.post("/translate", json={"q": [TEXT, GERMAN], "source": "AUTO", "target": "DE"}).json()
    assert several["translatedText"] == [expected[0], GERMAN]
    assert [each["language"] for each in several["detectedLanguage"]] == ["en", "de"]


def test_alternatives_only_if_asked_for(client):
    one = client.post("/translate", json={**GIVEN, "alternatives": 3}).json()
    assert len(one["alternatives"]) <= 3
    assert one["translatedText"] not in one["alternatives"]
    several = client.post("/translate", json={**GIVEN, "q": [TEXT, TEXT], "alternatives": "3"}).json()
    assert several["alternatives"] == [one["alternatives"]] * 2
    assert "alternatives" not in client.post("/translate", json={**GIVEN, "alternatives": 0}).json()


def test_languages_are_listed_also_if_the_request_has_a_body(client):
    listed = [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.get("/languages").json() == listed
    body = {"content": b"api_key=x", "headers": {"content-type": "application/x-www-form-urlencoded"}}
    assert client.request("GET", "/languages", **body).json() == listed
    settings = client.get("/frontend/settings").json()
    assert (settings["keyRequired"], settings["language"]["target"]["code"]) == (False, "de")


def test_a_language_is_detected_only_if_it_is_not_given(client):
    best, *_ = client.post("/detect", data={"q": TEXT}).json()
    assert best["language"] == "en"
    assert 0 <= best["confidence"] <= 100
    assert client.post("/detect", json={"q": FRENCH}).json()[0]["language"] == "fr", "no model reads this language"
    assert client.post("/translate", json={**GIVEN, "q": FRENCH}).status_code == 200
    assert client.post("/detect", json={}).status_code == 400


def test_a_wrong_key_gets_403(client_of, expected):
    client = client_of(keys={hash_key("secret"): None})
    for key in ({}, {"api_key": "wrong"}, {"api_key": ""}):
        check_refused(client.post("/translate", params={**GIVEN, **key}), 403)
    assert client.post("/detect", json={"q": TEXT}).status_code == 403
    for name in ("api_key", "apiKey"):
        assert client.post("/translate", json={**GIVEN, name: "secret"}).json() == {"translatedText": expected[0]}


WRONG = (
    ({}, "`q`"), ({"q": TEXT}, "`target`"), ({"q": 3, "target": "de"}, "`q`"), ({"q": [TEXT, 3]}, "`q`"),
    ({"q": TEXT, "target": ["de"]}, "`target`"), ({"q": TEXT, "source": "en", "target": "fr"}, "fr"),
    ({"q": TEXT, "target": "fr"}, "fr"), ({"q": TEXT, "target": "de", "format": "xml"}, "html"),
    ({"q": TEXT, "target": "de", "alternatives": 99}, "from 0 to 15"), ({"q": FRENCH, "target": "de"}, "French"),
    ({"q": TEXT, "target": "de", "alternatives": 1.5}, "`alternatives`"), ({"q": [], "target": "de"}, "no text"),
)  # fmt: skip
"""Requests, and what their errors must name."""


def test_an_error_says_what_is_wrong(client):
    for given, word in WRONG:
        check_refused(client.post("/translate", json=given), 400, word)


def test_other_bodies_are_refused(client):
    nan = '{"q": "a", "source": "en", "target": "de", "alternatives": NaN}'
    for content, kind in (("{", "json"), ("[1]", "json"), (nan, "json"), ("x", "xml")):
        headers = {"content-type": f"application/{kind}"}
        assert client.post("/translate", content=content, headers=headers).status_code == 400
    file = {"q": ("name.txt", b"we read")}
    assert client.post("/translate", files=file, params={"target": "de"}).status_code == 400
    assert client.get("/translate").status_code == 405


def test_an_address_that_ends_with_a_slash_is_understood(client, expected):
    assert client.post(f"{client.base_url}//translate", json=GIVEN).json() == {"translatedText": expected[0]}
