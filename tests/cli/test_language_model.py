"""A language model: `zoo train`, `publish`, `verify`, `decode`, `score`, `evaluate` and the commands that refuse it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo as library
from zoo.generation.translator import LanguageModel

SPEC = """
extends: tiny
name: english
task: {kind: language_modelling}
architecture:
  {N: 1, d_model: 32, d_ff: 64, h: 2, d_k: 16, d_v: 16,
   encoder: [], decoder: [{kind: self_attention}, {kind: feed_forward}]}
vocabulary: {size: 90}
corpus: {source: en, target: en, train: [{target: english.txt}], dev: [{grammar: 20}], test: [], max_length: 100}
training: {steps: 60, checkpoint_steps: 30, average: 1, target_tokens: 1024, warmup_steps: 20}
"""


@pytest.mark.integration
def test_a_model_of_english_is_trained_published_sampled_and_scored(zoo: Callable[..., Any]) -> None:
    examples = library.data.builtin.examples("train", 600, {"target": "text"}, {"target": "en"})
    Path("english.txt").write_text("".join(f"{each['target']}\n" for each in examples), encoding="utf-8")
    Path("english.yaml").write_text(SPEC, encoding="utf-8")
    assert zoo("train", "english.yaml", "--run", "runs/english").printed == ""
    perplexity = float(zoo("evaluate", "--model", "runs/english", "--set", "dev").out.split()[1])
    assert 3 < perplexity < 60  # a model that has learned nothing has about 90
    folder = Path(zoo("publish", "runs/english").printed.strip())
    assert "4 sentences have the published log-probabilities" in zoo("verify", "english").out
    assert "language model of `en` text" in (folder / "README.md").read_text()
    assert "; ready in " in zoo("compile", "--model", "english").out
    scores = zoo("score", "english", stdin="The old dog sleeps.\n.speels god dlo ehT\n").out
    english, letters = map(float, scores.split())
    assert english > letters + 5
    model = library.load("english", device="cpu")
    assert isinstance(model, LanguageModel)
    assert model.score(["The old dog sleeps."]) == pytest.approx([english], abs=1e-3)
    decoded = zoo("decode", "english", "--search", "sample", "--seed", "1", stdin="The old\n\n").out.splitlines()
    assert (len(decoded), decoded[0][:7]) == (2, "The old")
    for command in (
        ("export", "english", "--to", "ctranslate2", "-o", "exported"),
        ("score", "english", "--source", "english.txt", "--target", "english.txt"),
        ("parse", "english"),
        ("align", "english"),
        ("shortlist", "runs/english"),
    ):
        assert re.search("english|language model", zoo(*command, stdin="a\tb\n").refusal), command
