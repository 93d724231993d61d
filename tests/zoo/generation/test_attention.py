"""Attention weights over a text and a translation of it, the model's own or a given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import specs
import zoo
from compiler import build
from tests.examples import SMALL
from tests.refusals import refused
from zoo.generation.attention import Attention
from zoo.generation.translator import Translator
from zoo.training.run import Run

TEXT = "the old dog sees a small house"


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return zoo.load(trained().folder, device="cpu")


def toy(**fields: Any) -> Attention:
    """Two tokens of one word, then one of another; weights that can be counted in the head."""
    encoder = torch.tensor([[[[0.5, 0.25, 0.0, 0.25], [0.0, 0.5, 0.5, 0.0], [1.0, 0, 0, 0], [0, 0, 0, 1.0]]]])
    decoder = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
    cross = torch.tensor([[[[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 1.0, 0.0]]]])
    weights = {"encoder": encoder, "decoder": decoder, "cross": cross, "backend": "eager", "precision": "float32"}
    tokens = {"source": ("▁a", "b", "▁c", "</s>"), "target_input": ("<s>", "▁d"), "target": ("▁d", "</s>")}
    texts: dict[str, Any] = {"text": "ab c", "translation": "d", "forced": False, "log_probability": -1.0}
    return Attention(**texts | tokens | weights | fields)


def test_attention_over_the_own_and_over_a_given_translation(translator: Translator) -> None:
    own, ((best,),) = translator.attention(TEXT), translator.hypotheses([TEXT])
    assert (own.text, own.translation, own.forced) == (TEXT, best.text, False)
    assert own.log_probability == pytest.approx(best.log_probability, abs=1e-3)
    assert len(own.target) == len(best.tokens) + 1
    given = translator.attention(f" {TEXT} ", "der alte Hund")
    assert (given.text, given.translation, given.forced) == (TEXT, "der alte Hund", True)
    assert "".join(given.source + given.target) == "▁the▁old▁dog▁sees▁a▁small▁house</s>▁der▁alte▁Hund</s>"
    assert given.target_input == ("<s>", *given.target[:-1])
    assert given.log_probability == pytest.approx(translator.score(TEXT, "der alte Hund"), abs=1e-4)
    words = given.by_words()
    assert words.source == (*TEXT.split(), "</s>")
    assert (words.target_input, words.target) == (("<s>", "der", "alte", "Hund"), ("der", "alte", "Hund", "</s>"))
    for weights in (words.encoder, words.decoder, words.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_the_rows_of_words_can_be_the_positions_that_read_them() -> None:
    cross = torch.tensor([[[[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]]])
    tokens = {"target_input": ("<s>", "▁d", "e", "▁f"), "target": ("▁d", "e", "▁f", "</s>")}
    three = toy(**tokens, cross=cross, decoder=torch.eye(4)[None, None])
    predicted, read = three.by_words(), three.by_words(reads=True)
    assert predicted.cross[0, 0].tolist() == [[0.75, 0.25, 0], [0, 1.0, 0], [0, 0, 1.0]]
    assert read.cross[0, 0].tolist() == [[0.25, 0.75, 0], [0, 0, 1.0], [0, 0, 1.0]]


def test_by_words_averages_rows_and_sums_columns() -> None:
    attention = toy().by_words()
    assert attention.source == ("ab", "c", "</s>")
    assert (attention.target_input, attention.target) == (("<s>", "d"), ("d", "</s>"))
    assert attention.encoder.tolist() == [[[[0.625, 0.25, 0.125], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]]
    assert attention.decoder.tolist() == toy().decoder.tolist()
    assert attention.cross.tolist() == [[[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]]]


def test_subwords_of_bpe_codes_are_joined() -> None:
    given = toy(source=("▁a@@", "▁b", "▁c", "</s>"), target_input=("<s>", "▁d@@"), target=("▁d@@", "</s>")).by_words()
    assert (given.source, given.target) == (("ab", "c", "</s>"), ("d@@", "</s>"))


def test_language_tokens_are_words_that_can_be_left_out() -> None:
    tokens = {"source": ("<2de>", "a", "▁c", "</s>"), "target_input": ("<s>", "<2de>"), "target": ("<2de>", "</s>")}
    given = toy(**tokens, language_tokens=(1, 1)).by_words()
    assert (given.source, given.target) == (("<2de>", "a", "c", "</s>"), ("<2de>", "</s>"))
    assert given.word_indices() == ([1, 2], [])


def test_unknown_characters_and_byte_tokens_are_shown_as_text(translator: Translator) -> None:
    for target in (None, "der Hund"):
        with pytest.warns(UserWarning, match="characters that the model does not know"):
            attention = translator.attention("the ☃ dog", target)
        assert attention.by_words().source == ("the", "☃", "dog", "</s>")
    assert toy(source=("▁", "<0xC3>", "<0xA4>", "</s>")).by_words().source == ("ä", "</s>")


def test_a_stack_without_attention_has_zero_layers(trained: Callable[..., Run]) -> None:
    layers = {"encoder": [{"kind": "feed_forward"}], "decoder": [{"kind": "cross_attention"}]}
    architecture = {**SMALL["architecture"], **layers}
    attention = zoo.load(trained(architecture=architecture).folder, device="cpu").attention(TEXT)
    assert (len(attention.encoder), len(attention.decoder), len(attention.cross)) == (0, 0, 2)
    assert attention.by_words().encoder.shape[0] == 0


def test_restricted_attention_is_self_attention(trained: Callable[..., Run]) -> None:
    near = [{"kind": "restricted_attention", "radius": 1}, {"kind": "feed_forward"}]
    attention = zoo.load(trained(**{"architecture.encoder": near}).folder, device="cpu").attention(TEXT)
    assert attention.encoder.shape[0] == attention.decoder.shape[0] == attention.cross.shape[0]
    apart = torch.arange(len(attention.source))[:, None] - torch.arange(len(attention.source))
    assert not attention.encoder[..., apart.abs() > 1].any()
    assert torch.allclose(attention.encoder.sum(-1), torch.ones(()))


def test_empty_and_split_texts_are_refused(trained: Callable[..., Run]) -> None:
    translator = zoo.load(trained(decoding={"max_source_length": 8}).folder, device="cpu")
    long, empty = r"at most 8.*\s+hint: pass a single sentence$", "an empty text has no attention weights"
    for text, message in (("the dog sees. the old dog sees", long), ("", empty), (" \t", empty)):
        refused(message, translator.attention, text)


def test_ensembles_and_translators_made_from_programs_are_refused(translator: Translator) -> None:
    spec = specs.load("tiny")
    by_hand = Translator(build(translator.spec, backend="eager"), translator.vocabulary, spec)
    for other in (Translator.ensemble([translator, translator]), by_hand):
        refused("attention weights are only available for a single model", other.attention, TEXT)
