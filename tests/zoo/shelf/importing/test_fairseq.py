"""Checkpoints of fairseq: what they compute, and what of them a spec cannot say."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, build
from specs import ZooError
from zoo.shelf.importing.fairseq.format import Fairseq
from zoo.shelf.importing.imported import Imported, Wanted
from zoo.translation.translator import Translator

sys.path.insert(0, os.fspath(Path(__file__).parent))
import fairseq_world as world  # noqa: E402

SENTENCES = (("a b cc", "e f"), ("d@@ h h g a", "b"), ("zzz a", "cc e zzz"), ("b", "a a a a a a a"))
MODELS = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "tied": {"share_all_embeddings": True},
    "tied-target": {"share_decoder_input_output_embed": True, "activation_fn": "gelu"},
    "tied-and-not-scaled": {"share_all_embeddings": True, "no_scale_embedding": True},
    "depths": {"encoder_layers": 3, "decoder_layers": 1, "activation_fn": "swish"},
}


def imported(folder: Path) -> Imported:
    return Fairseq().read(folder, Wanted("model"))


def translator(model: Imported) -> Translator:
    program = build(model.spec, TRANSLATE, weights=model.tensors, backend="eager", device="cpu")
    return Translator(program, model.vocabulary, model.spec)


def ids(text: str, words: tuple[str, ...]) -> list[int]:
    return [*(4 + words.index(word) if word in words else 3 for word in text.split()), world.ENDS]


@pytest.mark.parametrize("changed", MODELS.values(), ids=MODELS)
def test_it_computes_what_the_checkpoint_does(changed: dict[str, Any], tmp_path: Path) -> None:
    of = world.options(**changed)
    found = world.tensors(of)
    model = imported(world.write(tmp_path, of, found))
    ours = translator(model)
    of_target = world.WORDS if of["share_all_embeddings"] else world.WORDS[::-1]
    for source, target in SENTENCES:
        expected = world.log_probabilities(of, found, ids(source, world.WORDS), ids(target, of_target))
        (scored,) = ours.forced([source], [target])
        torch.testing.assert_close(torch.tensor(scored.token_log_probabilities), expected, atol=1e-5, rtol=0)


def test_it_says_what_it_is(tmp_path: Path) -> None:
    of = world.options(share_all_embeddings=True)
    spec = imported(world.write(tmp_path, of, world.tensors(of))).spec
    assert (spec.corpus.source, spec.corpus.target) == ("en", "de-DE")
    assert (spec.architecture.positional_encoding, spec.architecture.first_position) == ("sinusoidal_halves", 2)
    assert spec.architecture.tied_embeddings == "all"
    assert (spec.decoding.beam, spec.decoding.length_penalty, spec.decoding.alpha) == (5, "power", 1.0)
    assert (spec.decoding.length_factor, spec.decoding.extra_length) == (0, 200)
