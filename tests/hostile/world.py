"""Files that all cases share: two published models with random weights, a run, a registry, and foreign models."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import chdir
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import specs
import zoo
from compiler import build
from tests.examples import PAIRS, SMALL, changed, examples, write_pairs
from tests.zoo.interop import conftest as marian
from tests.zoo.interop.test_fairseq import Model as FairseqModel
from zoo.files import manifest
from zoo.generation.translation import Translation
from zoo.interop.ctranslate2.exporter import CTranslate2Export
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.t5 import T5
from zoo.interop.sentencepiece_model import SentencePieceModel
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.publishing import publish
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

LINES = [*(source for source, _ in PAIRS), "", "two old cats"]
GOOD, OTHER = "good", "other"
_FILES = [{"source": "pairs.en", "target": "pairs.de"}]
FIELDS: dict[str, dict[str, Any]] = {
    **SMALL,
    "architecture": {**SMALL["architecture"], "N": 1},
    "corpus": {"train": _FILES, "dev": _FILES, "test": _FILES},
    "training": {"steps": 1, "checkpoint_steps": 1, "average": 1},
    "decoding": {"extra_length": 3},
}


class World:
    """The shared files. Nothing may change them once they are made.

    Attributes:
        store: Local model store with GOOD and OTHER.
        run: Run of GOOD, as after training.
        foreign: Folder with one model per foreign format, named after the format.
        registry: Registry with OTHER, and two revisions of GOOD, the second of which is the one in the store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store, self.run = folder / "home" / "models", folder / "runs" / GOOD
        self.foreign, self.registry = folder / "foreign", folder / "registry"

    @cached_property
    def hypotheses(self) -> list[list[Translation]]:
        """Two translations by GOOD of each of LINES."""
        return zoo.load(str(self.run), device="cpu").hypotheses(LINES, n_best=2)

    def make(self) -> None:
        """Write all files into the folder, which is empty."""
        os.environ["ZOO_HOME"] = str(self.folder / "home")
        with chdir(self.folder):
            write_pairs(PAIRS)
            for name, seed in ((OTHER, 2), (GOOD, 1)):
                self._publish(name, seed)
            _write_foreign(self.foreign)
            self._upload()

    def _upload(self) -> None:
        """Upload copies, because an upload notes in the bundle where it went. The first revision has another card."""
        for name, original in (("before", GOOD), (GOOD, GOOD), (OTHER, OTHER)):
            folder = self.folder / "uploaded" / name
            shutil.copytree(self.store / original, folder)
            if name == "before":
                (folder / "README.md").write_text("the first card\n")
                manifest.write(folder)
            publish.upload(folder, str(self.registry))

    def _publish(self, name: str, seed: int) -> None:
        run = Run(self.folder / "runs" / name)
        run.folder.mkdir(parents=True)
        spec = specs.load("tiny", {**FIELDS, "name": name})
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        lines = [(source[:: 3 - 2 * seed], target) for source, target in PAIRS * 3]  # OTHER reads backwards
        Vocabulary.learn(lambda: examples(lines), spec.vocabulary).save(run.folder)
        weights = build(changed(spec, "training", seed=seed)).weights()
        Weights(weights, {"steps": "3,6,9", "longest_source": "31"}).write(run.weights)
        publish.publish(run.folder, name=name)


# Models of other toolkits

EVEN = {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 8, "d_v": 8}
_LANGUAGES = {"codes": ["en", "de"], "token": "{}", "source_token": "source", "target_token": "target"}
_NLLB = {"norm": {"placement": "pre", "epsilon": 1e-5}, "positions": {"kind": "sinusoidal_halves", "first": 2}}
_RELU = {"kind": "feed_forward", "bias": False, "activation": "relu"}
_T5 = {
    "encoder": [{"kind": "self_attention"}, _RELU],
    "decoder": [{"kind": "self_attention"}, {"kind": "cross_attention"}, _RELU],
    "positions": {"kind": "relative", "buckets": 8, "max_distance": 12},
    "norm": {"kind": "rms_norm", "placement": "pre"},
    "attention_score": "dot_product",
    "scale_embeddings": False,
}


def _model(architecture: dict[str, Any], kind: str = "bpe", **fields: Any) -> Model:
    """Return a model with random weights, in two languages if `fields` has them."""
    corpus = {"max_length": 40, **FIELDS["corpus"]}
    vocabulary = {"size": 60 if kind == "unigram" else 101, "kind": kind}
    fields |= {"decoding": {"extra_length": 3, "length_factor": 0.0}}
    own = {**FIELDS, "architecture": {**EVEN, **architecture}, "vocabulary": vocabulary, "corpus": corpus, **fields}
    spec = specs.load("tiny", {**own, "name": "foreign"})
    tokens = [spec.languages.token_of(code) for code in spec.languages.codes] if spec.languages else []
    learned = Vocabulary.learn(lambda: examples([*PAIRS] * 3), spec.vocabulary, language_tokens=tokens)
    return Model(spec, learned, Weights(build(spec).weights()))


def _write_foreign(folder: Path) -> None:
    """Write a model in each format that can be imported."""
    for name in ("marian", "hf-marian", "hf-multilingual", "hf-t5", "fairseq"):
        (folder / name).mkdir(parents=True)
    vocabulary = marian.train_sentencepiece(marian.TEXT)
    (folder / "marian" / "v.spm").write_bytes(vocabulary)
    weights = marian.marian_weights(marian.MARIAN_OPTIONS, marian.processor(vocabulary).get_piece_size())
    decoder = {"models": ["model.npz"], "vocabs": ["v.spm", "v.spm"], "beam-size": 2, "normalize": 0.6}
    marian.write_marian(folder / "marian", marian.MARIAN_OPTIONS, weights, decoder)
    FairseqModel().write(folder / "fairseq")
    HuggingFaceMarian().write(_model({}), folder / "hf-marian")
    Multilingual().write(_model(_NLLB, languages=_LANGUAGES), folder / "hf-multilingual")
    t5 = folder / "hf-t5"
    T5().write(_model(_T5, "unigram"), t5)
    entries = SentencePieceModel(t5 / "spiece.model").entries
    model = {"type": "Unigram", "unk_id": 2, "vocab": [[entry.name, entry.score] for entry in entries]}
    (t5 / "tokenizer.json").write_text(json.dumps({"model": model, "normalizer": None, "added_tokens": []}))
    (t5 / "spiece.model").unlink()
    if find_spec("ctranslate2"):
        (folder / "ctranslate2").mkdir()
        CTranslate2Export().write(_model({}), folder / "ctranslate2")
