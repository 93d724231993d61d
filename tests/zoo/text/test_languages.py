"""Languages of requests, their tokens, and models of several directions."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np
import pytest
import torch

import specs
from compiler.padded_batch import PaddedBatch
from specs import EOS, UNK
from tests.examples import examples
from tests.refusals import refused
from zoo.data.builtin import sentences
from zoo.data.prepare import prepare
from zoo.data.training_set import SubwordSampler, part_weights
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.metrics import compute_text_metric, table_rows
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.evaluation.text_metrics import text_metric
from zoo.generation.translator import Translator
from zoo.models.catalogue import find
from zoo.report import Report
from zoo.text.language_codes import UNKNOWN, base_language, best_match
from zoo.text.languages import LanguagePair, choose_direction
from zoo.text.vocabulary import Vocabulary

BOTH = [
    "languages={codes: [en, de]}",
    "corpus.test=[]",
    "vocabulary.size=150",
    "corpus.max_length=400",
    "corpus.train=[{grammar: 60}, {grammar: 40, source_language: de, target_language: en}]",
    "corpus.dev=[{grammar: 4}, {grammar: 3, source_language: de, target_language: en}]",
]
CODES = ["eng_Latn", "deu_Latn", "fra_Latn"]
NLLB = {"codes": CODES, "token": "{}", "source_token": "source", "target_token": "target"}


def recognizer(recipe, *directions):
    """Return a spec of a model that reads audio or images, with a part for each direction."""
    files = {"source": "a.lst", "target": "a.txt"}
    parts = [{**files, "source_language": source, "target_language": target} for source, target in directions]
    codes = list(dict.fromkeys(code for pair in directions for code in pair))
    languages = {"codes": codes, "source_token": None, "target_token": "target"}
    corpus = {"source": "en", "target": "en", "train": parts, "dev": [], "test": []}
    return specs.load(recipe, {"languages": languages, "corpus": corpus, "training.ctc_weight": None})


def imported(**languages):
    """Return a spec without training text, as importers write it."""
    no_text = {"corpus.train": [], "corpus.dev": [], "corpus.test": []}
    given = {"codes": ["en", "de", "fr"], **languages}
    return specs.load("tiny", {"languages": given, "vocabulary.size": 150, "decoding.extra_length": 2, **no_text})


def vocabulary_of(spec):
    tokens = [spec.languages.token_of(code) for code in spec.languages.codes]
    pairs = [(pair.source, pair.target) for pair in islice(sentences("train", 200), 200)]
    return Vocabulary.learn(lambda: examples(pairs), spec.vocabulary, language_tokens=tokens)


@pytest.fixture(scope="module")
def nllb():
    """Return a spec of a model that reads and writes language tokens, its vocabulary, and a pair of its languages."""
    spec = imported(**NLLB)
    vocabulary = vocabulary_of(spec)
    return spec, vocabulary, LanguagePair.of(spec, vocabulary, ("eng_Latn", "deu_Latn"))


@pytest.mark.parametrize(("languages", "given", "expected"), [
    ({"codes": ["en", "de"]}, (None, "de"), ("en", "de")),
    ({"codes": ["en", "de"]}, ("de", None), ("de", "en")),
    ({}, (None, "de"), (UNKNOWN, "de")),  # the model reads only the token of the target language
    ({}, ("fr", "de"), ("fr", "de")),
    (NLLB, ("eng_Latn", "deu_Latn"), ("eng_Latn", "deu_Latn")),
    (NLLB, ("en", "DEU"), ("eng_Latn", "deu_Latn")),
    ({}, ("FR", "de-AT"), ("fr", "de")),
])  # fmt: skip
def test_languages_are_completed_where_only_one_is_possible(languages, given, expected, report):
    assert choose_direction(imported(**languages), *given, report) == expected
    assert not report.warnings


@pytest.mark.parametrize(("languages", "given", "problem", "hint"), [
    ({}, (None, None), "translates into 3 languages, but no target language was given", "`--to CODE`"),
    ({"codes": ["en", "de"]}, (None, None), "translates into 2 languages", "en, de"),
    (NLLB, (None, "deu_Latn"), "the language of the text is not given", "`--from CODE`"),
    ({}, ("en", "it"), "does not support the language `it`", "the languages are en, de, fr"),
    (NLLB, ("eng_Latn", "German"), "does not support the language `German`", "did you mean `deu_Latn`?"),
])  # fmt: skip
def test_missing_and_unknown_languages_are_errors(languages, given, problem, hint, report):
    error = refused(None, choose_direction, imported(**languages), *given, report)
    assert problem in str(error)
    assert hint in str(error)


def test_a_model_of_one_direction_takes_its_own_languages_only(report):
    spec = specs.load("tiny")
    for given in ((None, None), ("en", None), (None, "de"), ("en", "de")):
        assert choose_direction(spec, *given, report) == ("en", "de")
    unknown = specs.load("tiny", ["corpus={source: und, target: und, train: [], dev: [], test: []}"])
    assert choose_direction(unknown, "en", "de", report) == ("und", "und")
    error = refused("from `en` to `de` only, not to `fr`", choose_direction, spec, "en", "fr", report)
    assert "run `zoo list --available en-fr` to list public models" in error.hint


def test_a_direction_without_training_text_gives_a_warning(report):
    spec = specs.load("tiny", BOTH)
    choose_direction(spec, "de", "en", report)
    assert not report.warnings
    assert choose_direction(spec, "en", "en", report) == ("en", "en")
    assert "no translations from `en` to `en`" in report.warnings[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_no_text_is_encoded_as_a_language_token(kind, byte_fallback):
    section = {"kind": kind, "byte_fallback": byte_fallback, "size": 400 if byte_fallback else 150}
    spec = specs.load("tiny", {"languages": {"codes": ["en", "de"]}, "vocabulary": section})
    vocabulary = vocabulary_of(spec)
    assert vocabulary.byte_fallback == byte_fallback
    pair = LanguagePair.of(spec, vocabulary, ("en", "de"))
    (token,) = pair.source_tokens
    assert vocabulary.token_strings([token]) == ["<2de>"]
    assert pair.target_tokens == ()
    assert token not in vocabulary.encode("<2de> the dog <2de>")
    ids = vocabulary.encode("the old dog")
    assert vocabulary.decode([token, *ids]) == "the old dog"
    sampled = SubwordSampler(vocabulary, 0.5, 64)._sample(np.array([token, *ids]), "source").tolist()
    assert sampled[0] == token
    assert vocabulary.decode(sampled) == "the old dog"


def test_tokens_of_both_languages(nllb):
    _, vocabulary, pair = nllb
    assert vocabulary.token_strings([*pair.source_tokens, *pair.target_tokens]) == ["eng_Latn", "deu_Latn"]
    other = imported(codes=["en", "it"])
    refused("no token `<2it>` for the language `it`", LanguagePair.of, other, vocabulary, ("en", "it"))


def test_prepared_sources_start_with_the_token_of_their_target_language(home):
    spec = specs.load("tiny", BOTH)
    prepared = prepare(spec, Report())
    vocabulary = prepared.vocabulary
    to_de, to_en = (LanguagePair.of(spec, vocabulary, d).source_tokens[0] for d in (("en", "de"), ("de", "en")))
    store = prepared.store("train")
    assert [int(store.row("source", index)[0]) for index in range(100)] == [to_de] * 60 + [to_en] * 40
    built_in = [(pair.source, pair.target) for pair in sentences("train", 60)]
    for index, expected in ((7, built_in[7]), (60 + 7, built_in[7][::-1])):
        row = vocabulary.decode(store.row("source", index)), vocabulary.decode(store.row("target", index))
        assert row == expected
    assert prepared.directions("dev") == [("en", "de")] * 4 + [("de", "en")] * 3
    assert int(prepared.store("dev").row("source", 6)[0]) == to_en
    texts = read_split(spec, "dev", Report())
    assert texts.streams == prepared.texts("dev")
    assert texts.directions == prepared.directions("dev")
    assert texts.rows_by_direction == {("en", "de"): [0, 1, 2, 3], ("de", "en"): [4, 5, 6]}


def test_pairs_that_are_held_out_keep_their_languages(home):
    spec = specs.load("tiny", [*BOTH, "corpus.dev=[{held_out: 30}]"])
    prepared = prepare(spec, Report())
    directions = prepared.directions("dev")
    assert set(directions) == {("en", "de"), ("de", "en")}
    english = {pair.source for pair in sentences("train", 60)}
    for source, (language, _) in zip(prepared.texts("dev")["source"], directions, strict=True):
        assert (source in english) == (language == "en")


def test_the_languages_of_parts_change_the_prepared_corpus(home):
    both = ([], ["corpus.train=[{grammar: 60}, {grammar: 40}]"])
    assert len({prepare(specs.load("tiny", [*BOTH, *swapped]), Report()).folder for swapped in both}) == 2


def test_temperature_makes_directions_more_equal():
    german = "{grammar: 9, source_language: de, target_language: en}"
    parts = f"corpus.train=[{{grammar: 60}}, {{grammar: 30, weight: 2}}, {german}]"
    counts = [60, 30, 30]  # 120 and 30 weighted pairs in the two directions
    for temperature in (1.0, 2.0, 1000.0):
        spec = specs.load("tiny", [*BOTH, parts, f"corpus.temperature={temperature}"])
        weights = part_weights(spec.corpus, counts)
        to_german, to_english = weights[0] * 60 + weights[1] * 30, weights[2] * 30
        assert to_german + to_english == pytest.approx(150)
        assert to_german / to_english == pytest.approx(4 ** (1 / temperature))
        assert weights[1] == pytest.approx(2 * weights[0])


def test_translations_start_with_the_token_of_their_language_and_do_not_show_it(toy, nllb):
    (spec, vocabulary, german), program = nllb, toy(150, 1, 50)
    translator = Translator(program, vocabulary, spec)
    ((best, *_),) = translator.hypotheses(["the dog"], source="eng_Latn", target="deu_Latn")
    assert best.tokens[:1] == german.target_tokens
    assert best.text == vocabulary.decode(best.tokens[1:])
    assert "deu_Latn" not in best.text
    ids = vocabulary.encode("the dog")
    assert program.encoded == [(1, len(ids) + 2)]  # the language and EOS
    source = PaddedBatch.pad([[*german.source_tokens, *ids, EOS]])
    target = torch.tensor([[specs.BOS, *best.tokens, EOS]])
    assert program.score(source, target).sum() == best.log_probability
    prefixed = translator.hypotheses(["the dog"], source="eng_Latn", target="deu_Latn", prefixes=["der"])[0][0]
    assert prefixed.text.startswith("der")
    given = vocabulary.encode("der Hund", "target")
    scored = translator.score("the dog", "der Hund", source="eng_Latn", target="deu_Latn")
    target = torch.tensor([[specs.BOS, *german.target_tokens, *given, EOS]])
    assert scored == pytest.approx(float(program.score(source, target).sum()))
    assert translator.translate(["", "the dog"], source="eng_Latn", target="deu_Latn") == ["", best.text]
    other = translator.translate("the dog", source="eng_Latn", target="fra_Latn")
    assert other != best.text
    assert UNK not in german.source_tokens


def test_scores_of_several_directions_are_means_of_each(parrot):
    translator = parrot("translation")
    directions = [("eng_Latn", "deu_Latn"), ("de", "en")]
    outputs = ModelOutputs(translator, EvaluationSet(translator.streams, directions))
    assert {"moses-de", "moses-en"} < {*re.split("[:|]", compute_text_metric(outputs, name="paper_bleu").popitem()[1])}
    entries = compute_text_metric(outputs, name="chrf")
    pairs = zip(translator.known.values(), translator.references, strict=True)
    single = [text_metric("chrf").score([output], [reference]) for output, reference in pairs]
    assert [entries["chrf eng_Latn deu_Latn"], entries["chrf de en"]] == pytest.approx(single)
    assert entries["chrf"] == pytest.approx(sum(single) / 2)
    assert [choice["target"] for _, choice in translator.asked] == ["deu_Latn", "en"]
    titles = [title for title, _ in table_rows({**entries, "chrf_en_fr": 9.5, "sentences": 2})]
    assert titles[1:4] == ["chrF, eng_Latn to deu_Latn", "chrF, de to en", "chrF, en to fr"]


@pytest.mark.parametrize(("own", "expected", "given"), [
    (None, "zho_Hans", "zh zho zh-SG"), (None, "zho_Hant", "zh-TW zh-MO zt-TW zho_HK"), (None, "yue_Hant", "yue"),
    ("pt_BR pt", "pt_BR", "pt-BR pb"), ("pt_PT pt_BR", "pt_BR", "pt-BR pb-BR"), ("pt_PT pt_BR", "pt_PT", "pt pt-AO"),
    ("pt", "pt", "pt-BR pb-BR"), ("zh_TW zh_CN", "zh_CN", "zh"), ("zh", "zh", "zh-Hant"), ("zho_Hans", None, "zh-Hant"),
    ("de", "de", "ger DE-latn"), ("de ru", "ru", "ru-Cyrl"), ("de ru", None, "de-Cyrl ru-Latn"), ("fr", "fr", "FR\t"),
])  # fmt: skip
def test_a_code_matches_the_most_similar_one(own, expected, given):
    codes = (own or find("nllb-200-1.3B").languages.codes).split()
    assert {best_match(code, codes) for code in given.split(" ")} == {expected}


def test_codes_with_scripts_and_countries_have_the_rules_of_their_language() -> None:
    codes = {"zho_Hans": "zh", "zh_CN": "zh", "yue-Hant": "zh", "eng_Latn": "en", "pt-BR": "pt", "ast_Latn": "ast"}
    assert {code: base_language(code) for code in [*codes, UNKNOWN]} == {**codes, UNKNOWN: UNKNOWN}


@pytest.mark.parametrize(("given", "expected"), [
    ((None, None), ("en", "en")), ((None, "de"), ("de", "de")), ((None, "fr"), ("en", "fr")),
    (("de", None), ("de", "de")), (("en", None), ("en", "en")), (("en", "fr"), ("en", "fr")),
])  # fmt: skip
def test_a_recognizer_completes_the_languages_from_those_that_it_has_learned(given, expected, report):
    spec = recognizer("speech/digits", ("en", "en"), ("de", "de"), ("de", "fr"), ("en", "fr"))
    assert choose_direction(spec, *given, report) == expected
    assert not report.warnings
    assert choose_direction(spec, "fr", "de", report) == ("fr", "de")
    (warning,) = report.warnings
    assert "was not trained on audio in `fr` with text in `de`: expect poor text, or text in another" in warning
