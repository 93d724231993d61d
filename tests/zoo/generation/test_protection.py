"""Numbers, links and the like are kept: each stage of the repair, with a model that copies but damages characters."""

from __future__ import annotations

import random
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import torch

import specs
from specs import EOS
from tests.examples import changed
from tests.zoo.conftest import Letters
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
from zoo.generation.preprocessing import Preprocessor
from zoo.generation.protection import run_steps
from zoo.generation.span_constraint import SpanConstraint
from zoo.generation.text_search import translate_lines
from zoo.generation.translation import SearchInput
from zoo.generation.translator import Translator
from zoo.text.copying import copy_symbols
from zoo.text.language_codes import UNKNOWN
from zoo.text.languages import LanguagePair
from zoo.text.spans import find_spans, never

ALPHABET = "▁abcdefghijklmnopqrstuvwxyz0123456789.,:%${}€😊/" + "".join(copy_symbols(2))


class Characters(Letters):
    """Vocabulary with one token per character, from ID 4."""

    source = SimpleNamespace(is_rare=never)
    sizes = (4 + len(ALPHABET),) * 2

    def __init__(self, copy_symbols=()):
        self.copy_symbols = copy_symbols

    def encode(self, text, side="source"):
        return [4 + ALPHABET.index(each) if each in ALPHABET else 1 for each in text.strip().replace(" ", "▁")]

    def decode(self, tokens, side="target"):
        return "".join(self.token_strings(tokens)).replace("▁", " ").strip()

    def token_strings(self, tokens, side="target"):
        return [ALPHABET[token - 4] if token >= 4 else "⁇" for token in tokens]

    def control_tokens(self, side="source"):
        return frozenset(range(4))

    def unknown(self, text, side="source"):
        return []


CHARACTERS = Characters()


@pytest.fixture
def copyist(toy):
    """Return a function that makes a translator. `damage` returns its translations, the most probable first."""

    def make(damage, symbols=(), **options):
        class Program(toy):
            def row(self, source, prefix):
                text = CHARACTERS.decode(source[:-1])
                values = [-9.0 - id / 64 for id in range(CHARACTERS.sizes[1])]
                place = len(prefix)
                for rank, line in reversed(list(enumerate(damage(text)))):
                    values[CHARACTERS.encode(line)[place] if place < len(line) else EOS] = -0.5 - rank
                return values

        spec = specs.load("tiny", ["decoding.extra_length=9", "decoding.beam=3"])
        return Translator(Program(CHARACTERS.sizes[1]), Characters(symbols), spec, **options)

    return make


def copy(text):
    return (text,)


def nines(text):
    return "".join("9" if each.isdigit() else each for each in text), text.replace(".", ",")


def without_braces(text):
    return ("zzz",) if "{" in text else (text,)


def only_letters(text):
    return (text,) if all(each.isalpha() or each in " .,€" for each in text) else ("zzz zzz",)


ONE, TWO = SYMBOLS = copy_symbols(2)


def test_a_model_with_copy_symbols_takes_long_spans_prefixes_and_no_pairs(copyist):
    translator = copyist(copy, SYMBOLS, longest_source=20)
    translator.spec = specs.load("tiny", ["decoding.extra_length=9", "decoding.max_source_length=20"])
    text = f"hello. read http://a/{'b' * 40} now."
    assert translator.translate(text) == text
    text = "we 48 books. you 63 books."
    assert translator.translate(text, prefixes="we 48", protect=False) == text


def test_a_model_without_copy_symbols_writes_characters_of_the_private_use_area(copyist):
    assert copyist(copy).translate(f"we read {ONE}") == f"we read {ONE}"


REPAIRS = [
    ((), nines, "we pay 12.50€ for 48 books", "we pay 99.99€ for 99 books", "we pay 12,50 € for 48 books"),
    ((), nines, "at 21:15 we read", "at 99:99 we read", "at 21:15 we read"),
    ((), without_braces, "you have {0} books", "zzz", "you have {0} books"),
    ((), only_letters, "we read {0} in 48 books", "zzz zzz", "we read {0} in 48 books"),
    ((), only_letters, "we pay 12.50€, you 48 today.", "zzz zzz", "we pay 12,50 €, you 48 today."),
    ((), only_letters, "hello. 😊 we read 😊", "zzz zzz", "hello. 😊 we read 😊"),
    # Copy symbols stand for the spans, and are repaired as the spans are.
    (SYMBOLS, nines, "we pay 12.50€ for 48 books", "we pay 12,50 € for 48 books", "we pay 12,50 € for 48 books"),
    (SYMBOLS, nines, "at 21:15 we {0}, not 1,234", "at 21:15 we {0}, not 9,999", "at 21:15 we {0}, not 1.234"),
    (SYMBOLS, lambda text: (text.replace(TWO, "zz"),), "we read {0} in 48", "we read {0} in zz", "we read {0} in 48"),
    (SYMBOLS, lambda text: (text if TWO in text else f"{text} {TWO}",), *["we read 48 books"] * 3),
]


@pytest.mark.parametrize(("symbols", "damage", "text", "damaged", "translation"), REPAIRS)
def test_each_stage_repairs_what_the_one_before_does_not(copyist, symbols, damage, text, damaged, translation):
    translator = copyist(damage, symbols)
    ((unprotected,),) = translator.hypotheses([text], protect=False, split=False)
    ((repaired,),) = translator.hypotheses([text], split=False)
    assert (unprotected.text, unprotected.unkept) == (damaged, ())
    assert (repaired.text, repaired.unkept) == (translation, ())
    assert repaired.log_probability < 0
    assert repaired.tokens


def test_a_lost_weekday_is_written_only_if_the_translation_stays_probable(copyist):
    translator = copyist(lambda text: tuple(text.replace("lunes", each) for each in ("lundx", "lundy", "lundi")))
    translator.spec = changed(translator.spec, "corpus", source="es", target="fr")
    for text, translation, unkept in (
        ("lunes", "lundx", ("lunes",)),
        ("we read books on lunes and we sleep", "we read books on lundi and we sleep", ()),
    ):
        ((best,),) = translator.hypotheses([text], split=False)
        assert (best.text, best.unkept) == (translation, unkept)


def test_a_sentence_with_very_many_spans_is_translated_in_fragments(copyist, monkeypatch):
    counts, start = [], SpanConstraint.start

    def counted(self, sources, device):
        counts.extend(len(source.required) for source in sources)
        return start(self, sources, device)

    monkeypatch.setattr(SpanConstraint, "start", counted)
    text = " or ".join(map(str, range(500, 601)))
    ((best,),) = copyist(nines).hypotheses([text])
    assert (best.text, best.unkept, set(counts)) == (text, (), {0})


def test_sentences_without_spans_and_correct_translations_cost_nothing(copyist):
    translator = copyist(copy)
    texts = ["we read", "we read 48 books {0}", "a.b"]
    translator.translate(texts, protect=False)
    before = len(translator.program.encoded), len(translator.program.read)
    translator.translate(texts)
    assert (len(translator.program.encoded), len(translator.program.read)) == (2 * before[0], 2 * before[1])


TEXTS = ["we pay 12.50 for 48 books. you pay 7.25.", "we read", "-", "you have {0} books and {1}", "48", "😊"]
TEXTS += ["we read 100 books 😊", "", "a 1 b 2 c 3 d 4 e 15"]


@pytest.mark.parametrize("damage", [nines, without_braces, only_letters])
def test_a_result_does_not_depend_on_other_texts(copyist, damage):
    translator = copyist(damage)
    alone = [translator.hypotheses([text])[0] for text in TEXTS]
    texts = [(text, result) for text, result in zip(TEXTS, alone, strict=True) for _ in range(2)]
    random.Random(1).shuffle(texts)
    lines = [text for text, _ in texts]
    expected = [[best.text for best in result] for _, result in texts]
    for results in (
        translator.hypotheses(lines),
        translator.hypotheses(lines, max_batch_tokens=60),
        list(translate_lines(translator, lines, max_chunk_lines=7)),
        translator.submit(lines).result(),
    ):
        assert [[best.text for best in result] for result in results] == expected
        assert [best.unkept for best, *_ in results] == [result[0].unkept for _, result in texts]


def test_texts_without_a_letter_stay_as_they_are(copyist):
    translator = copyist(lambda text: ("zzz",))
    unchanged = ["-", "1,250.00 €", " - ", "😊", "...", "{0}", "www.example.org"]
    for results in (translator.hypotheses(unchanged), translator.submit(unchanged).result()):
        assert [(best.text, best.score, best.tokens) for best, *_ in results] == [(text, 0.0, ()) for text in unchanged]
    assert translator.translate(["\u2068we read.\u2069 1. 2.", "\u202aa.org\u202c"]) == ["zzz 1. 2.", "a.org"]
    assert translator.translate(["1. we read"], n_best=2)[0][0].startswith("1. zzz")
    assert translator.translate(["-"], n_best=2) == [["-"]]
    assert translator.translate([">>de<< 12", ">>de<< we read. 1. 2."]) == ["12", "zzz 1. 2."]
    assert set("".join(translator.translate(["-", "3"], protect=False))) == {"z"}


def test_only_translation_between_two_languages_is_protected(copyist):
    translator = copyist(nines)
    for preprocessor_class in (Preprocessor, type("Other", (Preprocessor,), {})):
        translator.preprocessor_class = preprocessor_class
        assert translator.translate("we read 12") == "we read 12"
    for source, target in (("en", "en"), ("src", "tgt"), ("en", "sql")):
        translator.spec = changed(translator.spec, "corpus", source=source, target=target)
        assert translator.translate(["we read 12", "12"]) == ["we read 99", "99"]


def test_what_cannot_be_repaired_is_named(copyist, report):
    translator = copyist(nines, report=report)
    text = "we pay 12 or 48"
    for options in ({"n_best": 2}, {"prefixes": ["we pay 99"]}, {"search": "sample", "top_k": 1}):
        ((best, *_),) = translator.hypotheses([text], **options)
        assert (best.text, best.unkept) == ("we pay 99 or 99", ("12", "48", "99", "99"))
    (warning,) = {each for each in report.warnings if "lack" in each}
    assert "1 of 1 translations" in warning
    assert "text 1 ('we pay 12 or 48'): '12', '48'" in warning
    report.warnings.clear()
    translator.hypotheses([text], n_best=2, protect=False)
    assert not report.warnings
    joined = translator.hypotheses(["we pay 12. you pay 48."], n_best=2)[0][0]
    assert joined.unkept == ("12", "99", "48", "99")


@pytest.mark.parametrize("while_starting", [False, True])
def test_a_cancelled_call_cancels_its_current_search(while_starting):
    searches = []

    def submit(sources, strategy):
        if searches and while_starting:
            future.cancel()
        searches.append(Future())
        return searches[-1]

    def steps():
        yield [], None
        yield [], None

    future = run_steps(SimpleNamespace(submit=submit), steps())
    searches[0].set_result([])
    assert future.cancel()
    assert [search.cancelled() for search in searches] == [False, True]


# the constraint


def required(text):
    return tuple(find_spans(text, "en", "de"))


def test_outputs_contain_all_spans_and_no_other_digit(toy):
    """Random models write the spans, wherever they like."""
    texts = ["12 or 48", "1.5 and 1.55 and 15", "{0} 7 a.b 7", "no number", "2 2 2"]
    rule = SpanConstraint(CHARACTERS)
    for seed in range(2):
        program = toy(CHARACTERS.sizes[1], seed, 60)
        spans = [required(text) for text in texts]
        sources = [SearchInput(i, {"source": (4 + i, EOS)}, 50, required=each) for i, each in enumerate(spans)]

        def run(rows, program=program):
            with Engine(program, workers=1, max_batch_tokens=40) as engine:
                return [each[0].tokens for each in engine.submit(rows, BeamSearch(4, 1.0, 1, rule)).result()]

        together = run(sources)
        assert together == [tokens for source in sources for tokens in run([source])]
        for source, found in zip(sources, together, strict=True):
            tokens = CHARACTERS.decode(found)
            if len(found) < source.max_length:
                assert all(any(each in tokens for each in span.spellings) for span in source.required)
            digits = set("".join(spelling for span in source.required for spelling in span.spellings))
            assert set(filter(str.isdigit, tokens)) <= digits


def test_allowed_tokens_are_known_without_waiting_for_the_device():
    """Tensors on the device `meta` have no values: an operation that has to read one on the host fails."""
    device = torch.device("meta")
    rule = SpanConstraint(CHARACTERS)
    sources = [SearchInput(0, {"source": (4, EOS)}, 40, required=required(text)) for text in ("12 or {0}", "or")]
    state, tokens = rule.start(sources, device), torch.empty(2, dtype=torch.long, device=device)
    state = state.advance(tokens, tokens).advance(None, tokens).join(rule.start(sources[:1], device))
    assert state.allowed().shape == (3, CHARACTERS.sizes[1])


def test_the_notation_of_numbers_follows_the_guessed_language():
    spec = specs.load("tiny", {"languages": {"codes": ["en", "de", "fr"]}})
    languages = LanguagePair(UNKNOWN, "fr")
    preprocessor = Preprocessor(Characters((ONE, TWO)), spec, None, None, languages, protects=True)
    for text, number in (
        ("It cost 1.250 pounds and 500 grams.", "1,250"),
        ("Das kostete 1.250 Pfund und 500 Gramm.", "1 250"),
    ):
        (part,) = preprocessor.encode(text, "", 0).parts
        assert part.replaced.spans[ONE].spellings[0].replace("\u202f", " ").startswith(number)
