"""The model card gives scores, training, data, limitations and use of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import specs
from specs import Spec
from tests.conftest import missing
from tests.examples import examples
from tests.refusals import refused
from tests.zoo.text.test_languages import recognizer
from zoo.publishing.card import card, escape
from zoo.publishing.provenance import CorpusProvenance, Provenance, TrainingProvenance
from zoo.text.vocabulary import Vocabulary

RESULT = {"signature": "a|b", "perplexity": 9.8765, "sentences": 1234, "seconds": 1.0}
PARSING_RESULT = {"f1": 92.108, "recall": 91.5, "precision": 92.7, "complete_match": 40.0, **RESULT}


def test_the_card_of_a_bundle(bundle: Path) -> None:
    text = (bundle / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# transformer-tiny-ende\n")
    use = ('zoo.load("transformer-tiny-ende")', "It translates from `en` to `de`.", "comply with the licences")
    training = ("12.35", "`pairs.en`", "mean of 3 checkpoints, from step 3 to step 9", "31 tokens")
    network = "| 2 | 16 | 24 | 2 | 6 | 4 | 0.1 | sinusoidal | layer_norm, post | 101 bpe tokens |"
    assert not missing(text, *use, *training, network)


def test_unknown_characters_depend_on_the_vocabulary(tokens: Vocabulary) -> None:
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    spelling = Vocabulary.learn(lambda: examples([("the old dog", "der alte Hund")] * 9), section)
    texts = [card(specs.load("tiny"), vocabulary, {}, Provenance()) for vocabulary in (tokens, spelling)]
    assert ["outside the vocabulary are unknown" in text for text in texts] == [True, False]
    assert ["are read and written as bytes" in text for text in texts] == [False, True]


LAYERS = {
    "tiny": [],
    "variants/recurrent": ["encoder layer consists of `ssru`, `feed_", "decoder layer consists of `ssru`, `cro"],
    "variants/restricted": ["encoder layer consists of `restricted_attention` (radius 4), `f", "decoder layer"],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_differ_from_the_paper_are_described(tokens: Vocabulary, name: str) -> None:
    lines = [line for line in card(specs.load(name), tokens, {}, Provenance()).splitlines() if "layer consists" in line]
    assert [words in line for words, line in zip(LAYERS[name], lines, strict=True)] == [True] * len(lines)


def test_the_scores_are_those_of_the_task(tokens: Vocabulary, parsing: Callable[..., Spec]) -> None:
    text = card(specs.load("tiny"), tokens, {"dev": {"bleu": 93.758, **RESULT}}, Provenance())
    assert not missing(text, "| dev | 93.76 | 9.877 | 1,234 | `a\\|b` |\n", "cannot be reproduced")
    text = card(parsing(), tokens, {"test": PARSING_RESULT, "dev": {**PARSING_RESULT, "f1": None}}, Provenance())
    scores = "| test | 92.11 | 91.50 | 92.70 | 40.00 | 9.877 | 1,234 | `a\\|b` |\n"
    assert not missing(text, "| set | F1 | recall | precision | complete match |", scores, "| dev | - | 91.50 |")
    for lacking in ("f1", "recall", "signature", "perplexity"):
        scores = {name: score for name, score in {**PARSING_RESULT, "bleu": 93.7}.items() if name != lacking}
        refused("is damaged: some values are missing", card, parsing(), tokens, {"dev": scores}, Provenance())


def test_the_card_of_a_parser_is_about_trees(tokens: Vocabulary, parsing: Callable[..., Spec]) -> None:
    trees = [{"grammar": 500}, {"trees": "/home/of/somebody/wsj/02"}]
    text = card(parsing(**{"corpus.train": trees}), tokens, {"dev": PARSING_RESULT}, Provenance())
    assert not [word for word in ("transl", "BLEU", "decode", "pairs", "somebody") if word in text]
    assert "- 500 trees from zoo's built-in grammar (no licence applies)\n- trees of the publisher: `02`\n" in text
    command = "zoo parse --model transformer-tiny-ende < sentences.txt > trees.txt"
    assert not missing(text, 'parser.parse("...")', command)


PROVENANCE = Provenance(
    published="2026-11-22T10:00:00+00:00",
    zoo_version="0.1.0",
    corpus=CorpusProvenance("0123456789abcdef", {"dev/source.txt": "cd" * 32}),
    training=TrainingProvenance(1, (80, 90, 100), 100, 2.4e13, 5.1e13, 283.0, 2, "A processor, 2 threads"),
    notes=("It has *no* table <b>of</b> names.",),
)


def test_everything_that_is_known_is_in_the_card(tokens: Vocabulary) -> None:
    spec = specs.load("tiny", {"licence": "[CC](javascript:x)\n# MIT", "training.start_from": "/home/of/me/base"})
    text = card(spec, tokens, {"test": {"bleu": 93.7, **RESULT}}, PROVENANCE, 40)
    expected = (
        "the mean of 3 checkpoints, from step 80 to step 100. ",
        "2.4e+13 FLOPs for 100 steps and 4:43 on A processor, 2 threads with 2 processes.",
        "section 6.1 of the paper gives 5.1e+13",
        "Its longest training sentence had 40 tokens.",
        r"- It has \*no\* table \<b\>of\</b\> names.",
        "Published on 2026-11-22 with zoo 0.1.0.",
        r"Licence: \[CC\](javascript:x) \# MIT.",
        "started from the weights of base.",
        "The fingerprint of the prepared corpus is `0123456789abcdef`",
    )
    assert not missing(text, *expected)
    assert "/home/of" not in text


def test_nothing_is_said_about_unknown_facts(tokens: Vocabulary) -> None:
    text = card(specs.load("tiny"), tokens, {}, Provenance())
    expected = ("The publisher specified no licence.", "unknown how this model was trained", "was not evaluated")
    assert not missing(text, *expected)
    assert not [words for words in ("started from", "FLOPs", "None", "imported", "reproduced") if words in text]
    text = card(specs.load("tiny"), tokens, {}, Provenance(training=TrainingProvenance(1, (5,), 5, 1e12)))
    estimate = "1e+12 FLOPs for 5 steps, an estimate for full batches."
    assert not missing(text, estimate, "The weights are those of step 5.")


def test_an_imported_model_has_its_origin_and_no_markdown_of_strangers(tokens: Vocabulary) -> None:
    imported = Provenance(imported={"format": "marian | npz", "source": "x\n# y"})
    languages = {"source": "und", "target": "und", "train": [], "dev": [], "test": []}
    spec = specs.load("tiny", {"description": "[a](javascript:b)\n\n# <b>Heading</b>", "corpus": languages})
    text = card(spec, tokens, {}, imported)
    assert "| format | marian \\| npz |\n| source | x \\# y |" in text
    assert not missing(text, "\\[a\\](javascript:b) \\# \\<b\\>Heading", "Its languages are unknown.")
    assert "und" not in text.split()
    assert escape("a|b\n# c <img> [x](y) `z`") == r"a\|b \# c \<img\> \[x\](y) \`z\`"


def test_a_multilingual_model_has_a_score_for_each_direction_and_a_target_language(tokens: Vocabulary) -> None:
    parts = [{"grammar": 9}, {"grammar": 9, "source_language": "de", "target_language": "en"}]
    corpus = dict.fromkeys(("train", "dev", "test"), parts)
    spec = specs.load("tiny", {"languages": {"codes": ["en", "de"]}, "corpus": corpus})
    scores = {"test": {"bleu": 40.0, "bleu en de": 30.0, "bleu_de_en": 50.0, **RESULT}}
    text = card(spec, tokens, scores, Provenance())
    assert "| test | 40.00 | 9.877 | 1,234 | `a\\|b` |\n| test, en to de | 30.00 | - |  |  |\n" in text
    assert "| test, de to en | 50.00 | - |  |  |\n" in text
    command = f"zoo decode --model {spec.name} --to de < source.txt"
    assert not missing(text, 'translator.translate("...", target="de")', command)


@pytest.mark.parametrize("words", ["speech audio transcribe", "pictures image translate"])
def test_the_card_of_a_recognizer_is_about_files_and_all_its_languages(tokens: Vocabulary, words: str) -> None:
    folder, kind, verb = words.split()
    spec = recognizer(f"{folder}/digits", *(("en", target) for target in ("en", "de", "fr")))
    text = card(spec, tokens, {}, Provenance(training=TrainingProvenance(seed=1)), longest_source=1234)
    expected = (
        f"It reads {kind} files in `en`, and writes their text in `en`, `de` or `fr`.",
        f'recognizer.{verb}("...", target="en")',
        f"at most {spec.training.source_tokens:,} source frames and",
        "It cannot write characters outside its vocabulary.",
        "Files unlike the training data give worse results.",
    )
    wrong = ("translates", "guess a translation", "is normalised")
    assert missing(text, *expected, *wrong) == [*wrong]
    one = card(specs.load(f"{folder}/digits"), tokens, {}, Provenance())
    assert f"It reads {kind} files in `en`, and writes their text in `en`." in one
