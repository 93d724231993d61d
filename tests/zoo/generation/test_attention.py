"""Attention weights over a text and a translation of it, the model's own or a given one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import specs
import zoo
from compiler import Purpose, build, interpret, lower
from specs import BOS, EOS, ZooError
from zoo.generation.attention import Attention
from zoo.generation.translator import Translator
from zoo.models.loading import read_model
from zoo.training.run import Run

TEXT = "the old dog sees a small house"


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return zoo.load(trained().folder, device="cpu")


def toy(**fields: object) -> Attention:
    """Two tokens of one word, then one of another; weights that can be counted in the head."""
    encoder = torch.tensor([[[[0.5, 0.25, 0.0, 0.25], [0.0, 0.5, 0.5, 0.0], [1.0, 0, 0, 0], [0, 0, 0, 1.0]]]])
    decoder = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
    cross = torch.tensor([[[[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 1.0, 0.0]]]])
    made = Attention(
        text="ab c",
        translation="d",
        forced=False,
        log_probability=-1.0,
        source=("▁a", "b", "▁c", "</s>"),
        target_input=("<s>", "▁d"),
        target=("▁d", "</s>"),
        encoder=encoder,
        decoder=decoder,
        cross=cross,
        backend="eager",
        precision="float32",
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def test_attention_over_the_models_own_translation(translator: Translator) -> None:
    found = translator.attention(TEXT)
    own = translator.hypotheses([TEXT])[0][0]
    assert (found.text, found.translation, found.forced) == (TEXT, own.text, False)
    assert found.log_probability == pytest.approx(own.log_probability, abs=1e-3)
    assert len(found.target) == len(own.tokens) + 1
    assert found.target_input == ("<s>", *found.target[:-1])


def test_attention_over_a_given_translation(translator: Translator) -> None:
    found = translator.attention(TEXT, "der alte Hund")
    assert (found.translation, found.forced) == ("der alte Hund", True)
    assert "".join(found.target) == "▁der▁alte▁Hund</s>"
    assert "".join(found.source) == "▁the▁old▁dog▁sees▁a▁small▁house</s>"
    assert found.log_probability == pytest.approx(translator.score(TEXT, "der alte Hund"), abs=1e-4)


def test_weights_equal_the_interpreters(trained: Callable[..., Run]) -> None:
    run = trained(architecture={**_wide(), "N": {"encoder": 3, "decoder": 2}})
    model, found = read_model(run.folder), zoo.load(run.folder, device="cpu").attention(TEXT, "der Hund")
    encode = model.vocabulary.encode
    given = {"source": [[*encode(TEXT), EOS]], "target": [[BOS, *encode("der Hund", "target"), EOS]]}
    inputs = {name: torch.tensor(rows) for name, rows in given.items()}
    expected = interpret(lower(model.spec, Purpose.ATTEND), dict(model.weights.tensors), inputs)
    kinds = {"encoder": "encoder.{}.self_attention", "decoder": "decoder.{}.self_attention"}
    for name, depth in {"encoder": 3, "decoder": 2, "cross": 2}.items():
        each = getattr(found, name)
        assert each.shape[:2] == (depth, model.spec.architecture.h)
        for layer in range(depth):
            theirs = expected[kinds.get(name, "decoder.{}.cross_attention").format(layer)][0]
            torch.testing.assert_close(each[layer], theirs, atol=1e-5, rtol=0)


def _wide() -> dict[str, object]:
    return {"d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4}


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_attention_of_reduced_precision_models(trained: Callable[..., Run], precision: str) -> None:
    run = trained()
    found = zoo.load(run.folder, device="cpu", precision=precision).attention(TEXT)
    assert (found.backend, found.precision) == ("eager", precision)
    for each in (found.encoder, found.decoder, found.cross):
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]))


def test_by_words_averages_rows_and_sums_columns() -> None:
    found = toy().by_words()
    assert found.source == ("ab", "c", "</s>")
    assert (found.target_input, found.target) == (("<s>", "d"), ("d", "</s>"))
    assert found.encoder.tolist() == [[[[0.625, 0.25, 0.125], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]]
    assert found.decoder.tolist() == toy().decoder.tolist()
    assert found.cross.tolist() == [[[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]]]


def test_words_are_those_of_the_text(translator: Translator) -> None:
    found = translator.attention(f" {TEXT} ", "ein Hund").by_words()
    assert found.source == (*TEXT.split(), "</s>")
    assert (found.target_input, found.target) == (("<s>", "ein", "Hund"), ("ein", "Hund", "</s>"))
    for each in (found.encoder, found.decoder, found.cross):
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]))


def test_unknown_characters_and_byte_tokens_are_shown_as_text(translator: Translator) -> None:
    for target in (None, "der Hund"):
        with pytest.warns(UserWarning, match="characters that the model does not know"):
            found = translator.attention("the ☃ dog", target)
        assert found.by_words().source == ("the", "☃", "dog", "</s>")
    assert toy(source=("▁", "<0xC3>", "<0xA4>", "</s>")).by_words().source == ("ä", "</s>")


def test_a_stack_without_attention_has_zero_layers(trained: Callable[..., Run]) -> None:
    architecture = {**_wide(), "N": 2, "encoder": [{"kind": "feed_forward"}], "decoder": [{"kind": "cross_attention"}]}
    found = zoo.load(trained(architecture=architecture).folder, device="cpu").attention(TEXT)
    assert (len(found.encoder), len(found.decoder), len(found.cross)) == (0, 0, 2)
    assert found.by_words().encoder.shape[0] == 0


def test_restricted_attention_is_self_attention(trained: Callable[..., Run]) -> None:
    near = [{"kind": "restricted_attention", "radius": 1}, {"kind": "feed_forward"}]
    found = zoo.load(trained(**{"architecture.encoder": near}).folder, device="cpu").attention(TEXT)
    assert found.encoder.shape[0] == found.decoder.shape[0] == found.cross.shape[0]
    apart = torch.arange(len(found.source))[:, None] - torch.arange(len(found.source))
    assert not found.encoder[..., apart.abs() > 1].any()
    assert torch.allclose(found.encoder.sum(-1), torch.ones(()))


@pytest.mark.parametrize("text", ["", " \t"])
def test_an_empty_text_is_refused(translator: Translator, text: str) -> None:
    with pytest.raises(ZooError, match="no attention over an empty text"):
        translator.attention(text)


def test_a_text_that_is_split_is_refused(trained: Callable[..., Run]) -> None:
    run = trained(decoding={"max_source_length": 8})
    with pytest.raises(ZooError, match="takes at most 8") as caught:
        zoo.load(run.folder, device="cpu").attention("the dog sees. the old dog sees")
    assert caught.value.hint == "give one of its sentences"


def test_ensembles_and_translators_made_from_programs_are_refused(translator: Translator) -> None:
    spec = specs.load("tiny")
    by_hand = Translator(build(translator.spec, backend="eager"), translator.vocabulary, spec)
    for other in (Translator.ensemble([translator, translator]), by_hand):
        with pytest.raises(ZooError, match="attention is only available for a single model"):
            other.attention(TEXT)
