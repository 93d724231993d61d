"""Language models: models without an encoder that score texts and continue prompts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import specs
from compiler import build
from specs import BOS, EOS, Spec
from tests.examples import PAIRS, SMALL
from tests.refusals import refused
from zoo.generation.translator import LanguageModel
from zoo.text.vocabulary import Vocabulary
from zoo.training.benchmarks import benchmark_training

DECODER: dict[str, Any] = {"encoder": [], "decoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}]}
FIELDS: dict[str, Any] = {
    "task": {"kind": "language_modelling"},
    "architecture": DECODER,
    "corpus": {"source": "en", "target": "en", "dev": [{"grammar": 20}], "test": []},
    "name": "small-lm",
}
TEXTS = [source for source, _ in PAIRS]


SPEC = specs.load("tiny", {**FIELDS, "architecture": {**SMALL["architecture"], **DECODER}, "vocabulary.size": 101})


@pytest.fixture
def model(tokens: Vocabulary) -> LanguageModel:
    torch.manual_seed(3)
    return LanguageModel(build(SPEC, backend="eager"), tokens, SPEC)


def log_probabilities(spec: Spec, weights: dict[str, Tensor], ids: list[int]) -> Tensor:
    """Return the log-probabilities of all tokens after each of `ids`, computed as in the paper with plain torch."""
    a, table = spec.architecture, weights["embedding"]
    angles = torch.arange(len(ids))[:, None] / 10_000 ** (torch.arange(0, a.d_model, 2) / a.d_model)
    x = table[ids] * math.sqrt(a.d_model) + torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
    for layer in range(2):
        own = {name.removeprefix(f"decoder.{layer}."): value for name, value in weights.items()}

        def norm(value: Tensor, part: str, own: dict[str, Tensor] = own) -> Tensor:
            gain, bias = own[f"{part}.norm_gain"], own[f"{part}.norm_bias"]
            return functional.layer_norm(value, (a.d_model,), gain, bias, a.norm.epsilon)

        projected = (x @ own[f"self_attention.{name}"] for name in ("query", "key", "value"))
        heads = (part.unflatten(1, (a.h, -1)).transpose(0, 1) for part in projected)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(0, 1).flatten(1)
        x = norm(x + attended @ own["self_attention.output"], "self_attention")
        inner = (x @ own["feed_forward.w1"] + own["feed_forward.b1"]).relu()
        x = norm(x + inner @ own["feed_forward.w2"] + own["feed_forward.b2"], "feed_forward")
    return (x @ table.T).log_softmax(1)


def test_log_probabilities_equal_an_independent_implementation(model: LanguageModel) -> None:
    scores, weights = model.score_tokens([*TEXTS, ""]), model.program.weights()  # type: ignore[attr-defined]
    for text, score in zip([*TEXTS, ""], scores, strict=True):
        ids = model.vocabulary.encode(text)
        rows = log_probabilities(model.spec, weights, [BOS, *ids])
        expected = [float(row[token]) for row, token in zip(rows, [*ids, EOS], strict=True)]
        assert score.token_log_probabilities == pytest.approx(expected, abs=1e-4)
    assert model.score(TEXTS) == pytest.approx([score.log_probability for score in scores[:-1]])


def test_greedy_search_takes_the_most_probable_token_after_the_prompt(model: LanguageModel) -> None:
    for prompt in ("we read", ""):
        ((best,),) = model.generate([prompt], search="beam", beam=1)
        ids = model.vocabulary.encode(prompt) if prompt else []
        assert list(best.tokens[: len(ids)]) == ids
        rows = log_probabilities(model.spec, model.program.weights(), [BOS, *best.tokens])  # type: ignore[attr-defined]
        rows[:, [0, BOS]] = -math.inf
        for place in range(len(ids), len(best.tokens)):
            assert float(rows[place].max() - rows[place, best.tokens[place]]) < 1e-4
        assert best.text.startswith(prompt)


def test_prompts_of_different_lengths_share_batches(model: LanguageModel) -> None:
    prompts = ["we", "the old dog", "", "do you see the cat?", "she"]
    together = model.generate(prompts, search="beam", beam=3, n_best=2)
    for prompt, found in zip(prompts, together, strict=True):
        (alone,) = model.generate([prompt], search="beam", beam=3, n_best=2)
        assert [each.tokens for each in alone] == [each.tokens for each in found]
    samples = model.generate(["we"], search="sample", n_best=5, seed=1)[0]
    assert len({each.text for each in samples}) > 1
    assert all(each.text.startswith("we") for each in samples)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_give_similar_scores(model: LanguageModel, precision: str) -> None:
    weights = model.program.weights()  # type: ignore[attr-defined]
    other = LanguageModel(build(SPEC, weights=weights, precision=precision), model.vocabulary, SPEC)
    assert other.score(TEXTS) == pytest.approx(model.score(TEXTS), rel=0.05)
    assert other.generate(["we read"], search="beam")[0][0].text.startswith("we read")


def test_what_does_not_exist_is_refused(model: LanguageModel) -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: model.align(["a"], ["b"]), "word alignment needs a model that reads a source"),
        (lambda: model.attention("a"), "attention needs a model that reads a source"),
        (lambda: model.generate(["we", "we Ω"]), r"prompt 'we Ω' has characters that the model cannot .*\(text 2\)"),
        (lambda: model.generate(["dog " * 600]), "takes at most 1,024"),
        (lambda: model.hypotheses(["we"], prefixes=["we"]), "a language model accepts no prefixes"),
        (lambda: model.score(["a\nb"]), "line"),
        (lambda: benchmark_training(model.spec), "the benchmark needs a model that reads a source"),
        (lambda: build(model.spec, backend="native"), "needs an encoder"),
    ]
    for call, problem in calls:
        refused(problem, call)
    with pytest.raises(TypeError, match="pass a list of strings"):
        model.score("we")


INVALID = [
    ({"architecture.encoder": [{"kind": "feed_forward"}]}, "no `cross_attention`"),
    ({"architecture.decoder": [{"kind": "cross_attention"}]}, "has nothing to read"),
    ({"task": {"kind": "translation"}, "corpus.target": "de"}, "needs sub-layers in `architecture.encoder`"),
    ({"vocabulary.shared": False, "architecture.tied_embeddings": "none"}, "`vocabulary.shared` is false"),
    ({"languages": {"codes": ["en", "de"]}}, "`languages` has several"),
    ({"corpus.train": [{"source": "a", "target": "b"}]}, "reads no source"),
    ({"corpus.target": "fr"}, "not `en` and `fr`"),
]


@pytest.mark.parametrize(("fields", "problem"), INVALID)
def test_invalid_specs_are_refused(fields: dict[str, object], problem: str) -> None:
    refused(problem, specs.load, "tiny", {**FIELDS, **fields})
