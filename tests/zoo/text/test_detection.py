"""The language of a text is guessed among those of a model."""

import pytest

from zoo.text.language_codes import guess_language


@pytest.mark.parametrize(("text", "language"), [
    ("Where is the nearest station?", "en"),
    ("Wo ist der nächste Bahnhof?", "de"),
    ("Où est la gare la plus proche ?", "fra_Latn"),
    ("¿Dónde está la estación más cercana?", "es"),
])  # fmt: skip
def test_the_most_probable_language_of_the_model_is_chosen(text, language):
    codes = ["en", "de", "fra_Latn", "es"]
    assert guess_language(text, ["tlh"], "und") == "und", "no language of the model is known"
    assert guess_language(text, codes, "und") == language
    assert guess_language(text, [code for code in codes if code != language], "und") != language
