"""What the card of a bundle tells of its vocabulary, its scores and its task; test_bundle.py has the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import specs
from specs import Spec
from zoo.publishing.card import card
from zoo.publishing.facts import Facts, Parent, Point, Text, Training
from zoo.publishing.origin import cell, drawn
from zoo.publishing.sample import Sample
from zoo.text.vocabulary import Vocabulary


def test_it_says_what_becomes_of_unknown_characters(tokens: Vocabulary) -> None:
    spec = specs.load("tiny")
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    spelling = Vocabulary.learn(lambda: [("the old dog", "der alte Hund")] * 9, section)
    told = [card(spec, vocabulary, {}, Facts()) for vocabulary in (tokens, spelling)]
    assert ["have no word token are unknown: " in each for each in told] == [True, False]
    assert ["are read and written in bytes" in each for each in told] == [False, True]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tiny", []),
        ("variants/recurrent", ["encoder is `ssru`, `feed_forward`", "decoder is `ssru`, `cross_attention`, `feed_"]),
        ("variants/restricted", ["encoder is `restricted_attention` (radius 4), `feed_forward`", "decoder is `restr"]),
    ],
)
def test_layers_that_are_not_the_papers_are_named(tokens: Vocabulary, name: str, told: list[str]) -> None:
    lines = [line for line in card(specs.load(name), tokens, {}, Facts()).splitlines() if "A layer of its" in line]
    assert len(lines) == len(told)
    assert all(words in line for words, line in zip(told, lines, strict=True))


OF_A_SET = {"signature": "a|b", "perplexity": 9.8765, "sentences": 1234, "seconds": 1.0}
OF_TREES = {"f1": 92.108, "recall": 91.5, "precision": 92.7, "complete_match": 40.0}


def test_the_scores_are_those_of_its_task(tokens: Vocabulary, parsing: Callable[..., Spec]) -> None:
    told = card(specs.load("tiny"), tokens, {"dev": {"bleu": 93.758, **OF_A_SET}}, Facts())
    assert "| set | BLEU | perplexity a token | sentences | signature |\n" in told
    assert "| dev | 93.76 | 9.877 | 1,234 | `a\\|b` |\n" in told
    scores = {"test": {**OF_TREES, **OF_A_SET}, "dev": {**OF_TREES, **OF_A_SET, "f1": None}}
    told = card(parsing(), tokens, scores, Facts())
    heading = "| set | F1 | recall | precision | complete match | perplexity a token | sentences | signature |\n"
    assert heading in told
    assert "| test | 92.11 | 91.50 | 92.70 | 40.00 | 9.877 | 1,234 | `a\\|b` |\n" in told
    assert "| dev | - | 91.50 |" in told


@pytest.mark.parametrize("missing", ["f1", "recall", "signature", "perplexity"])
def test_scores_of_another_task_are_not_its_own(tokens: Vocabulary, parsing: Callable[..., Spec], missing: str) -> None:
    scores = {**OF_TREES, **OF_A_SET, "bleu": 93.7}
    with pytest.raises(KeyError, match=missing):
        card(parsing(), tokens, {"dev": {name: score for name, score in scores.items() if name != missing}}, Facts())


def test_a_parsers_card_speaks_of_trees(tokens: Vocabulary, parsing: Callable[..., Spec]) -> None:
    trees = [{"grammar": 500}, {"trees": "/home/of/somebody/wsj/02"}]
    told = card(parsing(**{"corpus.train": trees}), tokens, {"dev": {**OF_TREES, **OF_A_SET}}, Facts())
    assert not [word for word in ("transl", "BLEU", "decode", "pairs", "somebody") if word in told]
    assert "- 500 trees of zoo's own grammar (no licence applies)\n- trees of the publisher: `02`\n" in told
    assert 'parser.parse("...")' in told
    assert "zoo parse --model transformer-tiny-ende < sentences.txt > trees.txt" in told


def test_a_licence_is_told_where_one_is_said(tokens: Vocabulary) -> None:
    assert "Its publisher says no licence." in card(specs.load("tiny"), tokens, {}, Facts())
    told = card(specs.load("tiny", {"licence": "[CC](javascript:x)\n# MIT"}), tokens, {}, Facts())
    assert r"Its licence: \[CC\](javascript:x) \# MIT." in told


def test_languages_that_nobody_said_are_not_told(tokens: Vocabulary) -> None:
    corpus = {"source": "und", "target": "und", "train": [], "dev": [], "test": []}
    told = card(specs.load("tiny", {"corpus": corpus}), tokens, {}, Facts(imported={"format": "marian"}))
    assert "Between which languages it translates is not known here." in told
    assert "und" not in told.split()


def test_what_was_imported_describes_itself_in_words_alone(tokens: Vocabulary) -> None:
    spec = specs.load("tiny", {"description": "[a](javascript:b)\n\n# <b>Heading</b>"})
    assert "\n# <b>" in card(spec, tokens, {}, Facts())
    told = card(spec, tokens, {}, Facts(imported={"format": "marian"}))
    assert "\\[a\\](javascript:b) \\# \\<b\\>Heading" in told


KNOWN = Facts(
    spec="ab" * 32,
    published="2026-11-22T10:00:00+00:00",
    by="0.1.0",
    parent=Parent("base", {"architecture.h": ("8", "1")}),
    text=Text("0123456789abcdef", {"dev/source.txt": "cd" * 32}),
    training=Training(
        *(1, (80, 90, 100), 100, 2.4e13, 5.1e13, 283.0, 2, "A processor, 2 threads"),
        curve=tuple(Point(step, 1.0, {"perplexity": 800.0 / step}) for step in range(10, 101, 10)),
    ),
    notes=("It has *no* table <b>of</b> names.",),
)


def test_what_is_known_of_the_training_is_told(tokens: Vocabulary) -> None:
    scores = {"test": {"bleu": 93.7, **OF_A_SET, "sentences_per_second": 917.6, "machine": "A processor, eager"}}
    sample = Sample("test", 1000, ("a",) * 32, ("b",) * 32, ("c",) * 32, "bleu", 95.24, "x")
    told = card(specs.load("tiny"), tokens, scores, KNOWN, 40, sample)
    for words in (
        "`base` is the nearest; it differs from that in:",
        "| `architecture.h` | 8 | 1 |",
        "the mean of 3 checkpoints, of the steps 80 to 100. ",
        "2.4e+13 FLOPs for 100 steps",
        "in 4:43 on A processor, 2 threads, 2 processes together. Section 6.1 of the paper would put it at 5.1e+13",
        "perplexity of the dev set, logarithmic, over steps:",
        "| 100 | 8.000 |",
        "The test set went at 917.6 sentences a second",
        "its training had none of more than 40",
        r"- It has \*no\* table \<b\>of\</b\> names.",
        "32 of 1,000 sentences are in `sample.json`",
        "they score 95.24",
        "Published on 2026-11-22 by zoo 0.1.0.",
    ):
        assert words in told, words


def test_what_is_not_known_is_not_told(tokens: Vocabulary) -> None:
    told = card(specs.load("tiny"), tokens, {}, Facts())
    assert "How it was trained is not known here." in told
    assert not [
        word
        for word in (
            "score is",
            "scores are",
            "It began with",
            "FLOPs",
            "None",
            "Published on",
            "Imported",
            "curve",
            "a second",
        )
        if word in told
    ]
    scored = card(specs.load("tiny"), tokens, {"dev": {"bleu": 93.758, **OF_A_SET}}, Facts())
    assert "its score is the publisher's word" in scored
    begun = card(specs.load("tiny", {"training.start_from": "/home/of/somebody/base"}), tokens, {}, Facts())
    assert "It began with the weights of base: " in begun
    assert "somebody" not in begun
    alone = card(specs.load("tiny"), tokens, {}, Facts(training=Training(1, (5,), 5, 1e12)))
    assert "1e+12 FLOPs for 5 steps, by the compiler's count of full batches." in alone


def test_an_imported_model_says_whence(tokens: Vocabulary) -> None:
    told = card(specs.load("tiny"), tokens, {}, Facts(imported={"format": "marian | npz", "source": "x\n# y"}))
    assert "| format | marian \\| npz |\n| source | x \\# y |" in told


def test_a_strangers_words_make_no_markdown() -> None:
    assert cell("a|b\n# c <img> [x](y) `z`") == r"a\|b \# c \<img\> \[x\](y) \`z\`"


def test_a_curve_has_its_ends_at_the_ends() -> None:
    lines = drawn([(10, 5.0), (20, 3.0), (40, 1.5)]).splitlines()
    assert lines[0] == "  5 │•"
    assert lines[-3].startswith("1.5 │")
    assert lines[-3].index("•") == len(lines[-2]) - 1, "the last one is at the end of the axis"
    assert (lines[-1].split()[0], lines[-1].split()[-1]) == ("10", "40")
    assert drawn([(1, 2.0), (2, 2.0)]).count("•") == 2, "a level one is a curve, too"
