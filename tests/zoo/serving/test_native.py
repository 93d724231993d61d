"""zoo's own API gives what the translator gives, and describes itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import specs
from zoo.files.atomic import write_json
from zoo.generation.confidence import UNCERTAIN, Calibration
from zoo.generation.loading import open_model
from zoo.report import Report

RUN = "runs/tiny"
TEXTS = ["the old dog sees a small house", "", "we read two books today"]


def test_texts_are_translated_as_by_the_translator(client, translator):
    body = {"text": TEXTS, "source": "en", "target": "de", "n_best": 3, "beam": 3, "alpha": 0.3}
    answer = client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    expected = translator.hypotheses(TEXTS, n_best=3, beam=3, alpha=0.3)
    for result, translations in zip(answer.json()["results"], expected, strict=True):
        assert [each["text"] for each in result["translations"]] == [each.text for each in translations]
        for one, other in zip(result["translations"], translations, strict=True):
            assert one["log_probability"] == pytest.approx(other.log_probability, abs=1e-4)
        assert (result["model"], result["source"], result["detected_confidence"]) == (RUN, "en", None)
        assert result["revision"].startswith("run-")


def test_line_breaks_are_kept(client, translator):
    lines = ["the old dog", "we read", "she knows"]
    text = "\n{}\r\n\n  {}\n{}\n".format(*lines)
    answer = client.post("/v1/translate", json={"text": text, "source": "en", "target": "de", "n_best": 2})
    (result,) = answer.json()["results"]
    expected = translator.translate(lines, n_best=2)
    for rank, translation in enumerate(result["translations"]):
        assert translation["text"] == "\n{}\r\n\n  {}\n{}\n".format(*(each[rank] for each in expected))


def test_sentences_are_returned_with_their_translations(client, translator):
    lines = ["the old dog sleeps. we read", "", "she knows"]
    body = {"text": "\n".join(lines), "source": "en", "target": "de"}
    assert "sentences" not in client.post("/v1/translate", json=body).text
    sentences = ["the old dog sleeps.", "we read", "she knows"]
    expected = [list(pair) for pair in zip(sentences, translator.translate(sentences), strict=True)]
    (result,) = client.post("/v1/translate", json={**body, "sentences": True}).json()["results"]
    assert result["translations"][0]["sentences"] == expected
    streamed = client.post("/v1/translate", json={**body, "sentences": True, "stream": True}).text
    assert json.loads(streamed.split("data: ")[1].split("\n")[0])["translations"][0]["sentences"] == expected


def test_translations_and_sentences_have_a_confidence_if_the_model_has_a_calibration(trained, client_of):
    body = {"text": "the old dog sleeps. we read\nshe knows\n-", "source": "en", "target": "de", "sentences": True}
    run = trained(RUN)
    (before,) = client_of().post("/v1/translate", json=body).json()["results"][0]["translations"]
    assert (before["confidence"], before["confidences"]) == (None, [None] * 4)
    calibration = Calibration(3.0, 5.0, -0.5, 0.1)
    write_json(run.scores, {"dev": {"confidence": asdict(calibration)}})
    (after,) = client_of().post("/v1/translate", json=body).json()["results"][0]["translations"]
    assert (after["sentences"], after["text"]) == (before["sentences"], before["text"])
    translator = open_model(Path(RUN), device="cpu", report=Report())
    expected = [best.confidence for best, *_ in translator.hypotheses([text for text, _ in after["sentences"]])]
    assert after["confidences"] == [each and pytest.approx(each, abs=1e-3) for each in expected]
    assert after["confidences"][3] is None
    assert after["confidence"] == min(after["confidences"][:3])
    doubtful = [
        text for (text, _), each in zip(after["sentences"], after["confidences"][:3], strict=False) if each < UNCERTAIN
    ]
    assert after.get("uncertain", []) == doubtful


def test_a_hint_names_a_public_model_for_texts_with_long_sentences(client, monkeypatch):
    body = {"source": "en", "target": "de"}
    (result,) = client.post("/v1/translate", json={**body, "text": "we read"}).json()["results"]
    monkeypatch.setattr("zoo.serving.native.EVERYDAY", result["model"])
    texts = ["we read", "the old dog sees a small house and " * 3 + "we read"]
    short, long = client.post("/v1/translate", json={**body, "text": texts}).json()["results"]
    assert "hint" not in short
    assert "`zoo serve --model " in long["hint"]
    assert "hint" in client.post("/v1/translate", json={**body, "text": texts[1], "stream": True}).text


def test_texts_without_a_letter_and_lost_numbers(client, translator):
    texts = ["-", "$5\n1.", "we read 1,250 books"]
    body = {"text": texts, "source": "en", "target": "de", "n_best": 2}
    results = [each["translations"][0] for each in client.post("/v1/translate", json=body).json()["results"]]
    assert [each["text"] for each in results[:2]] == texts[:2]
    ((best, *_),) = translator.hypotheses(texts[2:], n_best=2)
    assert results[2]["unkept"] == list(best.unkept)
    assert results[2]["uncertain"] == list(best.uncertain) == texts[2:]
    assert results[0].keys() == {"text", "score", "log_probability", "confidence"}
    assert results[0]["confidence"] is None
    (result,) = client.post("/v1/translate", json={**body, "text": texts[2], "protect": False}).json()["results"]
    assert "unkept" not in result["translations"][0]
    for path, given in (("/translate", {"q": "$5"}), ("/v2/translate", {"text": ["$5"]})):
        named = {"source": "en", "target": "de"} if "q" in given else {"source_lang": "EN", "target_lang": "DE"}
        answer = client.post(path, json={**given, **named}).text
        assert "$5" in answer, answer


def test_a_prefix_is_the_beginning(client):
    body = {"text": TEXTS[0], "source": "en", "target": "de", "prefix": "der alte"}
    (result,) = client.post("/v1/translate", json=body).json()["results"]
    assert result["translations"][0]["text"].startswith("der alte")
    assert client.post("/v1/translate", json={**body, "text": "two\nlines"}).status_code == 400


def test_a_body_needs_the_type_of_json(client):
    answer = client.post("/v1/translate", content=b'{"text": "we", "target": "de"}')
    assert (answer.status_code, "Content-Type: application/json" in answer.json()["error"]) == (400, True), answer.text


def test_the_language_is_detected_for_each_text(client, translator):
    german = "heute lesen wir zwei Bücher"
    answer = client.post("/v1/translate", json={"text": [TEXTS[0], german], "target": "de"}).json()
    english, same = answer["results"]
    assert (english["source"], english["translations"][0]["text"]) == ("en", translator.translate(TEXTS[0]))
    assert (same["source"], same["translations"][0]["text"], same["model"]) == ("de", german, None)
    assert 0.5 < english["detected_confidence"] <= 1


def test_each_text_is_an_event(client, translator):
    body = {"text": TEXTS, "source": "en", "target": "de", "stream": True}
    with client.stream("POST", "/v1/translate", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [event.split("\n") for event in "".join(answer.iter_text()).strip().split("\n\n")]
    assert events[-1] == ["event: done", "data: {}"]
    found = {}
    for name, data in events[:-1]:
        assert name == "event: translation"
        content = json.loads(data.removeprefix("data: "))
        found[content["index"]] = content["translations"][0]["text"]
    assert found == dict(enumerate(translator.translate(TEXTS)))


def test_an_event_can_be_an_error(client):
    body = {"text": ["we read", "we read", "x " * 9_999], "source": "en", "target": "de", "stream": True, "prefix": "y"}
    body["text"][1] = " "  # an empty text cannot have a prefix
    text = client.post("/v1/translate", json=body).text
    assert text.count("event: translation") + text.count("event: error") == 3
    assert "event: error" in text
    assert '"index": 1, "error": ' in text


def test_a_text_in_a_language_without_a_model_is_an_error_beside_other_texts(client, translator):
    texts = ["Le vieux chien voit une petite maison.", TEXTS[0]]
    body = {"text": texts, "target": "de", "stream": True}
    events = client.post("/v1/translate", json=body).text.split("\n\n")
    contents = [json.loads(event.split("data: ")[1]) for event in events[:2]]
    refused, translated = sorted(contents, key=lambda content: content["index"])
    assert (refused["status"], "French" in refused["error"]) == (400, True)
    assert translated["translations"][0]["text"] == translator.translate(texts[1])
    for rejected in ({**body, "stream": False}, {**body, "text": texts[:1]}):
        answer = client.post("/v1/translate", json=rejected)
        assert (answer.status_code, "French" in answer.json()["error"]) == (400, True)


def test_translations_are_scored(client, translator):
    sources, targets = ["we read", "she knows"], ["wir lesen", "sie"]
    body = {"text": sources, "translation": targets, "source": "en", "target": "de"}
    answer = client.post("/v1/score", json=body).json()
    assert answer["log_probabilities"] == pytest.approx(translator.score(sources, targets), abs=1e-4)
    assert answer["model"] == RUN
    assert client.post("/v1/score", json={**body, "translation": "one"}).status_code == 400
    assert client.post("/v1/score", json={**body, "text": "a\nb", "translation": "c"}).status_code == 400


def test_the_attention_of_words_is_that_of_the_translator(client, translator):
    body = {"text": TEXTS[0], "translation": "der alte Hund", "source": "en", "target": "de", "layer": 1}
    answer = client.post("/v1/attention", json=body).json()
    words = translator.attention(TEXTS[0], "der alte Hund").by_words()
    assert (answer["source"], answer["target"]) == (TEXTS[0].split(), ["der", "alte", "Hund"]), "no control tokens"
    assert answer["target_starts"] == [0, 4, 9]
    assert (answer["layers"], answer["heads"], answer["layer"], answer["head"]) == (2, 2, 1, None)
    for row, expected in zip(answer["weights"], words.cross[1].mean(0)[:-1, :-1].tolist(), strict=True):
        assert row == pytest.approx(expected, abs=1e-3)
    one = client.post("/v1/attention", json={**body, "head": 1}).json()
    assert one["weights"][0] == pytest.approx(words.cross[1, 1, 0, :-1].tolist(), abs=1e-3)
    for wrong in ({"head": 2}, {"layer": 2}, {"layer": -1}, {"text": ""}, {"translation": "a\nb"}, {"target": "fr"}):
        assert client.post("/v1/attention", json={**body, **wrong}).status_code == 400


def test_without_a_parser_nothing_is_parsed(client):
    assert client.post("/v1/parse", json={"text": "the dog sleeps"}).status_code == 400
    assert client.post("/v1/parse", json={"text": "the dog sleeps", "model": RUN}).status_code == 400


def test_sentences_are_parsed(client_of, parser_run):
    sentences = ["they can't wait", ""]
    parser = open_model(parser_run("runs/p").folder, device="cpu", report=Report())

    client = client_of(names=["runs/p", RUN])
    results = client.post("/v1/parse", json={"text": sentences}).json()["results"]
    trees = [each["translations"][0]["text"] for each in results]
    assert trees == [str(parser.parse(sentences[0])), ""]
    assert " ca) " in trees[0], "the sentence is tokenised"
    body = {"text": "they can't wait", "tokenized": True, "model": "runs/p"}
    assert "can't" in client.post("/v1/parse", json=body).text
    assert client.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.post("/v1/translate", json={"text": "we", "target": "de", "model": "runs/p"}).status_code == 400


def test_models_are_listed_with_their_state(client):
    listed = client.get("/v1/models").json()
    (before,) = listed["data"]
    assert listed["object"] == "list"
    assert before == {
        "id": RUN, "object": "model", "created": 0, "owned_by": "zoo",
        "task": "translation", "reads": "text", "directions": [["en", "de"]],
        "loaded": False, "revision": None,
        "description": specs.load("tiny").description, "licence": None, "scores": {"BLEU": 12.345},
    }  # fmt: skip
    client.post("/v1/translate", json={"text": "we", "source": "en", "target": "de"})
    (after,) = client.get("/v1/models").json()["data"]
    assert after["loaded"]


def test_health_and_metrics(client):
    assert client.get("/health").json() == {"status": "ok", "ready": True}
    assert client.get("/health/ready").status_code == 200
    client.post("/v1/translate", json={"text": TEXTS, "source": "en", "target": "de"})
    client.post("/v1/translate", json={"text": TEXTS * 50, "source": "en", "target": "de"})
    client.get("/nowhere/private")
    metrics = client.get("/metrics").text
    for line in (
        'zoo_requests_total{path="/v1/translate",status="200"} 1.0',
        'zoo_requests_total{path="/v1/translate",status="413"} 1.0',
        'zoo_requests_total{path="other",status="404"} 1.0',
        'zoo_rejected_total{reason="texts"} 1.0',
        f'zoo_texts_total{{model="{RUN}"}} 3.0',
        "zoo_queued_texts 0.0",
        "zoo_loaded_models 1.0",
    ):
        assert line in metrics, metrics
    assert "private" not in metrics


def test_the_api_describes_itself(client):
    described = client.get("/openapi.json").json()
    assert {"/v1/translate", "/v1/score", "/v1/parse", "/v1/models", "/health", "/metrics"} <= set(described["paths"])
    assert "/translate" not in described["paths"]
    assert client.get("/docs").status_code == 404  # the page would load scripts from another host


BAD_BODIES = (
    "{", "[]", "null", '"text"', "{}", '{"text": 1, "target": "de"}', '{"text": [1], "target": "de"}',
    '{"text": "a", "target": 3}', '{"text": "a", "target": "de", "unknown": 1}', '{"text": [], "target": "de"}',
    '{"text": "a", "target": "de", "alpha": NaN}', '{"text": "a", "target": "de", "alpha": Infinity}',
    '{"text": "a", "target": "de", "alpha": 1e999}', '{"text": "a", "target": "de", "beam": 0}',
    '{"text": "a", "target": "de", "beam": 17}', '{"text": "a", "target": "de", "beam": "2"}',
    '{"text": "a", "target": "de", "beam": 2, "n_best": 3, "source": "en"}',
    '{"text": "a", "target": "de", "beam": 1' + "0" * 5_000 + "}",
    '{"text": "a", "target": "de", "n_best": -1}', '{"text": "a", "target": "<script>"}',
    '{"text": "a", "source": "en", "target": "fr"}', '{"text": "a", "source": "de", "target": "en"}',
    '{"text": "a", "source": "../x", "target": "de"}', '{"text": "a", "target": "de", "model": "../x"}',
    '{"text": "\\ud800", "source": "en", "target": "de"}', "[" * 100_000, '{"text": ' + "[" * 100_000,
    '{"text": "' + "a" * 20_001, "\x00", "\xff",
)  # fmt: skip


def test_a_bad_request_gets_a_readable_error(client):
    for body in BAD_BODIES:
        content, headers = body.encode("latin-1"), {"content-type": "application/json"}
        answer = client.post("/v1/translate", content=content, headers=headers)
        assert answer.status_code == 400, (body[:100], answer.text)
        assert list(answer.json()) == ["error"]
        assert body not in ("{", "[]") or "not a JSON object" in answer.json()["error"]
        assert 0 < len(answer.json()["error"]) < 400
        assert "<script>" not in answer.text or "json" in answer.headers["content-type"]


def test_control_characters_are_no_problem(client):
    body = {"text": "we\x00 re\x1bad\x7f \u202e\u0085 books", "source": "en", "target": "de"}
    assert client.post("/v1/translate", json=body).status_code == 200
