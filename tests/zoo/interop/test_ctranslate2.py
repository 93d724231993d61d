"""Folders that CTranslate2's Python package writes compute the same as in its engine."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from compiler import TRANSLATE, build
from specs import Sinusoidal
from tests.examples import changed
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.generation.translator import Translator
from zoo.interop.ctranslate2.exporter import open_translator
from zoo.interop.ctranslate2.importer import CTranslate2Import
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.importer import read_foreign
from zoo.interop.text_rules import TextOptions

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

D_MODEL, D_FF, HEADS = 32, 48, 8
WORDS = [f"w{number}" for number in range(9)]
LIST = ["<blank>", "<s>", "</s>", *WORDS, "<unk>"]
SENTENCES = [("w1 w2 w8", "w3 w3"), ("w0", "w4 w5 w6 w7 w0"), ("w1 zzz w1 w1 w1 w1", "w2"), ("x y w1 z x x", "w2")]


def random(rows: int, *columns: int) -> Any:
    return (torch.randn(rows, *columns) / 4).numpy()


def fill_linear(linear: Any, inputs: int, outputs: int, bias: bool) -> None:
    linear.weight = random(outputs, inputs)
    if bias:
        linear.bias = random(outputs)


def fill_norm(norm: Any) -> None:
    norm.gamma = 1 + random(D_MODEL)
    if hasattr(norm, "beta"):  # RMSNorm has no bias
        norm.beta = random(D_MODEL)


def random_model(
    *,
    pre_norm: bool = True,
    activation: str = "RELU",
    biased: bool = True,
    parts: Sequence[str] = (),
    change: Callable[[Any], object] = lambda model: None,
    **settings: Any,
) -> Any:
    """Return a random model as an object of CTranslate2, ready to be saved."""
    torch.manual_seed(5)
    kind, on = getattr(ctranslate2.specs.Activation, activation), dict.fromkeys(parts, True)
    model = ctranslate2.specs.TransformerSpec.from_config((2, 1), HEADS, pre_norm=pre_norm, activation=kind, **on)
    for side in (model.encoder, model.decoder):
        bias = random(8, HEADS) if "relative_attention_bias" in parts else None  # the same in all layers of a side
        if pre_norm:
            fill_norm(side.layer_norm)
        for layer in side.layer:
            for attention in [layer.self_attention, *([layer.attention] if hasattr(layer, "attention") else [])]:
                sizes = (3 * D_MODEL, D_MODEL) if len(attention.linear) == 2 else (D_MODEL, 2 * D_MODEL, D_MODEL)
                for linear, size in zip(attention.linear, sizes, strict=True):
                    fill_linear(linear, D_MODEL, size, biased)
                fill_norm(attention.layer_norm)
            if bias is not None:
                layer.self_attention.relative_attention_bias = bias
                layer.self_attention.relative_attention_max_distance = np.int32(6)
            fill_linear(layer.ffn.linear_0, D_MODEL, D_FF, biased)
            if "ffn_glu" in parts:
                fill_linear(layer.ffn.linear_0_noact, D_MODEL, D_FF, biased)
            fill_linear(layer.ffn.linear_1, D_FF, D_MODEL, biased)
            fill_norm(layer.ffn.layer_norm)
    model.encoder.embeddings[0].weight = random(len(LIST), D_MODEL)
    model.decoder.embeddings.weight = random(len(LIST), D_MODEL)
    fill_linear(model.decoder.projection, D_MODEL, len(LIST), True)
    model.decoder.projection.bias[:3] = -30, -30, 3  # translations never contain <blank> or <s>, and end early
    model.register_source_vocabulary(LIST)
    model.register_target_vocabulary(LIST)
    for key, value in settings.items():
        setattr(model.config, key, value)
    change(model)
    return model


def save(folder: Path, number_type: str | None = None, **options: Any) -> Path:
    model = random_model(**options)
    folder.mkdir(exist_ok=True)
    model.validate()
    model.optimize(number_type)
    model.save(str(folder))
    return folder


def read(folder: Path, **choices: Any) -> ImportedModel:
    return read_foreign(CTranslate2Import(), folder, ImportRequest("model", **choices))


def require_same(folder: Path, **choices: Any) -> ImportedModel:
    """Compare the log-probabilities with those of the engine in float32."""
    imported = read(folder, **choices)
    sides = ([text.split() for text in side] for side in zip(*SENTENCES, strict=True))
    scores = open_translator(folder).score_batch(*sides)
    for score, (source, target) in zip(scores, SENTENCES, strict=True):
        found = torch.from_numpy(tiny.log_probabilities(imported.model, source, target))
        torch.testing.assert_close(found, torch.tensor(score.log_probs), atol=3e-5, rtol=0)
    return imported


def _learn_positions(model: Any) -> None:
    for side in (model.encoder, model.decoder):
        side.position_encodings.encodings = random(300, D_MODEL)


VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"pre_norm": False, "activation": "SWISH"},
    "no biases": {"biased": False, "activation": "GELU"},
    "learned positions": {"change": _learn_positions},
    "EOS after sources": {"add_source_eos": True},
    "starts with EOS": {"decoder_start_token": "</s>"},
    "starts with PAD": {"decoder_start_token": "<blank>"},
    "starts with zeros": {"change": lambda model: setattr(model.decoder, "start_from_zero_embedding", True)},
    "unscaled embeddings": {"change": lambda model: setattr(model.encoder, "scale_embeddings", False)},
    "embeddings times 3": {"change": lambda model: setattr(model.decoder, "scale_embeddings", 3.0)},
    "T5's parts": {"parts": ("rms_norm", "ffn_glu", "relative_attention_bias"), "activation": "GELUTanh"},
    "another epsilon": {"layer_norm_epsilon": 0.01},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_imported_model_computes_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    require_same(save(tmp_path, **options))


def _tie(model: Any) -> None:
    model.decoder.projection.weight = model.encoder.embeddings[0].weight = model.decoder.embeddings.weight


@pytest.mark.parametrize("number_type", ["int8", "int8_float16", "int16", "float16", "bfloat16"])
def test_quantised_weights_are_converted_as_in_the_engine(number_type: str, tmp_path: Path) -> None:
    imported = require_same(save(tmp_path, number_type, change=_tie))
    assert imported.origin["numbers"] == number_type.partition("_")[0]
    assert imported.model.spec.architecture.tied_embeddings == "all"


def _rewrite(file: Path, version: int) -> None:
    """Rewrite a file as an older version: without aliases before 3, types before 4, and a settings file before 6."""
    stream = io.BytesIO(file.read_bytes()[4:])

    def take(format: str) -> int:
        (number,) = struct.unpack(f"<{format}", stream.read(struct.calcsize(f"<{format}")))
        return int(number)

    def text() -> bytes:
        length = take("H")
        return struct.pack("<H", length) + stream.read(length)

    output = struct.pack("<I", version) + text() + stream.read(4)
    count = take("I")
    output += struct.pack("<I", count)
    for _ in range(count):
        output += text()
        rank = take("B")
        output += struct.pack("<B", rank) + stream.read(4 * rank)
        code, length = take("B"), take("I")
        size = (4, 1, 2)[code]
        output += struct.pack("<BI", *((code, length) if version >= 4 else (size, length // size)))
        output += stream.read(length)
    file.write_bytes(output + (stream.read() if version >= 3 else b""))


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_all_versions_of_the_file_are_read(version: int, tmp_path: Path) -> None:
    save(tmp_path, "int8" if version >= 3 else None)
    _rewrite(tmp_path / "model.bin", version)
    require_same(tmp_path)


def test_vocabularies_may_be_text_files(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "shared_vocabulary.json").unlink()
    for side in ("source", "target"):
        (tmp_path / f"{side}_vocabulary.txt").write_bytes("".join(f"{name}\n" for name in LIST[:-1]).encode())
    require_same(tmp_path)


@pytest.mark.integration
def test_models_with_text_rules(tmp_path: Path) -> None:
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nz z\nzz z</w>\n" + "".join(f"w {word[1:]}</w>\n" for word in WORDS))
    folder = save(tmp_path / "model", change=_let_translations_begin)
    imported = require_same(folder, text=TextOptions("moses", codes), languages=("en", "de"))
    assert imported.model.vocabulary.source.rules is not None


def test_spec_and_notes(tmp_path: Path) -> None:
    imported = read(save(tmp_path))
    architecture, decoding = imported.model.spec.architecture, imported.model.spec.decoding
    assert architecture.positions == Sinusoidal(kind="sinusoidal_halves", first=1)
    assert architecture.norm.epsilon == 1e-5, "the default of CTranslate2"
    assert (decoding.beam, decoding.alpha, decoding.length_penalty, decoding.extra_length) == (2, 1.0, "power", 256)
    assert (decoding.stopping_rule, decoding.min_length) == ("full", 1)
    assert any("sources do not end with EOS" in note for note in imported.notes)


@pytest.mark.integration
def test_search_finds_the_same_translations(tmp_path: Path) -> None:
    """Compare n-best lists of several beam sizes.

    Left out are translations that reach the maximum length, which CTranslate2 truncates, and `min_length`, below which
    CTranslate2 gives EOS no share of the probability.
    """
    model, draw = read(save(tmp_path)).model, Random(2)
    spec, decoding = changed(model.spec, "decoding", min_length=0), model.spec.decoding
    texts = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 9))) for _ in range(40)]
    program = build(spec, TRANSLATE, weights=model.weights.tensors, backend="eager", device="cpu")
    zoo, engine = Translator(program, model.vocabulary, spec), open_translator(tmp_path)
    for beam in (1, 2, 5):
        options = {"beam_size": beam, "num_hypotheses": beam, "return_scores": True, "min_decoding_length": 0}
        results = engine.translate_batch([text.split() for text in texts], **options)
        compared = 0
        for result, found in zip(results, zoo.hypotheses(texts, beam=beam, n_best=beam), strict=True):
            if max(map(len, result.hypotheses)) < decoding.extra_length:
                compared += 1
                assert [" ".join(tokens) for tokens in result.hypotheses] == [each.text for each in found]
                assert result.scores == pytest.approx([each.score for each in found], abs=1e-4)
        assert compared > 20


def _let_translations_begin(model: Any) -> None:
    model.decoder.projection.bias[2] = 0


def _of_other_layer(model: Any) -> None:
    model.encoder.layer[1].self_attention.relative_attention_bias = random(8, HEADS)


UNSUPPORTED: dict[str, dict[str, Any]] = {
    "add_source_bos": {"add_source_bos": True},
    "decoder_start_token": {"decoder_start_token": None},
    "sigmoid approximation of GELU": {"activation": "GELUSigmoid"},
    "soft-capped": {"change": lambda model: setattr(model.decoder, "final_logit_softcapping", 2.0)},
    "ALiBi": {"change": lambda model: setattr(model.decoder, "alibi", True)},
    "bias` is not a matrix, or differs": {
        "parts": ("relative_attention_bias",),
        "change": _of_other_layer,
    },
    "scale_outputs": {"change": lambda model: setattr(model.decoder, "scale_outputs", 2.0)},
    "encoder/layer_norm": {"change": lambda model: delattr(model.encoder, "layer_norm")},
}


def test_unsupported_models_are_rejected_by_name(tmp_path: Path) -> None:
    for message, options in UNSUPPORTED.items():
        refused(message, read, save(tmp_path, **options))


def test_invalid_settings_are_rejected_with_their_file(tmp_path: Path) -> None:
    file = save(tmp_path) / "config.json"
    config = json.loads(file.read_text())
    wrong = {"add_source_eos": "no", "unk_token": None, "eos_token": 3, "layer_norm_epsilon": "small", "of_tomorrow": 1}
    for key, value in wrong.items():
        file.write_text(json.dumps({**config, key: value}))
        assert refused(key, read, tmp_path).where == str(file)


def test_vocabularies_of_other_models_are_rejected(tmp_path: Path) -> None:
    file = save(tmp_path) / "shared_vocabulary.json"
    file.write_text(json.dumps([*LIST, "one more"]))
    refused("lists 14 tokens, but its embedding has 13", read, tmp_path)
    file.write_text(json.dumps([f"▁{name}" if name in WORDS else name for name in LIST]))
    refused(r"there is no SentencePiece model.*\s+hint: .*source\.spm", read, tmp_path)


def test_truncated_files_are_rejected(tmp_path: Path) -> None:
    file = save(tmp_path) / "model.bin"
    content = file.read_bytes()
    for share in (0.0, 0.0001, 0.3, 0.999):
        file.write_bytes(content[: int(share * len(content))])
        refused("is not a valid ctranslate2 model", read, tmp_path)
