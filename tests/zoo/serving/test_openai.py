"""OpenAI's API for speech: transcripts in every format, errors in its form, and hostile uploads."""

from __future__ import annotations

import io
import json
import random
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from tests.mutations import mutated
from tests.zoo.serving.test_limits import BODY
from zoo.generation.transcription import Transcript
from zoo.serving import openai
from zoo.serving.admission import hash_key

soundfile = pytest.importorskip("soundfile")
RATE = 16_000
HEARING, DIRECT = "runs/hearing", "runs/direct"


def sound(*seconds: float, form: str = "WAV") -> bytes:
    """Noise of these lengths, with a pause of a second after each."""
    chance, file = np.random.default_rng(0), io.BytesIO()
    parts = [np.pad(0.1 * chance.normal(size=round(s * RATE)), (0, RATE)) for s in seconds]
    soundfile.write(file, np.concatenate(parts), RATE, format=form)
    return file.getvalue()


@pytest.fixture
def client(hearing, client_of):
    """A client of a server with a model that transcribes German, one that translates, and one that reads text."""
    hearing(HEARING, **{"corpus.source": "de"})
    hearing(DIRECT)
    return client_of(names=(HEARING, DIRECT, "runs/tiny"), audio_seconds=20.0)


def several(default: str, *codes: str, file: str) -> dict[str, Any]:
    """Settings of a model that writes several languages, by default the one of the corpus."""
    parts = [{"source": "a.lst", "target": file, "target_language": code} for code in codes]
    corpus = {"source": default, "target": default, "train": parts, "dev": [], "test": []}
    languages = {"codes": [*codes], "token": "{}", "source_token": None, "target_token": "target"}
    return {"corpus": corpus, "languages": languages}


def post(client, content: bytes, path: str = "transcriptions", **fields: str) -> Any:
    return client.post(f"/v1/audio/{path}", data=fields, files={"file": ("a.wav", content)})


def test_endpoints_are_functions_because_old_versions_of_fastapi_read_no_other_annotations() -> None:
    assert [isfunction(route.endpoint) for route in openai.router(None, None).routes] == [True, True]


def test_all_formats_have_the_text_of_the_library(client, tmp_path) -> None:
    (file := tmp_path / "a.flac").write_bytes(content := sound(1, 0.8, form="FLAC"))
    expected: Transcript = zoo.load(HEARING).transcribe(file)
    assert len(expected.segments) > 1
    for model in ({}, {"model": "whisper-1"}, {"model": HEARING, "language": "de"}):
        assert post(client, content, **model).json() == {"text": expected.text}
    written = {form: post(client, content, response_format=form).text for form in ("text", "srt", "vtt")}
    assert written == {"text": f"{expected.text}\n", "srt": expected.to_srt(), "vtt": expected.to_vtt()}
    verbose = post(client, content, response_format="verbose_json").json()
    assert (verbose["task"], verbose["language"], verbose["text"]) == ("transcribe", "german", expected.text)
    assert verbose["duration"] == pytest.approx(3.8, abs=0.01)
    times = [(each["start"], each["end"]) for each in verbose["segments"]]
    assert np.array(times) == pytest.approx(np.array([(each.start, each.end) for each in expected.segments]))
    direct = post(client, content, "translations", response_format="verbose_json").json()
    assert (direct["task"], direct["text"]) == ("translate", zoo.load(DIRECT).transcribe(file).text)


def test_one_model_transcribes_and_translates(hearing, client_of, tmp_path) -> None:
    names = {"en": "english", "es": "spanish", "no": "norwegian bokmål"}  # the codes are tokens of the vocabulary, too
    hearing(HEARING, **several("en", *names, file="a.en"))
    client = client_of(names=(HEARING,))
    (file := tmp_path / "a.wav").write_bytes(content := sound(1))
    for path, fields, target in (
        ("transcriptions", {}, "en"),
        ("translations", {}, "es"),
        ("translations", {"target": "no"}, "no"),
    ):
        answer = post(client, content, path, response_format="verbose_json", **fields).json()
        assert answer["language"] == names[target]
        assert answer["text"] == zoo.load(HEARING).transcribe(file, target=target).text
    assert "no matching model translates" in post(client, content, "translations", target="de").text


def test_errors_have_openais_form(client) -> None:
    content = sound(0.5)
    for problem, answer in {
        "`file` is missing": client.post("/v1/audio/transcriptions", files={"model": (None, "whisper-1")}),
        "should be `json`, `text`, `srt`, `vtt` or": post(client, content, response_format="docx"),
        "`stream` is not supported": post(client, content, stream="true"),
        "there is no model with this name": post(client, content, model="base"),
        "no matching model translates": post(client, content, "translations", model=HEARING),
        "no matching model transcribes speech": post(client, content, language="fr"),
        "longer than 20 seconds": post(client, sound(20.5)),
        "cannot be read as audio": post(client, b"RIFF" + bytes(100)),
        "body should be a form: send the file as `multipart/form-data`": client.post("/v1/audio/translations", json={}),
    }.items():
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), answer.text
        assert problem in error["message"]


def test_pictures_are_read_in_the_language_of_the_corpus_by_default(hearing, client_of) -> None:
    pillow = pytest.importorskip("PIL.Image")
    source = {"kind": "image", "height": 8, "patch": {"height": 8, "width": 2}}
    task = {"kind": "recognition", "source": source}
    hearing("runs/seeing", task=task, **several("es", "en", "es", file="a.txt"))
    client = client_of(names=("runs/seeing",))
    pixels = np.random.default_rng(0).integers(0, 256, (8, 30)).astype(np.uint8)
    pillow.fromarray(pixels).save("a.png")
    content = Path("a.png").read_bytes()
    texts = {code: zoo.load("runs/seeing").translate("a.png", target=code) for code in ("es", "en")}
    assert zoo.load("runs/seeing").translate("a.png") == texts["es"] != texts["en"]
    for fields, code in (({}, "es"), ({"target": "en"}, "en"), ({"target": "ES"}, "es")):
        answer = client.post("/v1/recognize", data=fields, files={"file": ("a.png", content)}).json()
        assert (answer["text"], answer["model"]) == (texts[code], "runs/seeing")
    for fields, part, problem in (({"target": "de"}, b"", "writes `de`"), ({}, content[:50], "not a valid PNG")):
        refused = client.post("/v1/recognize", data=fields, files={"file": ("a.png", part)})
        assert (refused.status_code, problem in refused.json()["error"]) == (400, True), refused.text
    assert "no matching model transcribes" in post(client, sound(0.5)).text


def test_models_that_hear_do_not_translate_text(client) -> None:
    assert client.post("/v1/translate", json=BODY).json()["results"][0]["model"] == "runs/tiny"
    for path in ("translate", "score", "attention"):  # a text could be the name of a file of the server
        translation = {} if path == "translate" else {"translation": "x"}
        answer = client.post(f"/v1/{path}", json={**BODY, "model": DIRECT, **translation})
        assert (answer.status_code, "no model" in answer.text) == (400, True)
    heard = ("recognition", "audio")
    kinds = {each["id"]: (each["task"], each["reads"]) for each in client.get("/v1/models").json()["data"]}
    assert kinds == {HEARING: heard, DIRECT: heard, "runs/tiny": ("translation", "text")}


def test_sound_counts_in_the_quota_of_a_key(hearing, client_of) -> None:
    hearing(HEARING, **{"corpus.source": "de"})
    client = client_of(names=(HEARING,), keys={hash_key("mine"): 50})
    client.headers["Authorization"] = "Bearer mine"
    content = sound(0.5)  # with its pause, 1.5 seconds, which count as 23 characters
    assert [post(client, content).status_code for _ in range(3)] == [200, 200, 456]
    client.headers["Authorization"] = "Bearer other"
    assert post(client, content).status_code == 403


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG"])
def test_hostile_sounds_get_an_error_or_a_transcript(client, form: str) -> None:
    content, chance = sound(0.4, form=form), random.Random(form)
    for _ in range(12):
        answer = post(client, mutated(content, chance))
        assert answer.status_code in (200, 400, 413), answer.text
        assert isinstance(json.loads(answer.text), dict)
    assert post(client, content).status_code == 200


def test_a_small_file_with_hours_of_sound_is_refused(client) -> None:
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", RATE, 1, format="FLAC") as hours:
        for _ in range(60):
            hours.write(np.zeros(60 * RATE, np.int16))
    assert len(file.getvalue()) < 1_000_000
    answer = post(client, file.getvalue())
    assert (answer.status_code, "longer than 20 seconds" in answer.text) == (400, True)
