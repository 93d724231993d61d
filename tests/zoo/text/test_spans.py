"""Spans of a text that a translation must keep, and whether it has kept them."""

from __future__ import annotations

import re
from itertools import permutations, product
from random import Random

import pytest

from tests.paths import ROOT
from zoo.text import spans
from zoo.text.notation import listed_names, notation_of
from zoo.text.span_kinds import LiteralSpan
from zoo.text.span_patterns import patterns_of
from zoo.text.spans import compare, find_names, find_spans, needs_translation


@pytest.mark.parametrize("text", [
    "he/she and/or I", "so on... yes.", "a-b_c, d:e; f(g)", "100", "what?!", "„So“ – a", "Mr.Smith", "R&D @ #", "5y",
])  # fmt: skip
def test_other_text_is_not_recognised(text):
    assert not any(isinstance(span, LiteralSpan) for span in find_spans(text, "en"))
    assert len(find_spans(text, "en")) == any(map(str.isdigit, text))


@pytest.mark.parametrize(("language", "text", "spans"), [
    ("en", "It costs $12.50 $8 or 10,000 €.", ["$12.50", "$8", "10,000 €"]),
    ("en", "50% of 3 kg at -5 °C, 20 miles", ["50%", "3 kg", "-5 °C", "20 miles"]),
    ("en", "the 3rd of May in the 1990s, 1-24 hours", ["3rd", "1990s", "1-24"]),
    ("en", "on 3/4/2024, 2024-04-03 or 03.04.24.", ["3/4/2024", "2024-04-03", "03.04.24"]),
    ("en", "at 9:15 p.m., 9 o'clock and 21:15", ["9:15 p.m.", "9 o'clock", "21:15"]),
    ("en", "call 555-1234 or +49 30 1234567", ["555-1234", "+49 30 1234567"]),
    ("en", "192.168.100.200 with v1.2 or 3.11.2", ["192.168.100.200", "v1.2", "3.11.2"]),
    ("en", "see https://example.org/a?b=1&c=2, or www.a.org.", ["https://example.org/a?b=1&c=2", "www.a.org"]),
    ("en", "ask b.ob_1@mail.example.org.", ["b.ob_1@mail.example.org"]),
    ("en", "open /home/a/b.txt, C:\\a\\b.doc or src/a-b.py.", ["/home/a/b.txt", "C:\\a\\b.doc", "src/a-b.py"]),
    ("en", "%s, %d, %1$s, %(name)s or cat.jpg", ["%s", "%d", "%1$s", "%(name)s", "cat.jpg"]),
    ("en", "{0}, {name}, {{ name }}, ${x}", ["{0}", "{name}", "{{ name }}", "${x}"]),
    ("en", "😊👍🏽 or 👨‍👩‍👧, 🇩🇪 and 1️⃣", ["😊👍🏽", "👨‍👩‍👧", "🇩🇪", "1️⃣"]),
    ("en", "next → or ↩︎", ["→", "↩︎"]),
    ("en", "#Berlin with @anna_b, #12345 and #1", ["#Berlin", "@anna_b", "#12345", "1"]),
    ("en", "use ls -l or - x-y", ["-l"]),
    ("en", "on A4 with H2O", ["A4", "H2O"]),
    ("en", "COVID-19 in 3D at 221B, X7-99B, an 5-year-old", ["COVID-19", "3D", "221B", "X7-99B", "5"]),
    ("en", "24/7, 1/2 cup, 2–4 kg, 3:2, ½, 14½", ["24/7", "1/2", "2–4 kg", "3:2", "½", "14½"]),
    ("es", "en la Calle Mayor, 15, 3.º B, 28013 Madrid", ["Calle Mayor, 15, 3.º B, 28013 Madrid"]),
    ("de", "Schillerstr. 7, 10115 Ulm, Domstraße 5 km; 1, rue Xy", ["Schillerstr. 7, 10115 Ulm", "5 km", "1, rue Xy"]),
    ("de", "an der Landstraße 20 Bäume, Milchstraße 100, Domstraße 7 Autos", ["20", "100", "7"]),
    ("es", "en la calle Mayor 12 perros, 2 en la calle Real 5.", ["12", "2", "calle Real 5"]),
    ("en", "from 9-17 o'clock, 10-9-8", ["9", "17 o'clock", "10", "9", "8"]),
    ("en", "see example.com/a or a.b-c.org.", ["example.com/a", "a.b-c.org"]),
    ("en", "the max_value, 2x, W1D 2LG, Louis XIV, 75 sq m", ["max_value", "2x", "W1D 2LG", "XIV", "75 sq m"]),
    ("en", "Name: ____ [ ] yes [x] no, a__ x____ [y]", ["____", "[ ]", "[x]"]),
    ("en", "to IBAN DE89 3704, BIC COBADEFFXXX.", ["DE89", "3704", "COBADEFFXXX"]),
    ("en", "€1.2 billion for 20 m², 16 GB and 5 m/s", ["€1.2 billion", "20 m²", "16 GB", "5 m/s"]),
    ("fr", "1 234,56 € ou 12 % à 14 h 30, 3e et 1er", ["1 234,56 €", "12 %", "14 h 30", "3e", "1er"]),
    ("fr", "de 8 heures du matin à 21 heures, 3 heures par jour", ["8 heures du matin", "21 heures", "3"]),
    ("fr", "2 l'eau, 3 livres, au moins 5, moins 5 degrés", ["2", "3", "5", "moins 5 degrés"]),
    ("fr", "1,2 milliard d'euros pour 3 millions de gens, 01 23 45 67 89",
     ["1,2 milliard d'euros", "3", "01 23 45 67 89"]),
    ("es", "$1,250.00 o 1.234,5 km, al menos 5 %, 3.ª y 2º", ["$1,250.00", "1.234,5 km", "5 %", "3.ª", "2º"]),
    ("es", "a las 9 de la noche o a las 7.30, 21:15 h", ["9 de la noche", "7.30", "21:15 h"]),
    ("es", "5 millones de dólares, 3 ºC, 912 345 678", ["5 millones de dólares", "3 ºC", "912 345 678"]),
    ("de", "um 8 Uhr 15, 9 Uhr abends, 3 Millionen Euro", ["8 Uhr 15", "9 Uhr abends", "3 Millionen Euro"]),
    ("de", "Groß-/Kleinschreibung der 1990er", ["1990er"]),
])  # fmt: skip
def test_spans_of_each_language_are_recognised(language, text, spans):
    found = find_spans(text, language)
    assert [span.text for span in found] == [text[span.start : span.end] for span in found] == spans


LANGUAGES = ("en", "de", "fr", "es")


def test_words_in_other_scripts_are_kept_between_languages_in_latin_script():
    text = "My name is 王小明, I live in Москва and “שלום, עולם” means hello in 5 μm, β-test or aβ."
    assert [span.text for span in find_spans(text, "en", "de")] == ["王小明", "Москва", "שלום, עולם", "5", "μm", "β"]
    assert [span.text for span in find_spans(text, "en", "ru")] == ["5", "μm"]
    assert [span.text for span in find_spans("Москва", "ru", "en")] == []
    assert needs_translation("Москва")
    assert find_spans("Москва, мир", "en", "de") == []
    assert [span.text for span in compare("Hi Москва", "Hallo Moskva", "en", "de").missing] == ["Москва"]
    assert compare("Hi Москва", "Hallo Москва", "en", "de") == ([], [], [])


def test_names_with_letters_of_other_languages_are_kept():
    names = ["Yılmaz", "Łukasz", "Øystein", "Nguyễn", "São", "ŠKODA", "ålesund"]
    assert [span.text for span in find_spans(f"We met {', '.join(names)}.", "en", "de")] == names
    own = "Señor Nuñez, Frau Groß, œuvre, Àéçôÿ, ẞ, ſ, Island, Kiosk"
    assert find_spans(own, "es", "de") == find_spans("Yılmaz", "tr", "de") == find_spans("Yılmaz", "de", "tr") == []
    assert compare("It is −5 °C.", "Es ist -5 °C.", "en", "de") == ([], [], [])
    assert [span.text for span in compare("Ask Łukasz", "Frag Lukas", "en", "de").missing] == ["Łukasz"]


@pytest.mark.parametrize(("language", "text", "names"), [
    ("en", "Dear Mr. Brown, call Ms Ann Lee Monday. Mr Drake", ["Brown", "Ann", "Lee", "Drake"]),
    ("en", "Mr President, Mrs and Doctor Brown, Dr. Smith@example.com, Mr Smith.com, Miss Christmas", []),
    ("de", "Sehr geehrter Herr Schneider, Frau Müller Bescheid", ["Schneider", "Müller"]),
    ("de", "weil meine Frau Geld hat, Frau. Auf, Frau Müllers Auto, Herr Präsident, Frau Außenministerin", []),
    ("fr", "M. Le Goff et Mme Petit, Monsieur le Maire", ["Le", "Goff", "Petit"]),
    ("es", "La señora Blanco y el Sr. Presidente", ["Blanco"]),
    ("it", "Dr Rossi", []),
    # Listed names are found anywhere.
    ("de", "Annika fährt mit Okonkwo nach Galway.", ["Annika", "Okonkwo", "Galway"]),
    ("en", "Annika's flat is in galway", ["Annika"]),
    ("it", "Annika", []),
])  # fmt: skip
def test_listed_names_and_names_after_titles_are_found(language, text, names):
    assert [span.text for span in find_names(text, language, "en" if language != "en" else "de")] == names
    assert find_names(text, language, "ru") == []


@pytest.mark.parametrize(("language", "text", "names"), [
    ("en", "Whitbury is near Scarbrook, Krzysztof-Maria and Munich.", ["Scarbrook", "Krzysztof-Maria"]),
    ("en", "Mr Ballymenna saw Okonkwe.jpg, NATO and i.Ferrettini in Szczecin's port", ["Ballymenna", "Szczecin"]),
    ("fr", "Nous allons à Szczecin. Whitbury (Ferrettini) : Okonkwe « Reyez » et Londres", ["Szczecin"]),
    ("es", "Fue a Thorvaldsen, Utrecht; no a Ginebra.", ["Thorvaldsen", "Utrecht"]),
    ("en", "Szczecin is not near Szczecin, or near Stratford-upon-Avon or Nuremberg-Okonkwe", ["Szczecin"] * 2),
    ("en", "Terms And Conditions Of Carriage", []),
    ("de", "Wir fahren nach Szczecin.", []),
    ("it", "Andiamo a Szczecin.", []),
])  # fmt: skip
def test_rare_capitalised_words_within_a_sentence_are_names(language, text, names):
    found = find_names(text, language, "es" if language == "fr" else "fr", lambda _: True)
    assert [span.text for span in found] == names
    assert find_names(text, language, "ru", lambda _: True) == []


def test_listed_names_are_written_in_the_same_way_in_all_languages():
    """Sentences in four languages contain a listed name on all sides, and never as a word in lower case."""
    found, names, word, lower = set(), listed_names(), patterns_of("de").word, set()
    for table in sorted((ROOT / "tests/benchmarks/everyday_tables/sentences").glob("*.tsv")):
        for row in table.read_text("utf-8").splitlines():
            sides = row.split("\t")
            lower.update(re.findall(r"[^\W\d_]+", row))
            for name in names.intersection(name for side in sides for name in word.findall(side)):
                assert all(name in side for side in sides), row
                found.add(name)
    assert len(found) > 100
    assert not lower & {name.lower() for name in names}
    assert not any(names & notation_of(code).not_names for code in LANGUAGES)


@pytest.mark.parametrize("symbol", [
    "≥", "©", "±", "₺", "kΩ", "µm", "x²", "CO₂", "C₆H₁₂O₆", "™", "§", "12b", "%%a_b%%", "<<A_B>>", "__A__", "*|A:B|*",
    "mailto:a@b.org",
])  # fmt: skip
def test_symbols_that_vocabularies_lack_are_kept(symbol):
    assert [span.text for span in find_spans(f"Set it to {symbol}, please.", "en", "de")] == [symbol]


def check_spelling(source, target, text, spelling):
    (span,) = find_spans(text, source, target)
    assert (span.text, span.spellings[0]) == (text, spelling)
    assert compare(text, spelling, source, target)[:2] == ([], [])


@pytest.mark.parametrize("spellings", [
    ("$1,234.50", "1.234,50 $", "1\u202f234,50 $", "1.234,50 $"),
    ("12.5%", "12,5 %", "12,5 %", "12,5 %"),
    ("5 percent", "5 Prozent", "5 pour cent", "5 por ciento"),
    ("0.5 miles", "0,5 Meilen", "0,5 mile", "0,5 millas"),
    ("1 kilometer", "1 Kilometer", "1 kilomètre", "1 kilómetro"),
    ("1.2 billion euros", "1,2 Milliarden Euro", "1,2 milliard d'euros", "1,2 mil millones de euros"),
    ("-5 degrees", "-5 Grad", "-5 degrés", "-5 grados"),
    ("20 m²", "20 m²", "20 m²", "20 m²"),
    ("2024-05-03", "2024-05-03", "2024-05-03", "2024-05-03"),
    ("14:30", "14:30", "14:30", "14:30"),
    ("no. 580731", "Nr. 580731", "n° 580731", "n.º 580731"),
])  # fmt: skip
def test_spans_are_spelled_in_all_directions(spellings):
    for (source, text), (target, spelling) in permutations(zip(LANGUAGES, spellings, strict=True), 2):
        check_spelling(source, target, text, spelling)


@pytest.mark.parametrize("numbers", [
    ("01 44 71 88 26", "01.44.71.88.26", "01-44-71-88-26", "01/44/71/88/26", "0144718826"),
    ("01\u00a044\u202f71 88 26",),
    ("030 4471 8826", "030.4471.8826", "030-4471-8826", "030/4471 8826", "030 / 44 71 88-26", "(030) 4471 8826"),
    ("+33 1 44 71 88 26", "+33.1.44.71.88.26", "+33-1-44-71-88-26", "+33144718826"),
    ("+49 (0)30 4471 8826", "+49 (0) 30 / 4471-8826"), ("+49 30 4471 8826", "+49.30.4471.8826"), ("914 47 18 82",),
    ("91 447 18 82",),
])  # fmt: skip
def test_phone_numbers_are_the_same_in_all_languages(numbers):
    for source, target in permutations(LANGUAGES, 2):
        for number, spelling in product(numbers, numbers):
            assert [span.text for span in find_spans(f"{number}.", source, target)] == [number]
            assert compare(number, f"({spelling})", source, target)[:2] == ([], [])
        changed = f"{numbers[0][:-1]}7"
        assert [span.text for span in compare(numbers[0], changed, source, target).missing] == [numbers[0]]


@pytest.mark.parametrize("text", [
    "01.02.2024", "08.30|09.15", "12|10.500", "+1 000 000", "030|12.345,5", "600 000 000 €", "2021|2022", "+12.000 €",
])  # fmt: skip
def test_other_numbers_are_not_phone_numbers(text):
    found = find_spans(text.replace("|", " - "), "de")
    assert [span.text for span in found] == text.lstrip("+").split("|")


@pytest.mark.parametrize(("source", "target", "text", "spelling"), [
    ("en", "fr", "€1.2 billion", "1,2 milliard d'euros"), ("en", "es", "$1 million", "1 millón de dólares"),
    ("en", "fr", "100-meter", "100 mètres"), ("de", "en", "100-Meter", "100-meter"), ("en", "fr", "-$5", "-5 $"),
    ("fr", "en", "-5 €", "-€5"), ("es", "en", "3,5", "3.5"), ("es", "de", "2,000 yenes", "2.000 Yen"),
    ("fr", "en", "22e", "22nd"), ("fr", "en", "11e", "11th"), ("es", "fr", "1.º", "1er"), ("es", "en", "3.er", "3rd"),
    ("en", "es", "3rd", "3.º"), ("de", "en", "1990er", "1990s"), ("en", "fr", "1990s", "années 1990"),
    ("de", "en", "1990er Jahren", "1990s"), ("de", "fr", "950,- €/Monat", "950 €/mois"), ("en", "de", "12s", "12"),
    ("en", "fr", "9:15 p.m.", "21 h 15"), ("en", "es", "9:15 p.m.", "21:15"), ("fr", "en", "14 h 30", "2:30 p.m."),
    ("fr", "en", "2 h 30", "2:30"), ("es", "fr", "9 de la noche", "21 h"), ("fr", "de", "8 heures du soir", "20 Uhr"),
    ("de", "en", "9 Uhr abends", "9 p.m."), ("de", "es", "9 Uhr 30", "9:30"), ("de", "fr", "1.12.2024", "1/12/2024"),
    ("es", "de", "05/06/2024", "05.06.2024"), ("en", "de", "31/12/2024", "31.12.2024"), ("en", "de", "90s", "90er"),
    ("en", "fr", "12/31/2024", "31/12/2024"), ("en", "de", "EUR 500", "500 €"), ("de", "en", "USD 500", "$500"),
    ("de", "fr", "1,5 Mio. €", "1,5 million d'euros"), ("en", "de", "$2.3bn", "2,3 Milliarden $"),
    ("fr", "de", "1,5 M€", "1,5 Millionen €"), ("en", "de", "5 m", "5 m"), ("en", "de", "1990s", "1990er"),
    ("en", "de", "1," + "000" * 2000, "1," + "000" * 2000), ("en", "de", "3rd", "3."), ("en", "de", "{0}", "{0}"),
    ("en", "de", "3/4/2024", "3/4/2024"), ("en", "de", "007", "007"), ("en", "de", "9:15 p.m.", "21:15 Uhr"),
])  # fmt: skip
def test_spans_are_spelled_in_another_language(source, target, text, spelling):
    check_spelling(source, target, text, spelling)


@pytest.mark.parametrize(("source", "target", "text"), [
    ("en", "de", "05/06/2024"), ("en", "de", "31/31/2024"), ("en", "de", "0/31/2024"), ("fr", "de", "45/12/2023"),
    ("fr", "de", "12/31/2024"), ("fr", "de", "20/12/1500"), ("de", "en", "31.12.2024"), ("de", "fr", "2024-12-31"),
    ("de", "fr", "Version 16.0.4266"), ("de", "fr", "Kapitel 2.10.2024"), ("en", "de", "12/31/24"),
    ("en", "de", "blog/31/12/2024"), ("de", "fr", "10./11.05.2024"), ("de", "fr", "Nr. A 12.10.1000.2"),
    ("de", "fr", "1.2 Einleitung"), ("en", "de", "1,25"), ("de", "fr", "Siehe Punkt 3.2."), ("de", "fr", "PHP 8.1.27"),
    ("en", "fr", "5/15/30 GB"), ("en", "de", "version 3.2"), ("en", "de", "5-10"),
])  # fmt: skip
def test_what_may_not_be_a_date_stays(source, target, text):
    assert find_spans(text, source, target)[-1].spellings[0] in text


@pytest.mark.parametrize(("source", "target", "text", "spellings"), [
    ("en", "de", "31/12/2024-15/01/2025", ["31.12.2024", "15.01.2025"]),
    ("de", "fr", "vom 24.12. bis 31.12.2024", ["24/12", "31/12/2024"]), ("de", "fr", "$2.5 billion", ["$2.5 billion"]),
    ("de", "es", "am 01.05.–03.05.", ["01/05", "03/05."]), ("fr", "de", "€2.8, 2.8, €2.8bn", ["2,8 €", "2.8", "€2.8"]),
    ("en", "de", "It is USD 500 or CHF 20.50", ["500 $", "CHF", "20,50"]),
    ("en", "fr", "from 05/06/2024 to 12/31/2024", ["06/05/2024", "31/12/2024"]),
    ("en", "de", "from 12/31/2024 to 31/12/2024", ["12/31/2024", "31/12/2024"]),
    ("en", "de", "We meet at 9 AM. Bye", ["9 Uhr"]), ("fr", "de", "5.0 to 6.4 km", ["5.0 to", "6,4 km"]),
    ("en", "de", "9-5 pm, 2:30 and 4 p.m. day 1 - 9 am", ["9 Uhr", "17 Uhr", "14:30 Uhr", "16 Uhr", "1", "9 Uhr"]),
    ("en", "de", "Parts 1 and 2 p.m. between 3 and 4 p.m.", ["1", "14 Uhr", "15 Uhr", "16 Uhr"]),
    ("en", "de", "room 3.14, room $8.50", ["3.14", "8,50 $"]), ("es", "en", "en los años 80", ["80s"]),
    ("de", "en", "Raum 3 bis 17 Uhr, von 9 bis 17 Uhr", ["3", "5 p.m.", "9 a.m.", "5 p.m."]),
    ("en", "fr", "on the 14th at 9, in the 14th year", ["14", "9", "14e"]), ("fr", "en", "Ve siècle", ["5th"]),
    ("fr", "es", "XIIe siècle, les années 80", ["XII", "80"]), ("de", "en", "der 2. Stock, am 3. unter", ["2nd", "3"]),
    ("es", "en", "Elija Herramientas ▸ Opciones.", []),  # triangles between the names of menus are no spans
    ("de", "en", "Es sind 12. Unter. Wir wurden 15. Kind", ["12", "15"]), ("en", "fr", "5th and 6th.", ["5e", "6e"]),
])  # fmt: skip
def test_spans_stand_beside_each_other(source, target, text, spellings):
    spans = find_spans(text, source, target)
    assert [span.spellings[0] for span in spans] == spellings
    assert all(text[span.start : span.end] == span.text for span in spans)
    assert all(text[end : end + 2] != ". " for end in (span.end - 1 for span in spans if "AM" in span.text))


@pytest.mark.parametrize(("language", "text", "day", "month"), [
    ("en", "May 1st, 2024", "1st", "May"), ("de", "1. Mai 2024", "1", "Mai"), ("fr", "1er mai 2024", "1er", "mai"),
    ("es", "1 de mayo de 2024", "1", "mayo"),
])  # fmt: skip
def test_dates_are_spelled_in_all_directions(language, text, day, month):
    for target, spelled in (("en", "1"), ("de", "1"), ("fr", "1er"), ("es", "1")):
        if target != language:
            spans = {span.text: span.spellings[0] for span in find_spans(text, language, target)}
            assert set(spans) == {day, month, "2024"}
            assert spans[day].rstrip(".st") == spelled
            assert spans[month] == {"en": "May", "de": "Mai", "fr": "mai", "es": "mayo"}[target]


@pytest.mark.parametrize(("languages", "source", "target"), [
    ("en-fr", "at 9 p.m. with 3 dogs", "à 21 heures avec trois chiens"),
    ("en-fr", "12 pounds and 3 books", "12 livres et 3 livres"), ("fr-es", "au XIXe siècle", "en el siglo XIX"),
    ("en-es", "the 19th century", "el siglo XIX"), ("en-fr", "the 19th century", "le XIXe siècle"),
    ("en-es", "at 2:30", "a las dos y media"), ("de-fr", "um 10:00", "à dix heures"),
    ("fr-en", "à 8 h 30", "at half past eight"), ("es-en", "son las tres y diez", "it's 3:10"),
    ("es-en", "2,000 estudiantes", "2,000 students"), ("fr-de", "pages 5-10", "Seiten 5 bis 10"),
    ("fr-es", "2 h 30 et 1 000 m", "14:30 y 1,000 m"), ("es-de", "dieciocho años", "18 Jahre"),
    ("en-de", "at half past nine", "um neun Uhr dreißig"), ("de-en", "um Viertel nach fünf", "at five fifteen"),
    ("en-es", "at a quarter to two", "a las 13:45"), ("fr-de", "à six heures et demie", "um 18.30 Uhr"),
    ("fr-cs", "j'ai 3 chiens", "mám tři psy"), ("en-de", "twenty dogs", "20 Hunde"),
    ("es-fr", "tengo veinte perros y 30 gatos", "20 chiens et 30 chats"),
    ("en-de", "in Sheet1", "in Tab1"), ("de-fr", "120 Stundenkilometer", "120 kilomètres à l'heure"),
])  # fmt: skip
def test_translations_of_each_language_agree(languages, source, target):
    first, second = languages.split("-")
    assert compare(source, target, first, second)[:2] == ([], [])


@pytest.mark.parametrize(("source", "target"), [
    ("1,250.00 €", "1.250,00 €"), ("1,250.00 €", "€ 1.250,00"), ("1,250.00 €", "1250 Euro"),
    ("at 9:15 p.m.", "um 21:15 Uhr"), ("at 9:15 a.m.", "um 9.15 Uhr"), ("at 9:15", "um 21:15 Uhr"),
    ("at 9 p.m.", "um 9 Uhr abends"), ("at 9:15 p.m.", "um 9:15 abends"), ("٣ %", "3 %"),
    ("at 9 o'clock", "um neun Uhr"), ("at 9", "um 9 Uhr"), ("3/4/2024", "04.03.2024"), ("3rd of May", "3. Mai"),
    ("March 3rd, 2024", "3. März 2024"), ("8 to 11 May", "8. Mai bis 11. Mai"), ("on Sundays", "sonntags"),
    ("on Friday night", "am Freitagabend"), ("2 Oct", "2. Okt."), ("10 may", "10 mag"), ("May 10%", "Mag 10%"),
    ("the 3rd", "der dritte"), ("the 1990s", "die 1990er"), ("3 dogs", "drei Hunde"), ("three dogs", "3 Hunde"),
    ("10,000", "10.000"), ("50 %", "50%"), ("50 percent", "50 Prozent"), ("3.5 kg", "3,5 Kilogramm"),
    ("1,234,567", "1.234.567"), ("555-1234", "555-1234"), ("it is half past 9", "es ist 9:30 Uhr"),
    ("2 cats and 2 dogs", "2 Katzen und 2 Hunde"), ("pages 5-10", "Seiten 5–10"), ("pages 5-10", "Seiten 5 bis 10"),
    ("1/2 cup", "eine halbe Tasse"), ("€1.2 billion", "1,2 Milliarden Euro"), ("20 m²", "20 Quadratmeter"),
    ("version 3.2", "Version 3.2"), ("{0} files in a.txt", "{0} Dateien in a.txt"), ("😊 hello", "hallo 😊"),
    ("no number", "keine Nummer"),
])  # fmt: skip
def test_translations_agree_up_to_the_notation(source, target):
    for each, other, languages in ((source, target, ("en", "de")), (target, source, ("de", "en"))):
        assert compare(each, other, *languages)[:2] == ([], [])


@pytest.mark.parametrize(("source", "target", "missing", "added"), [
    ("1,250.00 €", "$300", ["1,250.00 €"], ["$300"]),
    ("$5", "5 Euro", ["$5"], []),
    ("10,000", "10,000", ["10,000"], ["10,000"]),
    ("at 9 p.m.", "um 9 Uhr", ["9 p.m."], ["9 Uhr"]),
    ("-5 °C", "5 °C", ["-5 °C"], ["5 °C"]),
    ("call 555-1234", "ruf 555-123", ["555-1234"], ["555-123"]),
    ("a dog and 14 cats", "ein Hund und 14 Katzen, 15 Vögel", [], ["15"]),
    ("2 cats and 2 dogs", "2 Katzen", ["2"], []),
    ("number 580731 for 3 dogs", "Nummer 580731 von 580731 für 3 oder 3 Hunde", [], ["580731"]),
    ("3 dogs", "dreizehn Hunde", ["3"], []),
    ("visit https://a.org/b", "besuche https://a.org/bc", ["https://a.org/b"], []),
    ("hello %s", "hallo %", ["%s"], []),
    ("open 24/7 on pages 5-10", "24 7 auf 510 offen", ["24/7", "5-10"], ["24", "7", "510"]),
    ("20 m²", "20 Meilen", ["20 m²"], []),
    ("on 3/4/2024", "um halb", ["3/4/2024"], []),
    ("at a quarter past five", "um Viertel nach sechs", ["a quarter past five"], []),
    ("at 9:15", "um Viertel vor neun", ["9:15"], []),
    ("on March 3, 2024", "am 3. April 2024", ["March"], []),
    ("from Tuesday to Thursday", "von Dienstag bis Mittwoch", ["Thursday"], []),
    ("on the 3rd of May", "am 3.", ["May"], []),
    ("1 hour", "einfach, Eis", ["1"], []),
    ("COVID-19 in 3D", "COVDD19 in 3", ["COVID-19", "3D"], ["19", "3"]),
    ("{0} 😊", "{1}", ["{0}", "😊"], []),
    ("en-fr: 3 dogs", "treize chiens", ["3"], []),
    ("fr-es: 3 chiens", "4 perros", ["3"], ["4"]),
    ("en-es: $5", "5 euros", ["$5"], []),
    ("fr-en: 14 h 30, -3 h, 9 € h", "at 3:30, 3 a.m., 9", ["14 h 30", "-3", "9 €"], ["3:30", "3 a.m."]),
    ("en-it: The party begins at 9:30.", "Il party comincia alle nove.", ["9:30"], []),
    ("de-en: 20 Hunde", "twenty dogs", ["20"], []),
    ("es-fr: 3 de mayo", "3 juin", ["mayo"], []),
    ("fr-de: 1,5 km", "15 km", ["1,5 km"], ["15 km"]),
])  # fmt: skip
def test_changed_spans_are_found(source, target, missing, added):
    languages, _, source = source.rpartition(": ")
    differences = compare(source, target, *(languages or "en-de").split("-"))
    assert [span.text for span in differences.missing] == missing
    assert [span.text for span in differences.added] == added


def test_weekdays_are_spelled_in_the_target_language():
    spellings = {"en": "Saturdays", "de": "sonnabends", "fr": "samedi", "es": "Sábado"}
    for source, target in permutations(LANGUAGES, 2):
        (span,) = find_spans(spellings[source], source, target)
        assert spellings[target].lower() in map(str.lower, span.spellings)
        assert compare(spellings[source], spellings[target], source, target)[:2] == ([], [])
    assert [span.text for span in compare("le jeudi", "on Friday", "fr", "en").missing] == ["jeudi"]
    assert not find_spans("le jeudi", "fr", "cs")


def test_a_weekday_with_a_capital_after_a_word_may_be_a_name():
    for text, found in {"Santo Domingo": [], "Domingo o Lunes": ["Domingo"], "el domingo": ["domingo"]}.items():
        assert [span.text for span in find_spans(text, "es", "en")] == found


def test_only_words_need_a_translation():
    for text in ("-", "$5", "1,250.00", "😊", "...", "{0}: %s", "https://a.org b@c.org", "٣", ""):
        assert not needs_translation(text), text
    for text in ("a", "5 dogs", "犬", "ok {0}", "1c)"):
        assert needs_translation(text), text


_REPEATED = {
    "en": "a_|a.de/|A-|1-|1/|A-1-|a|1|a.|a/|a-|1.|1,|{|{{a|www.a|@a|a@|(12)-|😊\u200d|http://|%(|a1|v1.|~/a|1 000 |+1 ",
    "fr": "0123 |1 h |1h1|à 1 |1er |1 million d'|12 34 |-€|1\u202f000",
    "es": "las 1.|1 de |1.º |al menos |912 ",
}


@pytest.mark.parametrize(("language", "units"), _REPEATED.items(), ids=_REPEATED)
def test_the_time_is_linear(language, units):
    """A search whose time grew with the square of the length would take minutes."""
    for unit in units.split("|"):
        assert find_spans(unit * (40_000 // len(unit)) + "x", language, "de") is not None


def test_plain_texts_have_the_same_spans_without_the_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(3)
    letters = "abcéñßAÉ .,;:!?-'’\"«»()0/@%#_[]{}ª–\u00adж"
    words = ["Monday", "mardi", "Montagabend", "lunes", "mayo", "BIC", "DEUTDEFF", "-l", "a.py", "x-y", "may", *letters]
    rows = [
        (" "[: n % 2].join(random.choices(words, k=n // 400 + 1)), *random.sample(["en", "de", "fr", "es"], 2))
        for n in range(4000)
    ]
    fast = [find_spans(*row) for row in rows]
    monkeypatch.setattr(spans, "PLAIN", re.compile("(?!)"))
    assert fast == [find_spans(*row) for row in rows]
    assert sum(map(bool, fast)) > 100
