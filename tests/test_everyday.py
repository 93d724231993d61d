"""The included model `everyday` is complete and small, and its data are prepared without test sentences in training."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import specs
import zoo
from tests.benchmarks import everyday_data, everyday_leaks
from tests.benchmarks.everyday_data import (
    is_clean,
    normalized,
    prepare,
    read_tables,
    tidy,
)
from tests.benchmarks.everyday_spans import filled, number, with_other_numbers, with_placeholder
from tests.benchmarks.everyday_variants import invented_name, renamed
from tests.benchmarks.everyday_words import dictionary, far_lines
from tests.conftest import missing
from zoo.text.spans import compare

MAX_BUNDLE_BYTES = 25_000_000
WORDS = "one two three four five six seven eight nine ten".split()  # noqa: SIM905
WORTE = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()  # noqa: SIM905


def pairs(count: int) -> list[tuple[str, str]]:
    numbers = [(number // 100, number // 10 % 10, number % 10) for number in range(count)]
    return [tuple(" ".join(words[digit] for digit in digits) + "." for words in (WORDS, WORTE)) for digits in numbers]


def test_sentences_are_equal_if_they_differ_only_in_case_spaces_and_punctuation() -> None:
    assert normalized("It's 5 o'clock, Tom!") == normalized("its 5 oclock tom")
    assert normalized("Tom can.") != normalized("Tom can't.")


def test_pairs_are_tidied_and_damaged_ones_are_dropped() -> None:
    assert tidy(" “Hi,”  he said", "en") == '"Hi," he said'
    assert tidy("»Hallo«, sagte er. ", "de") == "„Hallo“, sagte er."
    assert tidy('Il dit: "Quoi?"', "fr") == "Il dit : « Quoi ? »"
    assert tidy('¿Dijo "hola"?', "es") == "¿Dijo «hola»?"
    assert tidy('=GAUCHE("a")', "fr") == '=GAUCHE("a")'
    assert is_clean(("It's 1984.", "Wir haben das Jahr 1984."))
    for english, german in (("Hi.", "..."), ("Hi.", "Привет."), ("It's 1984.", "1985."), ("Hi.", "Hallo. " * 9)):
        assert not is_clean((english, german))


def test_names_and_numbers_are_replaced_on_both_sides_or_on_none() -> None:
    generator = random.Random(5)
    for _ in range(50):
        english, german = renamed(("Mary saw Tom's 27 cats.", "Maria sah Toms 27 Katzen."), ("en", "de"), generator)
        woman, man, number = english.split()[0], english.split()[2].removesuffix("'s"), english.split()[3]
        assert german == f"{woman} sah {man}s {number} Katzen."
        assert (len(number), "Mary" in english) == (2, False)
    for kept in (("Tom ran.", "Er rannte."), ("I am 7.", "Ich bin 7."), ("Tom met Tom.", "Tom traf ihn.")):
        assert renamed(kept, ("en", "de"), generator) == kept
    assert all(invented_name(generator).istitle() for _ in range(50))


def test_spans_have_the_notation_of_each_language() -> None:
    generator = random.Random(2)
    template = "On <date>, <amount> <percent> (<number>) <url>", "Am <date>, <amount> <percent> (<number>) <url>"
    for _ in range(50):
        english, german = filled(template, ("en", "de"), generator)
        assert not re.search("[<>]", english + german)
        assert compare(english, german, "en", "de").missing == []
    numbers = [number(1234.5, 2, code) for code in ("en", "de", "fr", "es")]
    assert numbers == ["1,234.50", "1.234,50", "1 234,50", "1.234,50"]
    pair = ("In 1984 I paid 1,500.50 dollars at 2:30.", "En 1984 j'ai payé 1 500,50 dollars à 2:30.")
    english, french = with_other_numbers(pair, ("en", "fr"), generator)
    ((year, whole, cents, time),) = re.findall(r"^In (\d{4}) I paid ([\d,]+)\.(\d\d) dollars at (\d+:\d\d)\.$", english)
    assert french == f"En {year} j'ai payé {whole.replace(',', ' ')},{cents} dollars à {time}."
    assert with_other_numbers(("I paid 2.", "Ich zahlte 3."), ("en", "de"), generator) == ("I paid 2.", "Ich zahlte 3.")
    first, second = with_placeholder(("Tom ran.", "Tom courut."), ("en", "fr"), generator)
    assert first.removesuffix(" ran.") == second.removesuffix(" courut.") != "Tom"


def test_tables_have_a_cell_for_each_language_and_no_sentence_twice() -> None:
    for pattern in ("phrases", "templates", "ordinary-test", "phrases-test", "sentences/*"):
        rows = read_tables(pattern)
        assert {len(row) for row in rows} == {len(everyday_data.LANGUAGES)}
        assert all(cell and cell == cell.strip() for row in rows for cell in row)
        assert len({*map(tuple, rows)}) == len(rows)


def test_a_sentence_is_far_if_no_training_sentence_is_similar() -> None:
    assert far_lines(["He is here!", "Something else."], ["he is here", "who is there?"]) == [2]


def test_the_dictionary_has_words_that_are_always_translated_by_each_other() -> None:
    nouns = (("dog", "Hund"), ("table", "Tisch"), ("tree", "Baum"))
    numbers = list(zip(WORDS, WORTE, strict=True))
    data = [(f"{one} {noun}", f"{eins} {other}") for noun, other in nouns for one, eins in numbers]
    assert {*nouns} <= set(dictionary(data))


@pytest.mark.integration
def test_no_test_sentence_of_four_languages_is_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DEV_PAIRS", "OFFICE_DEV", "FRAMED"):
        monkeypatch.setattr(everyday_data, name, 5)
    monkeypatch.setattr(everyday_data, "FILLED", 1)
    monkeypatch.setattr(everyday_data, "read_tables", lambda pattern: read_tables(pattern)[:40])
    texts = {code: [f"{german} Toms {code}." for _, german in pairs(300)] for code in everyday_data.LANGUAGES}
    texts["en"] = [f"{english} Tom's" for english, _ in pairs(300)]

    def write(domain: str, name: str, lines: list[str]) -> None:
        (tmp_path / domain / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / domain / name).write_text("".join(f"{domain} {line}\n" for line in lines), "utf-8")

    for code in everyday_data.LANGUAGES:
        write("office", f"dev.{code}", texts[code][110:120])
    for domain in ("tatoeba", "office"):
        for start, code in zip((0, 50, 100), everyday_data.LANGUAGES[1:], strict=True):
            for language in ("en", code):
                own = texts[language][start : start + 150] + texts[language][start // 5 + 270 : start // 5 + 280]
                write(domain, f"en-{code}/train.{language}", own)
                write(domain, f"en-{code}/dev.{language}", own[20:30])
    (tmp_path / "tatoeba" / "en-de" / "removed.txt").write_text("1\n", "utf-8")
    out = tmp_path / "out"
    prepare(tmp_path / "tatoeba", tmp_path / "office", out)
    corpus = specs.load("everyday").corpus
    assert len({corpus.direction(part) for part in corpus.train}) == 12
    assert all((out / name).stat().st_size for part in corpus.parts for name in (part.source, part.target))
    assert f"tatoeba {texts['en'][0]}" not in (out / "tatoeba.en-de.en").read_text("utf-8").split("\n")
    assert (out / "far.office-test.en.txt").exists()
    capsys.readouterr()
    tests = [str(tmp_path / "office" / f"dev.{code}") for code in everyday_data.LANGUAGES]
    monkeypatch.setattr("sys.argv", ["everyday_leaks", "everyday", str(out), *tests])
    everyday_leaks.main()
    table = capsys.readouterr().out.splitlines()
    assert len(table) > 20
    assert all(line.endswith("| 0 | 0 | 0") for line in table[3:])


INCLUDED = Path(zoo.__file__).parent / "included"


@pytest.mark.integration
def test_the_included_model_is_small_licensed_and_translates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.models.registries.registry.INCLUDED", INCLUDED)
    assert zoo.names() == ["everyday"]
    assert sum(file.stat().st_size for file in INCLUDED.rglob("*") if file.is_file()) < MAX_BUNDLE_BYTES
    translator = zoo.load("everyday", backend="eager", device="cpu")
    assert translator.spec.licence == specs.load("everyday").licence == "CC-BY-2.0-FR and MPL-2.0"
    assert not missing(translator.spec.description, "Tatoeba", "LibreOffice")
    german = translator.translate(["Tom is old.", "tom is old", "Where is Wibruno?"], target="de")
    for text, words in zip(german, (("Tom", "alt"), ("Tom", "alt"), ("Wibruno",)), strict=True):
        assert not missing(text, *words)
    with pytest.warns(UserWarning, match="1 of 2 texts consist mostly of characters that the model has no tokens for"):
        translator.translate(["Tom is old.", "Привет, как дела?"], source="en", target="de")
    words = translator.attention("Tom is old.", source="en", target="de").by_words()
    assert words.language_tokens == (1, 0)
    assert [words.source[index] for index in words.word_indices()[0]] == ["Tom", "is", "old."]
