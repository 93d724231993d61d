"""The included model `everyday` is complete and small, and its data are prepared without test sentences in training."""

from __future__ import annotations

import bz2
import random
from pathlib import Path

import pytest

import specs
import zoo
from tests.benchmarks import everyday_data
from tests.benchmarks.everyday_data import (
    bare,
    held_out,
    invented_name,
    is_clean,
    lower,
    normalized,
    prepare,
    read_downloads,
    renamed,
    tidy,
    typeset,
    without_sentences_of,
)

MAX_BUNDLE_BYTES = 15_000_000
WORDS = "one two three four five six seven eight nine ten".split()  # noqa: SIM905
WORTE = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()  # noqa: SIM905


def pairs(count: int) -> list[tuple[str, str]]:
    numbers = [(number // 100, number // 10 % 10, number % 10) for number in range(count)]
    return [tuple(" ".join(words[digit] for digit in digits) + "." for words in (WORDS, WORTE)) for digits in numbers]


def test_sentences_are_equal_if_they_differ_only_in_case_spaces_and_punctuation() -> None:
    assert normalized("It's 5 o'clock, Tom!") == normalized("its 5 oclock tom")
    assert normalized("Tom can.") != normalized("Tom can't.")


def test_pairs_are_tidied_and_damaged_ones_are_dropped() -> None:
    assert tidy((" “Hi,”  he said…", "»Hallo«, sagte er. ")) == ('"Hi," he said...', "„Hallo“, sagte er.")
    assert is_clean(("It's 1984.", "Wir haben das Jahr 1984."))
    for english, german in (("Hi.", "..."), ("Hi.", "Привет."), ("It's 1984.", "1985."), ("Hi.", "Hallo. " * 9)):
        assert not is_clean((english, german))


def test_variants_change_only_what_they_are_for() -> None:
    assert [bare(text) for text in ("Go.", "Go!", "Go..")] == ["Go", "Go!", "Go.."]
    assert lower("I know Tom.", "Ich kenne Tom.") == ("i know tom", "Ich kenne Tom")
    assert typeset('I don\'t say "no".', "Ich sage nicht „Nein“.") == ("I don’t say “no”.", "Ich sage nicht „Nein“.")
    assert typeset("Ich sage „Nein“.", "x") == ('Ich sage "Nein".', "x")
    assert typeset("Go.", "Geh.") == ("Go.", "Geh.")


def test_names_and_numbers_are_replaced_on_both_sides_or_on_none() -> None:
    generator = random.Random(5)
    for _ in range(50):
        english, german = renamed(("Mary saw Tom's 27 cats.", "Maria sah Toms 27 Katzen."), generator)
        woman, man, number = english.split()[0], english.split()[2].removesuffix("'s"), english.split()[3]
        assert german == f"{woman} sah {man}s {number} Katzen."
        assert (len(number), "Mary" in english) == (2, False)
    for kept in (("Tom ran.", "Er rannte."), ("I am 7.", "Ich bin 7."), ("Tom met Tom.", "Tom traf ihn.")):
        assert renamed(kept, generator) == kept
    assert all(invented_name(generator).istitle() for _ in range(50))


def test_held_out_pairs_share_no_sentence_with_training() -> None:
    data = [*pairs(100), ("one.", "eins zwei drei."), ("Zero, ZERO, one!", pairs(100)[7][1])]
    remaining, chosen = held_out(data, 40, random.Random(1))
    assert len(chosen) == 40
    assert sorted(remaining + chosen) == sorted(data)
    for side in (0, 1):
        assert not {normalized(pair[side]) for pair in remaining} & {normalized(pair[side]) for pair in chosen}
    clean = without_sentences_of(data, [("ONE one two", "x"), ("y", "Zehn, drei, vier")])
    assert len(clean) == len(data) - sum(normalized(pair[0]) == "oneonetwo" for pair in data)


@pytest.mark.integration
def test_downloads_become_all_files_of_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday_data, "DEV_PAIRS", 20)
    monkeypatch.setattr(everyday_data, "TEST_PAIRS", 30)
    data = [(f"Tom doesn't say {english}", f"Tom sagt nicht „{german}“") for english, german in pairs(200)]
    for side, code in enumerate(("eng", "deu")):
        rows = (f"{number}{side}\t{code}\t{pair[side]}\n" for number, pair in enumerate(data))
        (tmp_path / f"{code}_sentences.tsv.bz2").write_bytes(bz2.compress("".join(rows).encode()))
    links = "".join(f"{number}0\t{number}1\n" for number in [*range(200), 999])
    (tmp_path / "eng-deu_links.tsv.bz2").write_bytes(bz2.compress(links.encode()))
    assert read_downloads(tmp_path) == data
    out = tmp_path / "out"
    prepare(read_downloads(tmp_path), None, out)
    spec = specs.load("everyday")
    lines = {path.name: path.read_text("utf-8").splitlines() for path in out.iterdir()}
    assert {name for part in spec.corpus.parts for name in (part.source, part.target)} == set(lines)
    assert (len(lines["train.en"]), len(lines["dev.en"]), len(lines["test.en"])) == (150, 20, 30)
    assert all(lines.values())
    for language in ("en", "de"):
        training = {normalized(line) for line in lines[f"train.{language}"]}
        assert not training & {normalized(line) for line in (*lines[f"dev.{language}"], *lines[f"test.{language}"])}


INCLUDED = Path(zoo.__file__).parent / "included"


@pytest.mark.integration
def test_the_included_model_is_small_licensed_and_translates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.models.registries.registry.INCLUDED", INCLUDED)
    assert zoo.names() == ["everyday"]
    assert sum(file.stat().st_size for file in INCLUDED.rglob("*") if file.is_file()) < MAX_BUNDLE_BYTES
    translator = zoo.load("everyday", backend="eager", device="cpu")
    shipped = specs.load("everyday")
    assert translator.spec.licence == shipped.licence == "CC-BY-2.0-FR"
    assert "Tatoeba" in translator.spec.description
    sources = ["Tom is old.", "She has a new car.", "tom is old", "Where is Wibruno?"]
    german = translator.translate(sources, target="de")
    assert all("Tom" in german[row] and "alt" in german[row] for row in (0, 2))
    assert "Wibruno" in german[3]
    words = translator.attention("Tom is old.", source="en", target="de").by_words()
    assert words.language_tokens == (1, 0)
    assert [words.source[index] for index in words.word_indices()[0]] == ["Tom", "is", "old."]
