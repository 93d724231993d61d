"""Marian's models compute the same as a forward pass in torch; what a spec cannot express is rejected by name."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from compiler import TRANSLATE
from specs import EOS, UNK
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.generation.compilation import build_with_message
from zoo.generation.translator import Translator
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.importer import find_format, read_foreign
from zoo.interop.marian.importer import MarianImport
from zoo.report import Report

PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
STUDENT = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru", "transformer-ffn-activation": "relu"}
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": PRE_NORM,
    "student": STUDENT,
    "pre-norm student": PRE_NORM | STUDENT,
    "deep decoder": {"dec-depth": 3},
    "tied target": {"tied-embeddings-all": False, "tied-embeddings": True},
    "untied, no output bias": {"tied-embeddings-all": False, "output-omit-bias": True},
}
RECORDED = Path(os.environ.get("ZOO_MARIAN", "")).absolute()
SEARCHES = {"greedy": (1, 0.0), "beam4_sum": (4, 0.0), "beam6_norm0.6": (6, 0.6)}


def read(path: Path, **choices: Any) -> ImportedModel:
    return read_foreign(find_format(path), path, ImportRequest("mine", **choices))


class Model:
    """A model in a folder, with its SentencePiece model and its weights."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.options = folder, tiny.MARIAN_OPTIONS | options
        self.processor = tiny.write_sentencepiece(folder / "v.spm")
        self.rows = self.processor.get_piece_size()
        self.weights = tiny.marian_weights(self.options, self.rows)
        self.decoder = {"models": ["model.npz"], "vocabs": ["v.spm", "v.spm"], "beam-size": 6, "normalize": 0.6}
        self.path = self.write()

    def write(self, decoder: dict[str, Any] | None = None, **options: Any) -> Path:
        return tiny.write_marian(self.folder, self.options | options, self.weights, self.decoder | (decoder or {}))


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_imported_model_computes_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    model = Model(tmp_path, **options)
    imported, marian = read(model.path), tiny.marian_reference(model.weights, model.options)
    for source, target in tiny.SENTENCES:
        source_ids, target_ids = ([*model.processor.encode(text), 0] for text in (source, target))
        expected = marian.log_probabilities(source_ids, target_ids)
        np.testing.assert_allclose(tiny.log_probabilities(imported.model, source, target), expected, atol=2e-5)


def test_pre_norm_models_of_old_and_unknown_marians_are_rejected(tmp_path: Path) -> None:
    """Until 1.10.23, Marian trained self-attention with keys and values that are not normalised."""
    old = r"is older than 1\.10\.42.* may not normalise the keys and values(.|\s)*train it again with Marian 1.11"
    unknown = "does not begin with the number of the Marian version"
    for version, message in (("v1.9.0 ba94c5b9 2020-05-17", old), ("v1.10.28", old), ("unknown", unknown)):
        model = Model(tmp_path, **PRE_NORM, version=version)
        refused(f"`version: {version}` {message}", read, model.path)
        read(Model(tmp_path, version=version).path)  # post-norm models have no such difference
    del model.options["version"]
    refused("the `version` setting is missing", read, model.write())


def test_difference_of_marians_search_is_noted(tmp_path: Path) -> None:
    for options, notes in (({}, 0), (STUDENT, 0), (PRE_NORM | STUDENT, 0), (PRE_NORM | {"version": "v1.10.42"}, 1)):
        assert sum("does not normalise keys" in note for note in read(Model(tmp_path, **options).path).notes) == notes


def test_tied_layers_are_copied(model: Model) -> None:
    tensors = read(model.write(**{"dec-depth": 2, "transformer-tied-layers": [1, 1]})).model.weights.tensors
    for name in ("feed_forward.w1", "self_attention.query", "cross_attention.norm_gain"):
        torch.testing.assert_close(tensors[f"decoder.0.{name}"], tensors[f"decoder.1.{name}"])


def test_search_settings_are_imported(model: Model) -> None:
    spec = read(model.path, languages=("en", "de")).model.spec
    decoding = spec.decoding
    assert (decoding.beam, decoding.alpha, decoding.length_penalty) == (6, 0.6, "power")
    assert (decoding.stopping_rule, decoding.length_factor, decoding.suppressed_tokens) == ("shrinking", 3.0, (UNK,))
    assert (spec.corpus.source, spec.corpus.target, spec.corpus.train) == ("en", "de", ())
    # Marian allows F (S + 1) tokens for a source of S tokens, where both counts include EOS.
    for factor, extra in ((3, 2), (1, 0), (0.5, 0), (1.5, 1), (4.0, 3)):
        decoding = read(model.write({"max-length-factor": factor})).model.spec.decoding
        assert (decoding.length_factor, decoding.extra_length) == (factor, extra)
    # With length^1, a penalty per word does not change the order of translations.
    assert read(model.write({"word-penalty": 0.5, "normalize": 1})).model.spec.decoding.alpha == 1


def test_token_list_with_two_sentencepiece_models(tmp_path: Path) -> None:
    """OPUS-MT has one list for both sides. Each SentencePiece model knows a part of it."""
    models = [tiny.train_sentencepiece(lines, 45) for lines in (tiny.TEXT[:3], tiny.TEXT[3:])]
    source, target = map(tiny.processor, models)
    for side, content in zip(("source", "target"), models, strict=True):
        (tmp_path / f"{side}.spm").write_bytes(content)
    unlisted = source.id_to_piece(source.encode("the")[0])
    ids = {name: id for id, name in enumerate(name for name in tiny.joint_names(source, target) if name != unlisted)}
    (tmp_path / "both.yml").write_text(yaml.safe_dump(ids, allow_unicode=True))
    weights = tiny.marian_weights(tiny.MARIAN_OPTIONS, len(ids))
    decoder = {"models": ["model.npz"], "vocabs": ["both.yml"] * 2}
    imported = read(tiny.write_marian(tmp_path, tiny.MARIAN_OPTIONS, weights, decoder))
    model, section = imported.model, imported.model.spec.vocabulary
    assert (section.shared, section.separate_models, model.vocabulary.same_on_both_sides) == (True, True, True)
    assert any(">>deu<<" in note for note in imported.notes)
    language, *others = model.vocabulary.encode(">>deu<< a dog")
    assert others == model.vocabulary.encode("a dog")
    assert language > EOS
    source_ids = [ids.get(name, 1) for name in [">>deu<<", *source.encode("a dog the", out_type=str)]] + [0]
    target_ids = [*(ids[name] for name in target.encode("der Hund", out_type=str)), 0]
    expected = tiny.marian_reference(weights, tiny.MARIAN_OPTIONS).log_probabilities(source_ids, target_ids)
    np.testing.assert_allclose(tiny.log_probabilities(model, ">>deu<< a dog the", "der Hund"), expected, atol=2e-5)


def test_unsupported_options_are_rejected_by_name(model: Model) -> None:
    named = {"type": "s2s", "right-left": True, "transformer-decoder-autoreg": "average-attention", "dim-emb": "wide"}
    named |= {"transformer-ffn-activation": "gelu", "transformer-decoder-dim-ffn": 99, "transformer-heads": 0}
    for options, message in (
        *tiny.rejections(**named),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "`dec-cell: gru`"),
        ({"transformer-heads": 3}, "`dim-emb: 8` is odd, less than 4, or cannot be divided among 3 heads"),
        ({"transformer-preprocess": "n"}, "neither post-norm"),
        ({"transformer-tied-layers": [2]}, "`transformer-tied-layers"),
        ({"transformer-new-thing": 1}, "`transformer-new-thing: 1` is an unknown setting"),
    ):
        assert "special:model.yml" in str(refused(message, read, model.write(**options)).where)


def test_unsupported_search_settings_are_rejected_by_name(model: Model) -> None:
    for decoder, message in (
        ({"word-penalty": 0.5}, "word-penalty: 0.5"),
        ({"models": ["a.npz", "b.npz"]}, "ensembles"),
        ({"vocabs": ["v.spm"]}, "one vocabulary for the source and one for the target"),
        ({"force-decode": True}, "force-decode: true"),
        ({"max-length-factor": float("inf")}, "max-length-factor: .inf"),
        ({"some-new-key": 1}, "some-new-key: 1"),
    ):
        path = model.write(decoder)
        refused(message, read, path.with_name("model.npz.decoder.yml") if "models" in decoder else path)


def test_quantised_and_damaged_files_are_rejected(model: Model) -> None:
    original = model.weights["encoder_l1_ffn_W1"]
    for wrong, message in (
        (original.astype(np.int8), r"is a quantised model: .* int8"),
        (np.array([object()]), "allow_pickle=False"),
        (original[:, :-1], r"`encoder_l1_ffn_W1` has the shape \[8, 15\]"),
    ):
        model.weights["encoder_l1_ffn_W1"] = wrong
        refused(message, read, model.write())
    model.weights["encoder_l1_ffn_W1"] = original
    (model.folder / "v.spm").write_bytes(b"\x0a\x03\x0a\x01a" * 9)
    refused(r"v\.spm` is damaged", read, model.write())
    with zipfile.ZipFile(model.path, "a") as archive:
        archive.writestr("Wemb", archive.read("Wemb.npy"))
    refused("it contains a tensor twice", read, model.path)
    model.path.write_bytes(model.path.read_bytes()[:100])
    refused("is not a valid marian model", read_foreign, MarianImport(), model.path, ImportRequest("mine"))


def test_token_lists_need_sentencepiece_models_and_utf_8(model: Model) -> None:
    (model.folder / "v.yml").write_bytes(b"</s>: 0\n<unk>: 1\n\xe4: 2\n")
    path = model.write({"vocabs": ["v.yml", "v.yml"]})
    hidden = (model.folder / "v.spm").rename(model.folder / "hidden")
    refused(r"lacks `source\.spm` or `target\.spm`", read, path)
    hidden.rename(model.folder / "v.spm")
    refused(r"v\.yml` is damaged: it is not a list of tokens", read, path)


@pytest.mark.parametrize("key", ["models", "vocabs"])
def test_settings_cannot_name_files_outside_the_folder(tmp_path: Path, key: str) -> None:
    (tmp_path / "inside").mkdir()
    model = Model(tmp_path / "inside")
    for name in model.decoder[key]:
        (tmp_path / f"other-{name}").write_bytes((model.folder / name).read_bytes())
    model.write({key: [str(tmp_path / f"other-{name}") for name in model.decoder[key]]})
    refused(r"inside/other-.*` is missing", read, model.folder)
    model.write({key: [str(tmp_path / "elsewhere" / name) for name in model.decoder[key]]})
    assert read(model.folder).model.spec.name == "mine"


@pytest.mark.slow
@pytest.mark.skipif("ZOO_MARIAN" not in os.environ, reason="ZOO_MARIAN names a folder of Marian's models and outputs")
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("name", "key"), [("base.npz", "base"), ("student.npz", "student"), ("hf", "base")])
def test_translations_of_trained_models_are_marians(name: str, key: str, backend: str) -> None:
    outputs: list[dict[str, Any]] = json.loads((RECORDED / "marian_outputs.json").read_text())
    model = read(RECORDED / name).model
    program = build_with_message(
        model.spec, TRANSLATE, Report(), weights=model.weights.tensors, device="cpu", backend=backend
    )
    translator, sources = Translator(program, model.vocabulary, model.spec), [item["source"] for item in outputs]
    for search, (beam, alpha) in SEARCHES.items():
        hypotheses = translator.hypotheses(sources, beam=beam, alpha=alpha, n_best=beam, split=False)
        for item, (best, *_) in zip(outputs, hypotheses, strict=True):
            (text, total, score), *_ = item[key][search]
            assert best.text == text
            # Marian rounds what it prints, and computes in another order.
            assert best.log_probability == pytest.approx(total, abs=1e-3)
            assert best.score == pytest.approx(score, abs=1e-3)
