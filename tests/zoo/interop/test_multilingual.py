"""M2M-100, NLLB-200 and mBART-50 compute the same as in transformers, in every direction."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

import zoo
from specs import UNK, Architecture, Languages
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.exporter import export_model
from zoo.interop.formats import ImportRequest
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.multilingual_vocabulary import LANGUAGES, fitting_class
from zoo.interop.importer import import_model
from zoo.models.loading import Model
from zoo.publishing.publish import verify
from zoo.report import Report
from zoo.text.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["the old dog sees a small house", "zwei Bücher", "xyz ½ ﬁ Œ", "today we read two books " * 2 + "today"]
CORPUS = [*TEXTS, "der alte Hund sieht ein kleines Haus", "un petit chien lit un livre"]
M2M100, MBART50 = LANGUAGES["m2m100"], LANGUAGES["mbart50"]
NLLB_CODES = ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]
PAIRS = {
    "nllb": [("eng_Latn", "deu_Latn"), ("zho_Hans", "ace_Arab")],
    "m2m": [("en", "de"), ("zu", "af")],
    "mbart": [("en_XX", "de_DE"), ("ar_AR", "sl_SI")],
}
UNLISTED = "▁un"
"""Token of the SentencePiece model that `vocab.json` of M2M-100 does not list. No test translates it."""
TOKENIZERS = {"nllb": "NllbTokenizer", "m2m": "M2M100Tokenizer", "mbart": "MBart50Tokenizer"}
UNTIED = {"tie_word_embeddings": False}
OTHER_WIDTHS = {"d_model": 24, "encoder_attention_heads": 3, "decoder_attention_heads": 3}
CONFIGS: dict[str, dict[str, Any]] = {
    "nllb": {},
    "nllb, unscaled": {"scale_embedding": False, "activation_function": "gelu_new"},
    "nllb, depths and widths": {"encoder_layers": 1, "decoder_layers": 3, **OTHER_WIDTHS},
    "nllb, d_ff": {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "activation_function": "silu"},
    "nllb, padded vocabulary": {"rows": 30, "encoder_layers": 1},
    "m2m": {},
    "m2m, one head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "decoder_layers": 1},
    "mbart": {},
    "mbart, scaled": {"scale_embedding": True, "activation_function": "relu"},
    "mbart, positions": {"max_position_embeddings": 60, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "mbart, untied": UNTIED,
}
Write = Callable[..., Path]


@cache
def train_sentencepiece(kind: str) -> bytes:
    ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2}
    return tiny.train_sentencepiece(CORPUS * 3, 80, model_type=kind, character_coverage=0.99, **ids)


def write_tokenizer(folder: Path, family: str) -> int:
    """Write the files of a tokenizer as on the Hub, and return the number of its tokens."""
    content = train_sentencepiece("unigram" if family == "mbart" else "bpe")
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    model = sentencepiece.SentencePieceProcessor(model_proto=content)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(id) for id in range(3, model.get_piece_size()))]
    settings: dict[str, Any] = {"tokenizer_class": TOKENIZERS[family]}
    if family == "m2m":
        names[4:] = sorted(set(names[4:]) - {UNLISTED})
        (folder / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}))
    if family == "nllb":
        flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False) | {"special": True}
        named = enumerate([*NLLB_CODES, "<mask>"], start=len(names))
        entries = {str(id): {"content": name, **flags} for id, name in named}
        settings |= {"added_tokens_decoder": entries, "extra_special_tokens": NLLB_CODES}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(names) + {"m2m": len(M2M100), "nllb": len(NLLB_CODES) + 1, "mbart": len(MBART50) + 1}[family]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that writes a random model of transformers with a tiny vocabulary, and returns its folder."""

    def write_model(family: str, *, rows: int = 2, **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp(family)
        rows += write_tokenizer(folder, family)
        torch.manual_seed(3)
        kind = "MBart" if family == "mbart" else "M2M100"
        counts = {"layers": 2, "ffn_dim": 24, "attention_heads": 2}
        sizes = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in counts.items()}
        sizes |= {"d_model": 16, "vocab_size": rows, "max_position_embeddings": 70, "decoder_start_token_id": 2}
        config = getattr(transformers, f"{kind}Config")(**(sizes | settings))
        network: Any = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
        for name, parameter in network.named_parameters():
            scale = 0.1 if parameter.dim() == 1 else 0.6 if "layers" in name else 0.3
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name and name.endswith("weight") else 0.0, scale)
        with torch.no_grad():
            end = network.lm_head.weight[2]
            network.model.decoder.layer_norm.bias += 2 * end / end.square().sum()  # so that some translations end
            if family == "mbart":
                network.final_logits_bias.normal_()[:, 2] += 2
        search = {"max_length": 14, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2}
        network.generation_config = transformers.GenerationConfig(**search, bad_words_ids=[[1]])
        network.save_pretrained(folder)
        return folder

    return write_model


@pytest.fixture(scope="module")
def folders(write: Write) -> dict[str, Path]:
    """Return the folder of one model of each family. Tests do not change them."""
    return {family: write(family, rows=0) for family in TOKENIZERS}


def read(folder: Path, languages: tuple[str, str] | None = None) -> Model:
    return Multilingual().read(folder, ImportRequest("mine", languages)).model


def open_tokenizer(folder: Path) -> Any:
    name = json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"]
    return getattr(transformers, name).from_pretrained(folder)


def copy_network(source: Path, folder: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / name, folder)


@pytest.mark.parametrize("name", CONFIGS)
def test_models_compute_the_same(name: str, write: Write, tmp_path: Path) -> None:
    family = name.partition(",")[0]
    folder = write(family, **CONFIGS[name])
    model, tokenizer = read(folder), open_tokenizer(folder)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    for source, target in PAIRS[family]:
        tokenizer.src_lang = target
        targets = tokenizer(TEXTS[::-1], return_tensors="pt", padding=True)
        tokenizer.src_lang = source
        inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
        languages = {"source": source, "target": target}
        tiny.require_same_as_transformers(network, tokenizer, model, TEXTS, inputs, targets, **languages)
    tiny.export(model, Multilingual(), tmp_path)
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path))
    unused = {"model.shared.weight"} if "untied" in name else set()  # each side has an embedding of its own
    assert before.keys() == after.keys()
    for key in before.keys() - unused:
        rows = 2 if "embed_positions" in key else 0  # the first learned positions are never used
        assert torch.equal(before[key][rows:], after[key][rows:]), key
    assert open_tokenizer(tmp_path)(TEXTS).input_ids == open_tokenizer(folder)(TEXTS).input_ids


@pytest.mark.parametrize("family", TOKENIZERS)
def test_texts_become_the_same_tokens(family: str, folders: dict[str, Path], tmp_path: Path) -> None:
    tokenizer, model = open_tokenizer(folders[family]), read(folders[family])
    texts = [*TEXTS, "", " a   b", "ｆｕｌｌ　width", "ZZZ qq <p>", "__de__ a", "dog.Haus,livre"]
    if family != "m2m":  # transformers finds tokens of languages in a text, which zoo rejects
        tag = PAIRS[family][0][1]
        assert tag in tokenizer.convert_ids_to_tokens(tokenizer(f"a{tag} b").input_ids)
        for text in (tag, f"a{tag} b"):
            refused(rf"the text contains `{tag}`.*\s+hint: .*`--to`", model.vocabulary.encode, text)
        tokenizer.save_pretrained(tmp_path)  # without the SentencePiece model
        copy_network(folders[family], tmp_path)
        assert not (tmp_path / "sentencepiece.bpe.model").exists()
        saved = read(tmp_path)
        assert saved.vocabulary.has_same_tokens_as(model.vocabulary)
        assert [saved.vocabulary.encode(text) for text in texts] == [model.vocabulary.encode(text) for text in texts]
    for text in texts:
        ids = tokenizer(text.strip()).input_ids[1:-1]
        assert model.vocabulary.token_strings(model.vocabulary.encode(text)) == tiny.names_in_zoo(tokenizer, ids), text


def test_languages_must_be_those_of_the_model(folders: dict[str, Path]) -> None:
    translator = tiny.translator_of(read(folders["nllb"]), "eager")
    for options, message in (
        ({"source": "eng_Latn", "target": "deu_Cyrl"}, "does not support the language `deu_Cyrl`"),
        ({"source": "eng_Latn"}, "translates into 5 languages, but no target language was given"),
        ({"target": "deu_Latn"}, "the language of the text is not"),
    ):
        refused(rf"{message}.*\s+hint: .*deu_Latn", translator.translate, "the old dog", **options)
    refused("the model does not support the language `en`", read, folders["nllb"], ("en", "deu_Latn"))
    assert read(folders["nllb"], ("fra_Latn", "deu_Latn")).spec.default_direction == ("fra_Latn", "deu_Latn")
    assert read(folders["nllb"]).spec.default_direction == ("ace_Arab", "deu_Latn")


def test_languages_and_search_of_the_settings_are_imported(write: Write) -> None:
    folder = write("mbart")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"src_lang": "fr_XX", "tgt_lang": "en_XX", "language_codes": "ML50"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    search = {"forced_bos_token_id": 90, "num_beams": 5, "max_length": 20, "early_stopping": True}
    (folder / "generation_config.json").write_text(json.dumps(search))
    model, notes = read(folder), Multilingual().read(folder, ImportRequest("mine")).notes
    assert model.spec.default_direction == ("fr_XX", "en_XX")
    assert any("choose the language with `--to`" in note for note in notes)
    assert (model.spec.decoding.beam, model.spec.decoding.extra_length) == (5, 18)
    assert model.spec.languages == Languages(codes=MBART50, token="{}", source_token="source", target_token="target")


@pytest.mark.parametrize(
    ("family", "file", "settings", "message"),
    [
        ("mbart", "generation_config", {"decoder_start_token_id": 90}, r"`decoder_start_token_id: 90` is not `</s>`"),
        ("mbart", "config", {"max_position_embeddings": 10**6}, "embed_positions.* settings require"),
        ("nllb", "tokenizer_config", {"legacy_behaviour": True}, "`legacy_behaviour: true`"),
        ("nllb", "tokenizer_config", {"tokenizer_class": "MBartTokenizer"}, "`MBartTokenizer`, but zoo reads only"),
        ("nllb", "tokenizer_config", {"eos_token": "<end>"}, "`eos_token: <end>` is a setting that zoo does not"),
        ("nllb", "tokenizer_config", {"extra_special_tokens": ["<new>"]}, "the added token `<new>`, which is not a"),
        ("nllb", "tokenizer_config", {"added_tokens_decoder": {}, "extra_special_tokens": []}, "lists the languages"),
        ("nllb", "tokenizer_config", {"added_tokens_decoder": {"9": "eng_Latn"}}, "belongs to another token"),
        ("nllb", "tokenizer_config", {"added_tokens_decoder": {"9999": "eng_Latn"}}, "only .* rows"),
        ("m2m", "tokenizer_config", {"language_codes": "own"}, "`language_codes: own`"),
        ("m2m", "tokenizer_config", {"sp_model_kwargs": {"enable_sampling": True}}, "`sp_model_kwargs"),
    ],
)
def test_settings_that_a_spec_cannot_express_are_rejected_by_name(
    family: str, file: str, settings: dict[str, Any], message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders[family], tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{file}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    refused(message, read, tmp_path)


def test_damaged_files_are_rejected(write: Write) -> None:
    folder = write("m2m")
    ids = json.loads((folder / "vocab.json").read_text())
    for changed in ({}, ids | {"x": 9}, ids | {"x": -1}, {name: len(ids) - 1 - id for name, id in ids.items()}):
        (folder / "vocab.json").write_text(json.dumps(changed))
        refused(r"vocab\.json` is damaged", read, folder)
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "sentencepiece.bpe.model").write_bytes(train_sentencepiece("unigram"))
    refused("is a `unigram` model, but M2M100Tokenizer requires a `bpe` model", read, folder)


def test_merges_that_sentencepiece_would_add_are_rejected(folders: dict[str, Path], tmp_path: Path) -> None:
    open_tokenizer(folders["nllb"]).save_pretrained(tmp_path)
    copy_network(folders["nllb"], tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    del content["model"]["merges"][0]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    refused("but SentencePiece would do so", read, tmp_path)


@pytest.mark.integration
@pytest.mark.parametrize("family", TOKENIZERS)
def test_imported_models_are_published_and_exported(family: str, folders: dict[str, Path], tmp_path: Path) -> None:
    options = ImportRequest(name="mine", languages=PAIRS[family][0])
    bundle = import_model(str(folders[family]), options, Report())
    assert f"`{PAIRS[family][1][0]}`" in (bundle / "README.md").read_text()
    verify(bundle, report=Report())
    translate = zoo.load(str(bundle), device="cpu", backend="eager").translate
    outputs = {translate(TEXTS[0], source=source, target=target, protect=False) for source, target in PAIRS[family]}
    assert len(outputs) == 2
    for format in ("hf-multilingual", *(["ctranslate2"] if importlib.util.find_spec("ctranslate2") else [])):
        check = export_model(str(bundle), format, tmp_path / format, Report())
        assert check is not None
        assert check.difference < 1e-4


def test_networks_that_transformers_cannot_express_are_rejected_by_name(folders: dict[str, Path]) -> None:
    spec = read(folders["nllb"]).spec
    assert fitting_class(spec).name == "NllbTokenizer"
    alibi = Architecture.model_validate(spec.architecture.model_dump() | {"positions": {"kind": "alibi"}})
    other = spec.model_copy(update={"architecture": alibi})
    refused(r"`architecture\.positions\.kind: alibi` would become", Multilingual().written_architecture, other)
    for changed, message in (
        ({"languages": None}, "the token of the source language"),
        ({"languages": Languages(codes=("en", "de"), source_token="target")}, "the token of the source language"),
        ({"vocabulary": spec.vocabulary.model_copy(update={"kind": "unigram"})}, "unigram"),
    ):
        refused(message, fitting_class, spec.model_copy(update=changed))


def test_tokens_that_the_model_does_not_list_are_read_as_unknown(folders: dict[str, Path]) -> None:
    model = read(folders["m2m"])
    assert isinstance(model.vocabulary.source, Tokenizer)
    table, id = model.weights.tensors["embedding"], model.vocabulary.source.id_of(UNLISTED)
    assert torch.equal(table[id], table[UNK])
