"""Codes are understood in all usual forms, and languages are detected among all that the detector knows."""

from __future__ import annotations

import pytest

from tests.zoo.text.test_detection import TEXTS
from zoo.serving.answer import ServingError
from zoo.serving.languages import (
    detect_source,
    differ_in_region,
    language_name,
    no_model_error,
    public_codes,
    standard_code,
)


@pytest.mark.parametrize(
    ("code", "standard"),
    [
        ("de", "de"), ("DE", "de"), ("deu", "de"), ("eng_Latn", "en-Latn"), ("zh-hans", "zh-Hans"),
        ("ZH-CN", "zh-Hans"), ("zho_Hant", "zh-Hant"), ("zt", "zh-Hant"), ("en-us", "en-US"), ("pt_BR", "pt-BR"),
        ("pb", "pt-BR"), ("pb-BR", "pt-BR"), ("no", "nb"), ("iw", "he"),
    ],
)  # fmt: skip
def test_standard_codes(code, standard):
    assert standard_code(code) == standard


@pytest.mark.parametrize("text", ["", "e", "en us", "../en", "en\n", "e" * 99, "<b>", "\ud800", "12", "en--us"])
def test_other_texts_are_no_codes(text):
    with pytest.raises(ServingError):
        standard_code(text)


def test_names_and_public_codes():
    codes = {"eng_Latn": "en", "zho_Hans": "zh-Hans", "zho_Hant": "zh-Hant", "yue_Hant": "yue"}
    assert public_codes([*codes]) == codes
    assert language_name("de") == "German"
    assert language_name("zh-Hans").startswith("Chinese (Simplified")
    assert language_name("pt-BR") == "Portuguese (Brazil)"


def test_a_text_in_a_language_without_a_model_is_refused():
    assert detect_source(TEXTS["de"], {"de", "en"}, "de-AT") == ("de", pytest.approx(1, abs=0.1))
    for code in ("fr", "ru"):
        with pytest.raises(ServingError, match=r"seems to be (French|Russian) .* into German"):
            detect_source(TEXTS[code], {"de", "en"}, "de")
    with pytest.raises(ServingError):
        detect_source(TEXTS["de"], {"en"}, "en")


@pytest.mark.parametrize("text", ["", "12", "hello", "Hi", "No", "Merci"])
def test_the_language_of_a_short_text_is_uncertain(text):
    code, probability = detect_source(text, {"de", "en"}, "DE-at")
    assert (code, probability < 0.1) == ("en", True), "only texts that are clearly German stay unchanged"
    assert detect_source(text, {"tlh"}, "de") == ("tlh", 0.0), "the detector does not know this language"


def test_codes_of_one_language_differ_in_their_region_only():
    assert differ_in_region("en", "en-US")
    assert differ_in_region("pt_BR", "pt-pt")
    for one, other in (("en", "eng"), ("en", "de"), ("zh-Hans", "zh-Hant"), ("zh", "zh-Hant")):
        assert not differ_in_region(one, other)


def test_a_pair_without_a_model_gets_a_recommendation():
    assert "`zoo serve --model opus-mt-de-fr` serves" in str(no_model_error("de", "fr-CA"))
    assert str(no_model_error("xx", "yy")).endswith("lists the pairs")
