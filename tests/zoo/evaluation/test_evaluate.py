"""Scores of translators and parsers that know two sentences by heart."""

import json
import math

import pytest

from specs import ZooError
from zoo.evaluation.evaluate import evaluate_translator
from zoo.evaluation.metrics import perplexity
from zoo.evaluation.scores import summary_line, table_rows
from zoo.evaluation.text_metrics import bleu
from zoo.files.atomic import write_json
from zoo.files.reading import read_json
from zoo.generation.scoring import TokenScores
from zoo.report import Report

SPEED = ["sentences", "seconds", "sentences_per_second"]
OF_TASK = {
    "translation": [
        *("bleu", "signature", "paper_bleu", "paper_bleu_signature", "chrf", "chrf_signature", "ter", "ter_signature"),
        *("perplexity", *SPEED),
    ],
    "parsing": ["f1", "recall", "precision", "complete_match", "signature", "perplexity", *SPEED],
}


def test_scores_are_those_of_the_translations_and_the_references(parrot):
    translator = parrot("translation")
    sources, references = translator.sources, translator.references
    scores = evaluate_translator(translator, sources, references, Report(), beam=2, tokens=100)
    expected = bleu(list(translator.known.values()), references)
    assert (scores["bleu"], scores["signature"]) == (expected.score, expected.signature)
    assert scores["perplexity"] == pytest.approx(2.0)
    assert scores["sentences"] == 2
    assert scores["sentences_per_second"] == pytest.approx(2 / scores["seconds"])
    assert translator.asked == [("outputs", {"beam": 2, "tokens": 100}), ("forced", 100)]


@pytest.mark.parametrize("kind", OF_TASK)
def test_scores_are_flat_and_in_order_and_are_kept_as_they_are(parrot, kind, tmp_path):
    translator = parrot(kind)
    scores = evaluate_translator(translator, translator.sources, translator.references, Report())
    assert list(scores) == OF_TASK[kind]
    write_json(tmp_path / "scores.json", {"test": scores})
    assert read_json(tmp_path / "scores.json")["test"] == scores


def test_f1_is_of_the_brackets_and_what_is_no_tree_has_none(parrot):
    parser = parrot("parsing")

    def scored(output):
        parser.known = {**parser.known, "a cat sleeps": output}
        return evaluate_translator(parser, parser.sources, parser.references, Report())

    right, broken, none = scored(parser.references[1]), scored("(TOP (S (NP"), scored("")
    assert right["complete_match"] == 50
    assert right["f1"] == pytest.approx(2 / (1 / right["precision"] + 1 / right["recall"]))
    assert right["recall"] == pytest.approx(600 / 7), "S, NP, VP twice and an NP that it does not find"
    assert right["precision"] == 100
    assert broken["f1"] == none["f1"] < right["f1"]


def test_f1_is_of_all_sentences_whatever_their_tags_are_taken_for(parrot):
    parser = parrot("parsing")
    wanted = ["(TOP (S (NP (DT a) (NN dog)) (VP (VB eats) (NP (NN fish))) (. .)))", "(TOP (S (NP (NN c)) (VP (VB d))))"]
    wrong = "(TOP (FRAG (NN a) (NN dog) (NN eats) (NN fish) (NN .)))"
    parser.known = dict(zip(parser.sources, (wrong, wanted[1]), strict=True))
    scores = evaluate_translator(parser, parser.sources, wanted, Report())
    assert (scores["complete_match"], scores["recall"]) == (50, pytest.approx(100 * 3 / 7))
    assert scores["signature"] == "evalb:collins|tags:reference|cutoff:40"


def test_a_reference_that_is_no_tree_is_told(parrot):
    parser = parrot("parsing")
    with pytest.raises(ZooError, match="not one bracketed tree"):
        evaluate_translator(parser, parser.sources, ["(TOP (S", parser.references[1]], Report())


def test_in_words_they_are_what_a_person_asks_for(parrot):
    scores = {"bleu": 93.758, "signature": "nrefs:1", "perplexity": 1.1504, "sentences": 1000, "seconds": 0.74}
    assert summary_line(scores) == "BLEU 93.76, perplexity 1.150 per token"
    assert list(table_rows(scores)) == [
        ("BLEU", "93.76"),
        ("perplexity", "1.150 a word token"),
        ("sentences", "1,000 in 0.7 s"),
        ("signature", "nrefs:1"),
    ]
    signatures = {"paper_bleu_signature": "nrefs:2", "chrf_signature": "nrefs:3"}
    longer = scores | {"paper_bleu": 94.125, "chrf": 97.0} | signatures
    assert summary_line(longer) == summary_line(scores), "one line has room for the first alone"
    assert list(table_rows(longer)) == [
        ("BLEU", "93.76"),
        ("paper's BLEU", "94.12"),
        ("chrF", "97.00"),
        ("perplexity", "1.150 a word token"),
        ("sentences", "1,000 in 0.7 s"),
        ("signature, BLEU", "nrefs:1"),
        ("signature, paper's BLEU", "nrefs:2"),
        ("signature, chrF", "nrefs:3"),
    ]
    parser = parrot("parsing")
    scores = evaluate_translator(parser, parser.sources, parser.references, Report())
    assert summary_line(scores) == f"F1 {scores['f1']:.2f}, perplexity 2.000 per token"
    named = ["F1", "recall", "precision", "complete match", "perplexity", "sentences", "signature"]
    assert [called for called, _ in table_rows(scores)] == named


def test_a_number_that_is_none_has_a_word_in_json(parrot):
    translator = parrot("translation")
    translator.forced = lambda *_, **__: [TokenScores((-math.inf,))] * 2
    scores = evaluate_translator(translator, translator.sources, translator.references, Report())
    assert scores["perplexity"] is None
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    assert "perplexity -" in summary_line(scores)


def test_sources_and_references_belong_together(parrot):
    translator = parrot("translation")
    with pytest.raises(ZooError, match="2 sources and 1 references"):
        evaluate_translator(translator, translator.sources, translator.references[:1], Report())
    with pytest.raises(ZooError, match="nothing to evaluate"):
        evaluate_translator(translator, [], [], Report())
    assert translator.asked == []


def test_perplexity_is_per_piece_over_all_sentences_together():
    scores = [TokenScores((-1.0, -2.0, -3.0)), TokenScores((-4.0,))]
    assert perplexity(scores) == pytest.approx(math.exp(10 / 4))  # not the mean of the sentences' own
    assert perplexity([TokenScores((0.0,))]) == 1.0


def test_perplexity_of_the_impossible_and_of_nothing():
    assert perplexity([TokenScores((-math.inf,))]) == math.inf
    assert perplexity([TokenScores((-5000.0,))]) == math.inf
    with pytest.raises(ZooError, match="nothing to score"):
        perplexity([])
