"""zoo's own API gives what the translator gives, and describes itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import specs
from tests.zoo.serving.conftest import PAIR, RUN, check_refused, open_quietly
from zoo.files.atomic import write_json
from zoo.generation.alignment import AlignmentHead
from zoo.generation.confidence import UNCERTAIN, Calibration

TEXTS = ["the old dog sees a small house", "", "we read two books today"]


def post(client, text, path="translate", **fields):
    return client.post(f"/v1/{path}", json={"text": text, **PAIR, **fields})


def results(client, text, **fields):
    answer = post(client, text, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def test_texts_are_translated_as_by_the_translator(client, translator):
    options = {"n_best": 3, "beam": 3, "alpha": 0.3}
    expected = translator.hypotheses(TEXTS, **options)
    for result, translations in zip(results(client, TEXTS, **options), expected, strict=True):
        assert [each["text"] for each in result["translations"]] == [each.text for each in translations]
        for one, other in zip(result["translations"], translations, strict=True):
            assert one["log_probability"] == pytest.approx(other.log_probability, abs=1e-4)
        assert (result["model"], result["source"], result["detected_confidence"]) == (RUN, "en", None)
        assert result["revision"].startswith("run-")


def test_line_breaks_are_kept(client, translator):
    lines = ["the old dog", "we read", "she knows"]
    (result,) = results(client, "\n{}\r\n\n  {}\n{}\n".format(*lines), n_best=2)
    expected = translator.translate(lines, n_best=2)
    for rank, translation in enumerate(result["translations"]):
        assert translation["text"] == "\n{}\r\n\n  {}\n{}\n".format(*(each[rank] for each in expected))


def test_sentences_are_returned_with_their_translations(client, translator):
    text = "the old dog sleeps. we read\n\nshe knows"
    assert "sentences" not in post(client, text).text
    sentences = ["the old dog sleeps.", "we read", "she knows"]
    expected = [list(pair) for pair in zip(sentences, translator.translate(sentences), strict=True)]
    (result,) = results(client, text, sentences=True)
    assert result["translations"][0]["sentences"] == expected
    streamed = post(client, text, sentences=True, stream=True).text
    assert json.loads(streamed.split("data: ")[1].split("\n")[0])["translations"][0]["sentences"] == expected


def test_translations_and_sentences_have_a_confidence_if_the_model_has_a_calibration(trained, client_of):
    text, run = "the old dog sleeps. we read\nshe knows\n-", trained(RUN)
    (before,) = results(client_of(), text, sentences=True)[0]["translations"]
    assert (before["confidence"], before["confidences"]) == (None, [None] * 4)
    write_json(run.scores, {"dev": {"confidence": asdict(Calibration(3.0, 5.0, -0.5, 0.1))}})
    (after,) = results(client_of(), text, sentences=True)[0]["translations"]
    assert (after["sentences"], after["text"]) == (before["sentences"], before["text"])
    sentences = [sentence for sentence, _ in after["sentences"]]
    expected = [best.confidence for best, *_ in open_quietly().hypotheses(sentences)]
    assert after["confidences"] == [each and pytest.approx(each, abs=1e-3) for each in expected]
    assert after["confidences"][3] is None
    assert after["confidence"] == min(after["confidences"][:3])
    confidences = zip(sentences[:3], after["confidences"], strict=False)
    assert after.get("uncertain", []) == [sentence for sentence, each in confidences if each < UNCERTAIN]


def test_a_hint_names_a_public_model_for_texts_with_long_sentences(client, monkeypatch):
    monkeypatch.setattr("zoo.serving.native.EVERYDAY", RUN)
    texts = ["we read", "the old dog sees a small house and " * 3 + "we read"]
    short, long = results(client, texts)
    assert "hint" not in short
    assert "`zoo serve --model " in long["hint"]
    assert "hint" in post(client, texts[1], stream=True).text


def test_texts_without_a_letter_and_lost_numbers(client, translator):
    texts = ["-", "$5\n1.", "we read 1,250 books"]
    found = [each["translations"][0] for each in results(client, texts, n_best=2)]
    assert [each["text"] for each in found[:2]] == texts[:2]
    ((best, *_),) = translator.hypotheses(texts[2:], n_best=2)
    assert found[2]["unkept"] == list(best.unkept)
    assert found[2]["uncertain"] == list(best.uncertain) == texts[2:]
    assert found[0].keys() == {"text", "score", "log_probability", "confidence"}
    assert found[0]["confidence"] is None
    assert "unkept" not in results(client, texts[2], n_best=2, protect=False)[0]["translations"][0]


def test_a_prefix_is_the_beginning(client):
    (result,) = results(client, TEXTS[0], prefix="der alte")
    assert result["translations"][0]["text"].startswith("der alte")
    assert post(client, "two\nlines", prefix="der alte").status_code == 400


def test_a_body_needs_the_type_of_json(client):
    answer = client.post("/v1/translate", content=b'{"text": "we", "target": "de"}')
    check_refused(answer, 400, "Content-Type: application/json")


def test_the_language_is_detected_for_each_text(client, translator):
    german = "heute lesen wir zwei Bücher"
    answer = client.post("/v1/translate", json={"text": [TEXTS[0], german], "target": "de"})
    english, same = answer.json()["results"]
    assert (english["source"], english["translations"][0]["text"]) == ("en", translator.translate(TEXTS[0]))
    assert (same["source"], same["translations"][0]["text"], same["model"]) == ("de", german, None)
    assert 0.5 < english["detected_confidence"] <= 1


def test_each_text_is_an_event(client, translator):
    answer = post(client, TEXTS, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done = answer.text.strip().split("\n\n")
    assert done == "event: done\ndata: {}"
    contents = [json.loads(event.removeprefix("event: translation\ndata: ")) for event in events]
    found = {content["index"]: content["translations"][0]["text"] for content in contents}
    assert found == dict(enumerate(translator.translate(TEXTS)))


def test_an_event_can_be_an_error(client):
    text = post(client, ["we read", " ", "x " * 9_999], stream=True, prefix="y").text
    assert text.count("event: translation") + text.count("event: error") == 3
    assert 'event: error\ndata: {"index": 1, "error": ' in text, "an empty text cannot have a prefix"


def test_a_text_in_a_language_without_a_model_is_an_error_beside_other_texts(client, translator):
    texts = ["Le vieux chien voit une petite maison.", TEXTS[0]]
    body = {"text": texts, "target": "de", "stream": True}
    events = client.post("/v1/translate", json=body).text.split("\n\n")
    contents = [json.loads(event.split("data: ")[1]) for event in events[:2]]
    refused, translated = sorted(contents, key=lambda content: content["index"])
    assert (refused["status"], "French" in refused["error"]) == (400, True)
    assert translated["translations"][0]["text"] == translator.translate(texts[1])
    for rejected in ({**body, "stream": False}, {**body, "text": texts[:1]}):
        check_refused(client.post("/v1/translate", json=rejected), 400, "French")


def test_translations_are_scored(client, translator):
    sources, targets = ["we read", "she knows"], ["wir lesen", "sie"]
    answer = post(client, sources, "score", translation=targets).json()
    assert answer["log_probabilities"] == pytest.approx(translator.score(sources, targets), abs=1e-4)
    assert answer["model"] == RUN
    assert post(client, sources, "score", translation="one").status_code == 400
    assert post(client, "a\nb", "score", translation="c").status_code == 400


def test_the_attention_of_words_is_that_of_the_translator(client, translator, monkeypatch):
    monkeypatch.setattr(AlignmentHead, "parse", lambda _: AlignmentHead(0, 1, True))
    body = {"text": TEXTS[0], "translation": "der alte Hund", **PAIR, "layer": 1}
    answer = client.post("/v1/attention", json=body).json()
    words = translator.attention(TEXTS[0], "der alte Hund").by_words()
    assert (answer["source"], answer["target"]) == (TEXTS[0].split(), ["der", "alte", "Hund"]), "no control tokens"
    assert answer["target_starts"] == [0, 4, 9]
    assert (answer["layers"], answer["heads"], answer["layer"], answer["head"]) == (2, 2, 1, None)
    assert np.array(answer["weights"]) == pytest.approx(words.cross[1].mean(0)[:-1, :-1].numpy(), abs=1e-3)
    one = client.post("/v1/attention", json={**body, "head": 1}).json()
    assert one["weights"][0] == pytest.approx(words.cross[1, 1, 0, :-1].tolist(), abs=1e-3)
    best = {"layer": None}, {"layer": None, "head": 1}, {"layer": 0, "head": 1}
    default, *others = [client.post("/v1/attention", json={**body, **each}).json() for each in best]
    assert (default["layer"], default["head"], others) == (0, 1, [default, default])
    for wrong in ({"head": 2}, {"layer": 2}, {"layer": -1}, {"text": ""}, {"translation": "a\nb"}, {"target": "fr"}):
        assert client.post("/v1/attention", json={**body, **wrong}).status_code == 400


def test_sentences_are_parsed_if_there_is_a_parser(client_of, parser_run):
    sentences = ["they can't wait", ""]
    parser = open_quietly(parser_run("runs/p").folder)
    client = client_of(names=["runs/p", RUN])
    answer = client.post("/v1/parse", json={"text": sentences})
    trees = [each["translations"][0]["text"] for each in answer.json()["results"]]
    assert trees == [str(parser.parse(sentences[0])), ""]
    assert " ca) " in trees[0], "the sentence is tokenised"
    body = {"text": "they can't wait", "tokenized": True, "model": "runs/p"}
    assert "can't" in client.post("/v1/parse", json=body).text
    assert client.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.post("/v1/translate", json={"text": "we", "target": "de", "model": "runs/p"}).status_code == 400
    translates_only = client_of()
    for model in ({}, {"model": RUN}):
        assert translates_only.post("/v1/parse", json={"text": "the dog sleeps", **model}).status_code == 400


def test_models_are_listed_with_their_state(client):
    Path(RUN, "scores.json").unlink()  # they were read at the start
    listed = client.get("/v1/models").json()
    expected = {
        "id": RUN, "object": "model", "created": 0, "owned_by": "zoo",
        "task": "translation", "reads": "text", "directions": [["en", "de"]], "loaded": False, "revision": None,
        "description": specs.load("tiny").description, "licence": None, "scores": {"BLEU": 12.345},
    }  # fmt: skip
    assert listed == {"object": "list", "data": [expected]}
    assert post(client, "we\x00 re\x1bad\x7f \u202e\u0085 books").status_code == 200, "control characters are allowed"
    assert client.get("/v1/models").json()["data"][0]["loaded"]


def test_health_and_metrics(client):
    assert client.get("/health").json() == {"status": "ok", "ready": True}
    post(client, TEXTS)
    post(client, TEXTS * 50)
    client.get("/nowhere/private")
    metrics = client.get("/metrics").text
    for line in (
        'zoo_requests_total{path="/v1/translate",status="200"} 1.0',
        'zoo_requests_total{path="/v1/translate",status="413"} 1.0',
        'zoo_requests_total{path="other",status="404"} 1.0',
        'zoo_rejected_total{reason="texts"} 1.0',
        f'zoo_texts_total{{model="{RUN}"}} 3.0',
        "zoo_queued_texts 0.0",
    ):
        assert line in metrics, metrics
    assert "private" not in metrics


def test_the_api_describes_itself(client):
    described = client.get("/openapi.json").json()
    assert {"/v1/translate", "/v1/score", "/v1/parse", "/v1/models", "/health", "/metrics"} <= set(described["paths"])
    assert "/translate" not in described["paths"]
    assert client.get("/docs").status_code == 404  # the page would load scripts from another host


BAD_OPTIONS = (
    '"unknown": 1', '"alpha": NaN', '"alpha": Infinity', '"alpha": 1e999', '"beam": 0', '"beam": 17', '"beam": "2"',
    '"beam": 2, "n_best": 3, "source": "en"', '"beam": 1' + "0" * 5_000, '"n_best": -1', '"source": "../x"',
)  # fmt: skip
BAD_BODIES = (
    *(f'{{"text": "a", "target": "de", {option}}}' for option in BAD_OPTIONS),
    "{", "[]", "null", '"text"', "{}", '{"text": 1, "target": "de"}', '{"text": [1], "target": "de"}',
    '{"text": "a", "target": 3}', '{"text": [], "target": "de"}', '{"text": "a", "target": "<script>"}',
    '{"text": "a", "source": "en", "target": "fr"}', '{"text": "a", "source": "de", "target": "en"}',
    '{"text": "\\ud800", "source": "en", "target": "de"}', "[" * 100_000, '{"text": ' + "[" * 100_000,
    '{"text": "' + "a" * 20_001, "\x00", "\xff",
)  # fmt: skip


def test_a_bad_request_gets_a_readable_error(client):
    for body in BAD_BODIES:
        content, headers = body.encode("latin-1"), {"content-type": "application/json"}
        answer = client.post("/v1/translate", content=content, headers=headers)
        assert answer.status_code == 400, (body[:100], answer.text)
        assert list(answer.json()) == ["error"]
        assert body not in ("{", "[]", "\xff") or "not a JSON object" in answer.json()["error"]
        assert 0 < len(answer.json()["error"]) < 400
        assert "<script>" not in answer.text or "json" in answer.headers["content-type"]
