"""Exported models compute the same in their engine, and are the same when imported again."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo
from compiler import build
from compiler.assemble import prepare_build
from compiler.backends import BACKENDS
from specs import BOS, EOS, PAD, UNK, ZooError
from tests.compiler.test_conformance import SUBLAYERS
from tests.conftest import Trained
from tests.examples import changed, examples, small
from tests.refusals import refused
from tests.zoo.conftest import RecordingReport
from tests.zoo.interop import conftest as tiny
from zoo.files import manifest
from zoo.interop.ctranslate2.exporter import open_translator
from zoo.interop.exporter import OnnxExport, export_model
from zoo.interop.formats import USE_ONNX, ImportRequest
from zoo.interop.importer import find_format, import_model
from zoo.models.loading import Model, read_model
from zoo.models.weights import Weights
from zoo.publishing import publish
from zoo.report import Report
from zoo.text.copying import copy_symbols
from zoo.text.languages import LanguagePair
from zoo.text.vocabulary import Vocabulary

pytestmark = pytest.mark.integration
EVEN = {"d_model": 16, "h": 2, "d_k": 8, "d_v": 8}
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "learned positions, silu": {"positions": {"kind": "learned", "rows": 70}, "activation": "silu"},
    "halves from 2, gelu": {"positions": {"kind": "sinusoidal_halves", "first": 2}, "activation": "gelu"},
    "two tables, biases": {"tied_embeddings": "target", "projection_bias": True, "output_bias": True},
    "two tables, untied output, gelu_tanh": {"tied_embeddings": "embeddings", "activation": "gelu_tanh"},
    "three tables, unscaled": {"tied_embeddings": "none", "N": {"encoder": 1, "decoder": 2}, "scale_embeddings": False},
}
RMS = {"kind": "rms_norm", "placement": "pre"}
SELF, CROSS, FFN = ({"kind": kind} for kind in ("self_attention", "cross_attention", "feed_forward"))
OWN_NORM = {"encoder": [{**SELF, "norm": RMS}, FFN]}
Fields = dict[str, Any]
Publish = Callable[..., Path]


@pytest.fixture
def published(trained: Trained, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Publish:
    """Return a function that copies a bundle of an architecture; each is published once."""

    def copy(**architecture: Any) -> Path:
        kept = tmp_path_factory.getbasetemp() / hashlib.sha256(json.dumps(architecture).encode()).hexdigest()
        if not kept.exists():
            run = trained(architecture={**EVEN, **architecture})
            shutil.copytree(publish.publish(run.folder, name="exported"), kept)
        return Path(shutil.copytree(kept, tmp_path / "bundle" / "exported"))

    return copy


@pytest.mark.parametrize("architecture", VARIANTS.values(), ids=VARIANTS)
def test_exported_models_are_the_same_when_read_back(
    architecture: Fields, published: Publish, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle = published(**architecture)
    before, text = read_model(bundle), "the old dog sees the cat"
    for format in ("hf-marian", *(["ctranslate2"] if importlib.util.find_spec("ctranslate2") else [])):
        folder = tmp_path / format
        check = export_model(str(bundle), format, folder, Report())
        assert "Loading" not in capfd.readouterr().err, "progress bars of transformers"
        assert check is None or check.difference < 1e-3
        after = find_format(folder).read(folder, ImportRequest("back")).model
        tensors = after.weights.tensors
        assert all(torch.equal(tensor, tensors[name]) for name, tensor in before.weights.tensors.items())
        additional = tensors.keys() - before.weights.tensors.keys()
        assert not any(tensors[name].any() for name in additional if name.endswith("_bias"))
        # Norms of transformers have another epsilon, and the sum of the logits includes tokens that are never written.
        expected, found = (tiny.log_probabilities(each, text, text) for each in (before, after))
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_transformers_translates_the_same(published: Publish, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")

    bundle = published(**VARIANTS["two tables, biases"])
    export_model(str(bundle), "hf-marian", tmp_path / "written", Report())
    tokenizer: Any = transformers.MarianTokenizer.from_pretrained(tmp_path / "written")
    model: Any = transformers.MarianMTModel.from_pretrained(tmp_path / "written")
    texts = ["the old dog sees the cat", "two books?", "we read today"]
    translator = zoo.load(str(bundle), device="cpu", backend="eager")
    for text, (best, *_) in zip(texts, translator.hypotheses(texts, beam=1), strict=True):
        ids = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=1, max_length=20)[0].tolist()
        assert ids[1 : 1 + len(best.tokens[:18])] == list(best.tokens[:18])


PLAIN_FFN = FFN | {"bias": False, "activation": "relu"}
RELATIVE = {"kind": "relative", "buckets": 8, "max_distance": 12}
T5: Fields = {"encoder": [SELF, PLAIN_FFN], "decoder": [SELF, CROSS, PLAIN_FFN], "norm": RMS, "positions": RELATIVE}
T5 |= {"attention_score": "dot_product", "scale_embeddings": False}


def sources() -> list[str]:
    """Return the English sentences of the corpus of `trained`."""
    return Path("pairs.en").read_text(encoding="utf-8").splitlines()


def publish_multilingual(trained: Trained, token: str, vocabulary: Fields, **fields: Any) -> str:
    """Publish a random model for two directions, whose language tokens have the pattern `token`. Return its folder."""
    architecture = {**EVEN, "N": 1, **fields.pop("architecture", {})}
    languages = {"codes": ["en", "de"], "token": token, **fields}
    decoding = {"beam": 1, "length_factor": 0.0, "extra_length": 8}
    run = trained(architecture=architecture, vocabulary=vocabulary, languages=languages, decoding=decoding)
    for file in run.folder.glob("vocabulary.*"):
        file.unlink()
    names = [token.replace("{}", code) for code in ("en", "de")]
    spec = zoo.spec(run.spec_file)
    pairs = [*zip(sources(), Path("pairs.de").read_text(encoding="utf-8").splitlines(), strict=True)] * 3
    Vocabulary.learn(lambda: examples(pairs), spec.vocabulary, language_tokens=names).save(run.folder)
    torch.manual_seed(3)
    tensors = {name: tensor + torch.randn_like(tensor) / 5 for name, tensor in build(spec).weights().items()}
    Weights(tensors, {"steps": "3", "longest_source": "31"}).write(run.weights)
    return str(publish.publish(run.folder, name="multilingual"))


BPE, BYTES = {"size": 110}, {"size": 370, "byte_fallback": True}
UNIGRAM = {"size": 315, "byte_fallback": True, "kind": "unigram"}
SIDES = {"size": 320, "byte_fallback": True, "shared": False}


@pytest.mark.parametrize(
    ("token", "vocabulary", "fields"),
    [
        (">>{}<<", BPE, {}),
        (">>{}<<", BYTES, {"target_token": "target"}),
        ("__{}__", UNIGRAM, {}),
        ("{}", UNIGRAM, {"source_token": "source", "target_token": "target"}),
        ("<2{}>", SIDES, {"architecture": {"tied_embeddings": "target"}}),
        (">>{}<<", SIDES, {"architecture": {"tied_embeddings": "none"}}),
    ],
    ids=str,
)
def test_models_with_language_tokens_translate_the_same_in_ctranslate2(
    trained: Trained, token: str, vocabulary: Fields, fields: Fields, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    bundle = publish_multilingual(trained, token, vocabulary, **fields)
    check = export_model(bundle, "ctranslate2", tmp_path / "written", Report())
    assert check is not None
    assert check.difference < 1e-4
    translator, engine = zoo.load(bundle, device="cpu", backend="eager"), open_translator(tmp_path / "written")
    translator.report = Report()  # without the warning that the corpus has one direction
    learned = translator.vocabulary
    for source, target in (("en", "de"), ("de", "en")):
        pair = LanguagePair.of(translator.spec, learned, (source, target))
        rows = [learned.token_strings([*pair.source_tokens, *learned.encode(text)], "source") for text in sources()]
        prefix = [learned.token_strings(pair.target_tokens)] * len(rows) if pair.target_tokens else None
        options = {"beam_size": 1, "max_decoding_length": 8 + bool(prefix), "min_decoding_length": 0}
        hidden = [[name] for name in learned.token_strings([PAD, BOS])]
        results = engine.translate_batch(rows, target_prefix=prefix, suppress_sequences=hidden, **options)
        found = translator.hypotheses(sources(), source=source, target=target, split=False, protect=False)
        for result, (best, *_) in zip(results, found, strict=True):
            assert result.hypotheses[0] == learned.token_strings(best.tokens)


@pytest.mark.parametrize("token", ["<2{}>", ">>{}<<"])
def test_texts_of_exported_t5_models_are_the_same_in_transformers(trained: Trained, token: str, tmp_path: Path) -> None:
    """They do not begin with `<s>`, the token that decoding starts with."""
    transformers = pytest.importorskip("transformers")

    bundle = publish_multilingual(trained, token, {"size": 60, "kind": "unigram"}, architecture=T5)
    export_model(bundle, "hf-t5", tmp_path / "written", Report())
    tokenizer: Any = transformers.T5Tokenizer.from_pretrained(tmp_path / "written")
    model: Any = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "written")
    translator = zoo.load(bundle, device="cpu", backend="eager")
    for text in sources():
        inputs = tokenizer(token.replace("{}", "de") + text, return_tensors="pt")
        (found,) = tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
        (best, *_), *_ = translator.hypotheses([text], source="en", target="de", split=False, protect=False)
        assert found == translator.vocabulary.decode(token for token in best.tokens if token != UNK)


@pytest.mark.parametrize(("token", "is_supported"), [(">>{}<<", True), ("<2{}>", False)])
def test_language_tokens_that_transformers_would_split_are_rejected(
    trained: Trained, token: str, is_supported: bool, tmp_path: Path
) -> None:
    """MarianTokenizer recognises only tokens such as `>>de<<`."""
    transformers = pytest.importorskip("transformers")

    bundle = publish_multilingual(trained, token, BYTES)
    if not is_supported:
        with pytest.raises(ZooError, match="MarianTokenizer recognises only language tokens such as `>>de<<`"):
            export_model(bundle, "hf-marian", tmp_path / "written", Report())
        return
    export_model(bundle, "hf-marian", tmp_path / "written", Report())
    tokenizer: Any = transformers.MarianTokenizer.from_pretrained(tmp_path / "written")
    learned = read_model(Path(bundle)).vocabulary
    for text in sources():
        id = learned.source.id_of(">>de<<")  # type: ignore[union-attr]
        assert tokenizer(f">>de<< {text}").input_ids == [id, *learned.encode(text), EOS]


def test_notes_name_copy_symbols_and_the_options_of_ctranslate2s_search(
    published: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: RecordingReport
) -> None:
    pytest.importorskip("ctranslate2")
    bundle = published()
    export_model(str(bundle), "ctranslate2", tmp_path / "written", report)
    note, *others = report.said
    options = "`beam_size=4`, `length_penalty=0.6`, `min_decoding_length=0`"
    assert f"These options come closest to the spec: {options}." in note
    spec = zoo.spec(bundle / "spec.yaml")
    extra = spec.decoding.extra_length
    assert f"at most {spec.decoding.length_factor:g} times the source's length + {extra} tokens" in others[0]
    assert "`stopping_rule: admissible`" in others[-1]
    import_model(str(tmp_path / "written"), ImportRequest(name="back"), Report())
    export_model("back", "ctranslate2", tmp_path / "again", report)
    note = report.said[-1]
    options = "`beam_size=2`, `length_penalty=1.0`, `min_decoding_length=1`, `max_decoding_length=256`"
    assert f"These options correspond to the spec: {options}." in note
    spec = changed(spec, "decoding", suppressed_tokens=(UNK, BOS), length_factor=0.0)
    (bundle / "spec.yaml").write_text(spec.yaml(zoo.__version__))
    manifest.write(bundle)
    monkeypatch.setattr(Vocabulary, "copy_symbols", copy_symbols(1))
    report.said.clear()
    export_model(str(bundle), "ctranslate2", tmp_path / "suppressed", report)
    notes = " ".join(report.said)
    assert "trained with copy symbols" in notes
    assert f'`max_decoding_length={extra}`, `disable_unk=True`, `suppress_sequences=[["<s>"]]`' in notes
    assert "times the source's length" not in notes


def require_rejected(bundle: str, format: str, message: str) -> None:
    """Exporting a bundle must fail, and write nothing."""
    assert refused(message, export_model, bundle, format, Path("rejected"), Report()).hint == USE_ONNX
    assert not Path("rejected").exists()


@pytest.mark.slow
def test_onnx_models_compute_the_same(published: Publish, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    check = export_model(str(published()), "onnx", tmp_path / "written", Report())
    assert check is not None
    assert check.difference < 1e-4
    files = {file.name for file in (tmp_path / "written").iterdir()}
    assert {"encode.onnx", "decode_step.onnx", "spec.yaml", "vocabulary.model"} <= files


@pytest.mark.parametrize(
    ("format", "message", "architecture"),
    [
        ("hf-marian", "`architecture.norm.placement: pre` would become `post`", {"norm": {"placement": "pre"}}),
        ("hf-marian", "`architecture.d_k: 6` would become `8`", {"d_k": 6, "d_v": 4}),
        ("ctranslate2", "encoder/layer_0/self_attention/layer_norm/beta", OWN_NORM),
    ],
)
def test_unsupported_models_are_rejected_by_name(
    format: str, message: str, architecture: Any, published: Publish
) -> None:
    if format == "ctranslate2":
        pytest.importorskip(format)
    require_rejected(str(published(**architecture)), format, message)


@pytest.mark.parametrize(
    ("message", "vocabulary", "architecture"),
    [
        ("`spiece.model` is a `bpe` model, but T5Tokenizer requires a `unigram` model", BPE, {}),
        ("in this format, `output_bias` would change", {"size": 60, "kind": "unigram"}, {"output_bias": True}),
    ],
)
def test_parts_that_are_lost_in_a_format_are_named(
    trained: Trained, message: str, vocabulary: Fields, architecture: Fields
) -> None:
    """The exported files are read again, and the model differs."""
    bundle = publish_multilingual(trained, "<2{}>", vocabulary, architecture=T5 | architecture)
    require_rejected(bundle, "hf-t5", f"cannot export this model to hf-t5: {message}")


def test_models_that_compute_something_else_are_not_written(
    published: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    bundle, written, score = published(), tmp_path / "written", ctranslate2.Translator.score_batch

    def faulty(*arguments: Any) -> list[SimpleNamespace]:
        """Return NaN for all sentences but the first."""
        first, *others = (result.log_probs for result in score(*arguments))
        rows = [first, *([float("nan")] * len(row) for row in others)]
        return [SimpleNamespace(log_probs=row) for row in rows]

    with monkeypatch.context() as patched:
        patched.setattr(ctranslate2.Translator, "score_batch", faulty)
        refused("computes different results", export_model, str(bundle), "ctranslate2", written, Report())
    file = bundle / "proof.safetensors"
    proof = load_file(file)
    save_file({**proof, "log_probabilities": proof["log_probabilities"] - 0.01}, file)
    # It differs from the published one.
    refused(r"proof.safetensors` is damaged", export_model, str(bundle), "ctranslate2", written, Report())
    manifest.write(bundle)
    refused("computes different results", export_model, str(bundle), "ctranslate2", written, Report())
    assert not written.exists()


def test_existing_content_and_links_are_kept(
    published: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is kept if it exists before the export, and if it appears during the export."""
    bundle, folder = str(published()), tmp_path / "written"
    folder.mkdir()

    def write(model: Model, target: Path) -> list[str]:
        (target / "model").write_text("written")
        (folder / "mine").write_text("kept")
        return []

    fake = SimpleNamespace(name="fake", write=write, reader=lambda model: None, check=lambda *_: None)
    monkeypatch.setattr("zoo.interop.exporter.format_named", lambda name, kind: fake)
    for _ in range(2):
        refused(None, export_model, bundle, "fake", folder, Report())
        assert [file.name for file in folder.iterdir()] == ["mine"]
        assert (folder / "mine").read_text() == "kept"
    link, empty = tmp_path / "link", tmp_path / "elsewhere" / "empty"
    empty.mkdir(parents=True)
    link.symlink_to(empty)
    export_model(bundle, "fake", link, Report())
    assert link.is_symlink()
    assert (empty / "model").read_text() == "written"


@pytest.mark.parametrize("sublayer", [{"kind": "self_attention"}, *SUBLAYERS.values()], ids=str)
def test_onnx_supports_all_networks_that_the_hint_names(sublayer: Fields, tokens: Vocabulary, tmp_path: Path) -> None:
    kind = sublayer["kind"]
    encoder, decoder = small(N=1, encoder=[sublayer, FFN]), small(N=1, decoder=[sublayer, CROSS, FFN])
    problems = [BACKENDS["onnx"].unsupported_reason(prepare_build(spec)[1]) for spec in (encoder, decoder)]
    is_unsupported = kind in ("restricted_attention", "ssru", "lstm")
    assert [problem is not None for problem in problems] == [is_unsupported, False]
    if is_unsupported:
        model = Model(encoder, tokens, Weights(build(encoder).weights()))
        refused(f"this model to ONNX: its encoder contains {kind} sub-layers", OnnxExport().write, model, tmp_path)
