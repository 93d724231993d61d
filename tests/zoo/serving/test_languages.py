"""Codes are understood in all usual forms, and languages are detected among those of the models."""

from __future__ import annotations

import pytest

from zoo.serving.errors import ServingError
from zoo.serving.languages import (
    detect,
    differ_in_region,
    language_name,
    match_code,
    public_codes,
    standard_code,
)


@pytest.mark.parametrize(
    ("code", "standard"),
    [
        ("de", "de"), ("DE", "de"), ("deu", "de"), ("eng_Latn", "en-Latn"), ("zh-hans", "zh-Hans"),
        ("ZH-CN", "zh-Hans"), ("zho_Hant", "zh-Hant"), ("zt", "zh-Hant"), ("en-us", "en-US"), ("pt_BR", "pt-BR"),
        ("pb", "pt-BR"), ("no", "nb"), ("iw", "he"),
    ],
)  # fmt: skip
def test_standard_codes(code, standard):
    assert standard_code(code) == standard


@pytest.mark.parametrize("text", ["", "e", "en us", "../en", "en\n", "e" * 99, "<b>", "\ud800", "12", "en--us"])
def test_other_texts_are_no_codes(text):
    with pytest.raises(ServingError):
        standard_code(text)


def test_a_code_matches_the_most_similar_one():
    assert match_code("pt", ["pt_PT", "pt_BR"]) == "pt_PT"
    assert match_code("pt-BR", ["pt_PT", "pt_BR"]) == "pt_BR"
    assert match_code("pt-BR", ["pt"]) == "pt"
    assert match_code("zh-Hant", ["zho_Hans"]) is None
    assert match_code("zh-Hant", ["zh"]) == "zh"
    assert match_code("de", ["en"]) is None


def test_names_and_public_codes():
    assert public_codes(["eng_Latn", "zho_Hans", "zho_Hant"]) == {
        "eng_Latn": "en", "zho_Hans": "zh-Hans", "zho_Hant": "zh-Hant",
    }  # fmt: skip
    assert language_name("de") == "German"
    assert language_name("zh-Hans").startswith("Chinese (Simplified")
    assert language_name("pt-BR") == "Portuguese (Brazil)"


def test_only_languages_of_the_models_are_detected():
    german = "Der alte Hund sieht heute ein kleines Haus und schläft."
    assert detect(german, ["de", "en", "fr"])[0][0] == "de"
    assert {code for code, _ in detect(german, ["en", "fr"])} == {"en", "fr"}
    assert sum(probability for _, probability in detect(german, ["de", "en", "fr"])) == pytest.approx(1, abs=1e-3)
    assert detect(german, ["en"]) == [("en", 1.0)]
    assert detect("", ["de", "en"])[0][0] in ("de", "en")
    with pytest.raises(ServingError):
        detect(german, [])


def test_codes_of_one_language_differ_in_their_region_only():
    assert differ_in_region("en", "en-US")
    assert differ_in_region("pt_BR", "pt-pt")
    for one, other in (("en", "eng"), ("en", "de"), ("zh-Hans", "zh-Hant"), ("zh", "zh-Hant")):
        assert not differ_in_region(one, other)
