"""Copy symbols replace the spans of a sentence, and the spans replace them in its translation."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.text.copying import copy_symbols, in_capitals, replace_in_pair, replace_spans

SYMBOLS = A, B, C = copy_symbols(3)


@pytest.mark.parametrize(("text", "replaced", "translation"), [
    ("It costs $1,250.50 today.", f"It costs {A} today.", "Es kostet 1.250,50 $ heute."),
    ("Mail a@b.org before 14:30", f"Mail {A} before {B}", "Schreib a@b.org vor 14:30"),
    ("I have three cats and 2 dogs in May.", "I have three cats and 2 dogs in May.", None),
    ("Mail a@b.org before 9:00 a.m.", f"Mail {A} before {B}", "Schreib a@b.org vor 9 Uhr"),
    ("Mail us before 9:00 a.m.", f"Mail us before {A}.", "Schreib us vor 9 Uhr."),
    ("Run {name} on the 21st.", f"Run {A} on the {B}.", "Führ {name} am 21. aus"),
    ("Mail Ms Žižková before Øystein", f"Mail Ms {A} before {B}", "Schreib Ms Žižková vor Øystein"),
    ("It costs ₺5 ± ₹2 today", f"It costs {A}5 {B} {C}2 today", "Es kostet ₺5 ± ₹2 heute"),
    ("Mail Mr O'Neill before Ms Jane Le-Roux", f"Mail Mr {A} before Ms {B} {C}",
     "Schreib Mr O'Neill vor Ms Jane Le-Roux"),
    ("Mail Dr Øye, Mr President", f"Mail Dr {A}, Mr President", "Schreib Dr Øye, Mr President"),
    ("Room no. 5 — page 7", f"Room {A} – page 7", "Room Nr. 5 – page 7"),
    ("10 km, 20 km, 30 km, 40 km", f"{A}, {B}, {C}, 40 km", "10 km, 20 km, 30 km, 40 km"),
])  # fmt: skip
def test_spans_are_replaced_and_restored_in_the_notation_of_the_target(text, replaced, translation):
    found = replace_spans(text, SYMBOLS, "en", "de")
    assert found.text == replaced
    words = {"It costs": "Es kostet", "today": "heute", "Mail": "Schreib", "before": "vor"}
    words |= {"Run": "Führ", "on the": "am", f"{B}.": f"{B}. aus"} if "Run" in text else {}
    for word, other in words.items():
        replaced = replaced.replace(word, other)
    assert found.restore(replaced, "") == (translation or text)


@pytest.mark.parametrize(("text", "read"), [
    ("PLEASE DO NOT SMOKE!", "Please do not smoke!"),
    ("CLOSED ON 24 MARCH 2026, MONDAY", f"Closed on {A} March {B}, Monday"),
    ("„EINGANG“", "„Eingang“"),
    ("WRITE TO A@B.ORG", f"Write to {A}"),
    ("KİTAP EVİ", f"{A} {B}"),  # in lower case it is longer
    ("HTML", "HTML"),
    ("THE CPU or NO", "THE CPU or NO"),
    ("2 + 2", "2 + 2"),
    ("UNESCO", "UNESCO"),
    ("THE USB AND HTML TEST", "The USB and HTML test"),
    ("WE'LL OPEN IN APRIL, NOT IN MAY", "We'll open in April, not in may"),
    ("WHO IS THE BOY", "Who is the boy"),
    ("LED TV", "LED TV"),
    ("COUNT, COUNTIF, AVERAGE", "COUNT, COUNTIF, AVERAGE"),
    ("FUßGÄNGER, ÖFFNEN!", "Fußgänger, öffnen!"),
    ("1ª PLANTA, 5 M²", f"1ª planta, {A}"),
    ("ANNIKA IS HERE NOW, PLEASE COME.", "Annika is here now, please come."),  # the name has no symbol
    ("fr-en: LE 3 MAI 2020, LUNDI", f"Le 3 mai {A}, lundi"),
    ("tr-en: KAPI AÇIK KALSIN", "KAPI AÇIK KALSIN"),
    ("en-tr: THE DOOR STAYS OPEN", "THE DOOR STAYS OPEN"),
    ("ΚΑΛΗΜΕΡΑ ΚΟΣΜΟΣ", "Καλημερα κοσμος"),
    ("我们喜欢HTML网页文件", "我们喜欢HTML网页文件"),
])  # fmt: skip
def test_text_in_capitals_is_read_without_them(text, read):
    languages, _, text = text.rpartition(": ")
    found = replace_spans(text, SYMBOLS, *(languages or "en-de").split("-"))
    assert found.text == read
    assert found.capitals == (text != read or text == "UNESCO")


def test_the_translation_of_text_in_capitals_has_capitals_except_in_spans():
    text = "BIG STREET: WRITE A@b.org"
    assert not in_capitals(text)
    read = replace_spans(text, SYMBOLS, "en", "de")._replace(capitals=True)
    assert read.restore(f"Große Straße: {A}", "de") == "GROSSE STRASSE: A@b.org"


def test_without_copy_symbols_text_in_capitals_is_read_as_it_is():
    assert replace_spans("PLEASE DO NOT SMOKE", (), "en", "de") == ("PLEASE DO NOT SMOKE", {}, False)


def test_numbers_have_symbols_before_names():
    text = "We saw Rye, Ely, Ayr and Ryde for $1,000 on 1/2/2024"
    replaced = replace_spans(text, SYMBOLS, "en", "de", lambda _: True)
    assert replaced.text == f"We saw {A}, Ely, Ayr and Ryde for {B} on {C}"


SPOKEN = {
    "en": ["a quarter past five", "half past nine", "a quarter to eleven", "a quarter to twelve"],
    "de": ["Viertel nach fünf", "halb zehn", "Viertel vor elf", "Viertel vor zwölf"],
    "fr": ["cinq heures et quart", "neuf heures et demie", "onze heures moins le quart", ""],
    "es": ["cinco y cuarto", "nueve y media", "once menos cuarto", "doce menos cuarto"],
}
BEFORE = {"en": "at ", "de": "um ", "fr": "à ", "es": "a las "}


@pytest.mark.parametrize(("source", "target"), list(permutations(SPOKEN, 2)))
def test_times_in_words_are_spelled_in_the_target_language(source: str, target: str):
    for words, other in zip(SPOKEN[source], SPOKEN[target], strict=True):
        if words and other:
            read = replace_spans(f"x {BEFORE[source]}{words}.", SYMBOLS, source, target)
            assert read.text == f"x {BEFORE[source]}{A}."
            assert read.restore(f"x {BEFORE[target]}{A}.", target) == f"x {BEFORE[target]}{other}."


@pytest.mark.parametrize(("languages", "text", "translation", "expected"), [
    # A symbol that stands for nothing is dropped.
    ("en-de", "It is 1900", f"Es ist {B} spät {A}", "Es ist  spät 1900"),
    # The dot after a date is written only at the end.
    ("en-de", "It is 12/31/2024", f"Am {A}. um 9 Uhr", "Am 31.12.2024 um 9 Uhr"),
    ("en-de", "It is 12/31/2024", f"„Am {A}.“ Am {A}. Danach", "„Am 31.12.2024.“ Am 31.12.2024. Danach"),
    # A time in words begins with a capital only at the start of a sentence.
    ("en-de", "Half past nine is late.", f"{A} ist spät.", "Halb zehn ist spät."),
    ("en-de", "Half past nine is late.", f"Um {A} Uhr ist es spät.", "Um halb zehn ist es spät."),
    ("es-en", "A las nueve y media", f"{A}, we leave", "Half past nine, we leave"),
    # The full stop after a time in words is kept.
    *(("de-en", "Wir gehen um Viertel nach fünf.", f"We leave at {A}{end}", "We leave at a quarter past five.")
      for end in ("", " ", ".")),
    ("de-en", "Wir gehen um Viertel nach fünf.", f"At {A} we leave", "At a quarter past five we leave"),
    ("de-en", "Wir gehen um Viertel nach fünf", f"We leave at {A}", "We leave at a quarter past five"),
    # Determiners and quotation marks precede times in words.
    ("es-en", "el tren de las nueve y cuarto", f"the {A} train", "the quarter past nine train"),
    ("de-en", "„Halb neun?“, fragte er.", f'"{A}?" he asked.', '"Half past eight?" he asked.'),
    # The word "Uhr" is kept after other spans.
    ("en-de", "Open at %s o'clock.", f"Um {A} Uhr geöffnet.", "Um %s Uhr geöffnet."),
    ("en-de", "a Rolex watch", f"eine {A} Uhr", "eine Rolex Uhr"),
    ("en-fr", "from 9 am to 5:30 pm", f"de {A} h à {B} h", "de 9 h à 17 h 30"),
    ("en-fr", "from the 1950s", f"du {A}", "des années 1950"), ("en-es", "in the 1950s", f"En {A}", "En los años 1950"),
    ("es-en", "el siglo XV y en los años 60", f"The century {A} and the years {B}", "The 15th century and the 60s"),
    ("es-en", "Es del siglo XIX.", f"It is {A}.", "It is 19th century."),
    ("es-de", "Es del siglo XIX.", f"Die Uhr des {A}. geht.", "Die Uhr des 19. Jahrhunderts geht."),
    ("en-de", "3,000 in the 19th century", f"Im {B} Jahrhundert {A} Leute", "Im 19. Jahrhundert 3.000 Leute"),
    ("es-de", "Es del siglo XIX.", f"Es ist im Jahrhundert. {A}.", "Es ist im 19. Jahrhundert."),
    ("es-fr", "Es del siglo XIX.", f"C'est du siècle {A}.", "C'est du 19e siècle."),
    ("fr-en", "C'est notre 5e enfant.", f"This is our child {A}.", "This is our 5th child."),
    ("fr-en", "Il a fini sa course 3e.", f"He finished his race {A}.", "He finished his race 3rd."),
    # Text in capitals has a translation in capitals, but its placeholders stay.
    ("en-de", "HALF PAST NINE IS TOO LATE", f"{A} ist zu spät", "HALB ZEHN IST ZU SPÄT"),
    ("en-de", "ROOM NO. 5 OPENS AT 9 A.M. FOR %S", f"Raum {A} öffnet um {B} für {C}",
     "RAUM NR. 5 ÖFFNET UM 9 UHR FÜR %S"),
])  # fmt: skip
def test_spans_are_restored_as_the_translation_requires(languages: str, text: str, translation: str, expected: str):
    read = replace_spans(text, SYMBOLS, *languages.split("-"))
    assert read.capitals == text.isupper()
    assert read.restore(translation, languages[3:]) == expected


@pytest.mark.parametrize(("translation", "expected"), [
    (f"La voiture de {A}", "La voiture d'Annika"),
    (f"D'{B} et qu'{B}", "De Kowalczyk et que Kowalczyk"),
    (f"Que {A} le sache, d'{A}", "Qu'Annika le sache, d'Annika"),
    (f"d'{C}", "d'1500"), (f"Le film De Anna de {A}, D'Souza", "Le film De Anna d'Annika, D'Souza"),
])  # fmt: skip
def test_french_words_before_names_are_elided_if_needed(translation: str, expected: str):
    read = replace_spans("Annika, Kowalczyk, 1500", SYMBOLS, "en", "fr")
    assert read.restore(translation, "fr") == expected


@pytest.mark.parametrize(("text", "source", "target"), [
    ("Cela dure deux heures et demie.", "fr", "en"),  # durations
    ("Nous habitons à une heure et demie de Paris.", "fr", "de"),
    ("Après deux heures et demie d'attente", "fr", "de"),
    ("five and a half", "en", "es"),
    ("The share rose from a quarter to one third", "en", "de"),
    ("from a quarter to ten percent", "en", "de"),
    ("He gave a quarter to five people", "en", "de"),
    ("The fund lost a quarter to three billion", "en", "de"),
    ("a quarter to ten dollars", "en", "de"),
    ("Es ist fünf vor halb neun.", "de", "en"),
    ("um zehn Minuten nach halb neun", "de", "en"),
    ("Wie sah das Viertel vor zehn Jahren aus?", "de", "en"),
    ("halb drei- und vierjährig", "de", "en"),
    ("de deux à trois heures et demie par jour", "fr", "en"),
    ("La durée est deux heures et demie", "fr", "en"),
    ("Paris est à deux heures et demie en train", "fr", "en"),
    ("Llegó a las dos y media hora después se fue", "es", "en"),
    ("at half past one", "en", "es"),  # "a la una y media" has another article
    ("at half past nine", "en", "it"),
    ("half past ninety", "en", "de"),
    ("half past fıve", "en", "de"),
])  # fmt: skip
def test_other_words_for_numbers_are_translated(text: str, source: str, target: str):
    assert replace_spans(text, SYMBOLS, source, target).text == text


def test_a_pair_has_the_same_symbol_for_the_spans_that_both_sides_have():
    source, target = "We sold 1,500 cars in 1999 for 20 euros.", "1999 verkauften wir 1.500 Autos für zwanzig Euro."
    texts = [each.text for each in replace_in_pair(source, target, SYMBOLS, ("en", "de"), first=2)]
    assert texts == [f"We sold {C} cars in {A} for 20 euros.", f"{A} verkauften wir {C} Autos für zwanzig Euro."]
    assert [each.text for each in replace_in_pair(source, target, (), ("en", "de"))] == [source, target]


def test_rare_names_of_the_source_have_the_symbols_of_the_same_words_in_the_target():
    source, target = "We saw Whitbury, and Szczecin on x.org/Rye.", "Whitbury und Whitburys Ort auf x.org/Rye, Rye."
    texts = [each.text for each in replace_in_pair(source, target, SYMBOLS, ("en", "de"), lambda word: "y" in word)]
    assert texts == [f"We saw {A}, and Szczecin on {B}.", f"{A} und Whitburys Ort auf {B}, Rye."]
    texts = [each.text for each in replace_in_pair("Ich sah Whitbury.", "I saw Whitbury.", SYMBOLS, ("de", "en"))]
    assert texts == ["Ich sah Whitbury.", "I saw Whitbury."]
    assert replace_spans(source, SYMBOLS, "en", "de", lambda _: True).text == f"We saw {A}, and {B} on {C}."


def test_amounts_in_other_units_are_not_the_same():
    texts = [each.text for each in replace_in_pair("It is 50 miles.", "Es sind 50 km.", SYMBOLS, ("en", "de"))]
    assert texts == ["It is 50 miles.", "Es sind 50 km."]


PARTS = st.sampled_from(["we", "5", "1,000.5", "http://a.org/b", " ", ". ", "{x}", "14:30", "A4", A, "é"])


@given(st.lists(PARTS, max_size=8).map("".join))
def test_positions_lead_back_to_the_original_characters(text):
    replaced = replace_spans(text, SYMBOLS, "en", "de")
    spans = {text[span.start : span.end] for span in replaced.spans.values()}
    positions = replaced.original_positions()
    assert positions[-1] == len(text)
    for character, (start, end) in zip(replaced.text, pairwise(positions), strict=True):
        original = text[start:end]
        assert original == character or (character in SYMBOLS and original in spans)
