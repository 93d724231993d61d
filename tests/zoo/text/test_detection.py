"""The language of a text is guessed among those of a model."""

import pytest

from zoo.documents.document import Document
from zoo.text.language_codes import guess_language, guess_languages


@pytest.mark.parametrize(("text", "language"), [
    ("Where is the nearest station?", "en"), ("Wo ist der nächste Bahnhof?", "de"),
    ("Où est la gare la plus proche ?", "fra_Latn"), ("¿Dónde está la estación más cercana?", "es"),
])  # fmt: skip
def test_the_most_probable_language_of_the_model_is_chosen(text, language):
    codes = ["en", "de", "fra_Latn", "es"]
    assert [guess_language(text, known, "und") for known in (codes, ["tlh"])] == [language, "und"]
    assert guess_language(text, [code for code in codes if code != language], "und") != language


@pytest.mark.parametrize(("start", "short"), [('<html lang="en-GB">', "en"), ('<html lang="de">', "fr"), ("", "fr")])
def test_short_texts_have_the_language_of_their_document(start, short):
    long = "Où est la gare ? Nous la cherchons depuis une heure, mais nous ne la trouvons pas."
    language = Document(f"{start}<p>one</p>".encode(), "a.html").language
    assert guess_languages(["Tea: €2.80", long, "No"], ["en", "fr"], language) == [short, "fr", short]
