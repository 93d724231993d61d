"""The language of a text is guessed among those of a model."""

import pytest

from zoo.documents.document import Document
from zoo.text.language_codes import guess_language, guess_languages, rank_languages

TEXTS = {
    "de": "Der alte Hund sieht heute ein kleines Haus und schläft.",
    "en": "The old dog sees a small house today.",
    "fr": "Le vieux chien voit une petite maison.",
    "ru": "Старая собака сегодня видит маленький дом.",
    "zh": "今天天气很好，我们去公园",
    "nb": "Jeg vet ikke hva jeg skal gjøre i dag, men det går bra.",
}
CODES = {"de": "de", "en": "eng", "fr": "fra_Latn", "ru": "ru", "zh": "zho_Hans", "nb": "no"}


@pytest.mark.parametrize("language", TEXTS)
def test_the_most_probable_language_is_chosen_among_all_and_among_those_of_a_model(language):
    text, codes = TEXTS[language], ["zho_Hant", *CODES.values(), "zho_Hant"]
    ranked = rank_languages(text)
    assert ranked[0][0] == language
    assert sum(probability for _, probability in ranked) == pytest.approx(1, abs=0.01)
    assert [guess_language(text, known, "und") for known in (codes, ["tlh"])] == [CODES[language], "und"]
    assert guess_language(text, {*codes} - {CODES[language]}, "und") not in (CODES[language], "und")


@pytest.mark.parametrize(("start", "short"), [('<html lang="en-GB">', "en"), ('<html lang="de">', "fr"), ("", "fr")])
def test_short_texts_have_the_language_of_their_document(start, short):
    long = "Où est la gare ? Nous la cherchons depuis une heure, mais nous ne la trouvons pas."
    language = Document(f"{start}<p>one</p>".encode(), "a.html").language
    assert guess_languages(["Tea: €2.80", long, "No"], ["en", "fr"], language) == [short, "fr", short]
