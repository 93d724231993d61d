"""T5, mT5 and MADLAD-400 compute the same as in transformers, and read texts as its tokenizer does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from specs import BOS, Architecture, Languages
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.formats import ImportRequest
from zoo.interop.huggingface.t5 import T5
from zoo.models.loading import Model
from zoo.text.languages import LanguagePair

transformers = pytest.importorskip("transformers")

TEXTS = [
    "the old dog sees a small house",
    "zwei Bücher",
    "a <extra_id_0> dog<extra_id_1>reads </s> a <pad> book",
    "today we read two books about a house " * 3,
]
SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "num_layers": 2, "relative_attention_num_buckets": 8}
SIZES |= {"relative_attention_max_distance": 12, "decoder_start_token_id": 0, "initializer_factor": 0.8}
CONFIGS: dict[str, dict[str, Any]] = {
    "first T5": {},
    "v1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "untied": True},
    "heads": {"num_heads": 4, "d_kv": 3, "d_model": 10},
    "buckets": {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    "epsilon": {"layer_norm_epsilon": 0.1, "feed_forward_proj": "gated-silu"},
    "tied, unscaled": {"scale_decoder_outputs": False, "feed_forward_proj": "gelu_new"},
    "untied, scaled": {"untied": True, "feed_forward_proj": "gelu"},
    "padded vocabulary": {"vocab_size": 150, "feed_forward_proj": "silu"},
    "mT5": {"model_type": "mt5", "untied": True},
    "mT5, tied": {"model_type": "mt5", "feed_forward_proj": "gated-relu", "num_decoder_layers": 1},
}
CODES = ("de", "fr", "en", "zh_Hant")
ALL_CODES = (*CODES, "translate", "Hant", "CA", "")  # MADLAD-400 has tokens of tasks, scripts and regions as well
MADLAD_IDS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0}
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Write]:
    """Return a function that writes a random model of transformers with a tiny vocabulary, and returns its folder."""
    words = [text.replace("<", "").replace(">", "") for text in TEXTS] * 5
    train, usual = partial(tiny.train_sentencepiece, words, 70), {"pad_id": 0, "eos_id": 1, "unk_id": 2}
    languages = [f"<2{code}>" for code in ALL_CODES]
    models = {
        "plain": train(**usual),
        "symbols": train(user_defined_symbols=["[de]", "[fr]"], **usual),
        "madlad": train(user_defined_symbols=languages, unk_id=0, bos_id=1, eos_id=2),
    }

    def write_model(*, untied: bool = False, vocabulary: str = "plain", **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp("t5")
        (folder / "spiece.model").write_bytes(models[vocabulary])
        (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 3}))
        torch.manual_seed(3)
        kind = transformers.MT5Config if settings.pop("model_type", "t5") == "mt5" else transformers.T5Config
        config = kind(**{"vocab_size": 80, "max_length": 12, **SIZES, **settings})
        network: Any = getattr(transformers, kind.__name__.replace("Config", "ForConditionalGeneration"))(config)
        if untied:
            network.lm_head.weight = torch.nn.Parameter(torch.randn_like(network.shared.weight))
        with torch.no_grad():
            network.lm_head.weight[config.eos_token_id] *= 3  # so that some translations end
        for name, parameter in network.named_parameters():
            if "norm" in name or "relative" in name:
                torch.nn.init.normal_(parameter, 1.0, 0.5)
        ids = {key: getattr(config, key) for key in ("eos_token_id", "pad_token_id", "decoder_start_token_id")}
        search = {"max_length": 12, "bad_words_ids": [[config.pad_token_id]], **ids}
        network.generation_config = transformers.GenerationConfig(**search)
        network.save_pretrained(folder)
        return folder

    return write_model


def read(folder: Path) -> Model:
    return T5().read(folder, ImportRequest("mine")).model


def open_tokenizer(folder: Path) -> Any:
    return transformers.T5Tokenizer.from_pretrained(folder)


def configure(folder: Path, *, saved: bool = False, **settings: Any) -> Any:
    """Write the settings of a tokenizer, and return it. If `saved`, it replaces `spiece.model` by its own files."""
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = open_tokenizer(folder)
    if saved:
        (folder / "spiece.model").unlink()
        tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_models_compute_the_same(settings: dict[str, Any], write: Write, tmp_path: Path) -> None:
    folder = write(**settings)
    model = read(folder)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = open_tokenizer(folder)
    sides = (TEXTS, TEXTS[::-1])
    inputs, targets = (tokenizer(side, return_tensors="pt", padding=True, padding_side="right") for side in sides)
    tiny.require_same_as_transformers(network, tokenizer, model, TEXTS, inputs, targets)
    tiny.export(model, T5(), tmp_path)
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path))
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert open_tokenizer(tmp_path)(TEXTS).input_ids == tokenizer(TEXTS).input_ids


@pytest.mark.parametrize("name", ["first T5", "v1.1", "mT5, tied"])
def test_models_compute_the_same_in_ctranslate2(name: str, write: Write, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    texts = [text for text in TEXTS if "<" not in text]
    tiny.require_same_in_ctranslate2(read(write(**CONFIGS[name])), tmp_path, texts)


def test_madlads_special_tokens_and_tables_are_read(write: Write) -> None:
    """MADLAD-400 pads with `<s>`."""
    folder = write(vocabulary="madlad", untied=True, **MADLAD_IDS)
    configure(folder, extra_ids=0, pad_token="<s>", bos_token="<s>")
    model = read(folder)
    assert model.spec.architecture.tied_embeddings == "embeddings"
    encode, strings = model.vocabulary.encode, model.vocabulary.token_strings
    for text in ("a <s> b", "<2de> the dog", "the<2fr> dog"):
        refused(r"the text contains `<(s|2de|2fr)>`, a special token.*\s+hint: .*`--to`", encode, text)
    assert strings(encode("<2translate> a"))[-2] == "<2translate>"


@pytest.mark.parametrize("saved", [False, True], ids=["spiece.model", "tokenizer.json"])
@pytest.mark.parametrize("lists", [True, False])
def test_target_languages_are_chosen_as_in_transformers(lists: bool, saved: bool, write: Write, tmp_path: Path) -> None:
    """MADLAD-400's tokenizer lists additional tokens, none: `▁<2de>` then begins the source, and else `<2de>`."""
    folder = write(vocabulary="madlad", untied=True, **MADLAD_IDS)
    additional: dict[str, Any] = {"additional_special_tokens": []} if lists else {}
    tokenizer = configure(folder, saved=saved, extra_ids=0, pad_token="<s>", **additional)
    model = read(folder)
    assert model.spec.languages == Languages(codes=CODES)
    network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    texts = ["the old dog sees a small house", "zwei Bücher", "dog"]
    translator = tiny.translator_of(model, "eager")
    for code in CODES:
        prefixed = [f"<2{code}> {text}" for text in texts]
        tag = LanguagePair.of(model.spec, model.vocabulary, ("en", code)).source_tokens
        for text, line in zip(texts, prefixed, strict=True):
            names = model.vocabulary.token_strings([*tag, *model.vocabulary.encode(text)])
            assert names == tokenizer.tokenize(line)
            assert (names[0] == "▁") == lists
        theirs = tiny.greedy_names(network, tokenizer, tokenizer(prefixed, return_tensors="pt", padding=True))
        found = translator.hypotheses(texts, target=code, beam=1, protect=False)
        assert [model.vocabulary.token_strings(best.tokens) for best, *_ in found] == theirs
    sampled = model.vocabulary.source.sample([*tag, *model.vocabulary.encode(texts[0])], 0.1)
    assert tuple(sampled[: len(tag)]) == tag
    refused("no target language was given", translator.translate, "the dog")
    refused("the model does not support the language `it`", T5().read, folder, ImportRequest("mine", ("en", "it")))
    tiny.export(model, T5(), tmp_path)
    again = open_tokenizer(tmp_path)
    assert [again.tokenize(line) for line in prefixed] == [tokenizer.tokenize(line) for line in prefixed]


@pytest.mark.parametrize("saved", [False, True], ids=["spiece.model", "tokenizer.json"])
@pytest.mark.parametrize("listed", [{}, {"additional_special_tokens": ["[X]"]}, {"extra_special_tokens": {"x": "[X]"}}])
def test_texts_become_the_same_tokens(saved: bool, listed: dict[str, Any], write: Write) -> None:
    folder = write(vocabulary="symbols")
    added = {len(open_tokenizer(folder)): {"content": "<new>", "special": False}}
    tokenizer = configure(folder, saved=saved, extra_ids=3, added_tokens_decoder=added, **listed)
    model = read(folder)
    names = dict(enumerate(model.vocabulary.token_strings(range(80)))) | {BOS: "<pad>", 1: "<unk>"}
    tokenize: Any = model.vocabulary.source.tokenize  # type: ignore[union-attr]
    for text in (
        "the <extra_id_0> dog", "the<extra_id_2>dog", "<extra_id_0>", "<extra_id_0><extra_id_1> a", "a </s>b",
        "<unk><pad> </s></s>", "<extra_id_3> <extra_id_", "a<new>b [X] c[X]", "ｆｕｌｌ　width ½ ﬁ", "ZZZ qq <p>", "▁a",
        "", " a   b ", "[de] the dog", "<80>", "<s> a", "zwei  Bücher\tlesen",
    ):  # fmt: skip
        ids = model.vocabulary.encode(text)
        expected = tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)[:-1]
        assert [names[id] for id in ids] == expected, text
        found = ["<pad>" if token == "<s>" and "<s>" not in text else token for token in tokenize(text)]
        assert found == tokenizer.tokenize(text)


def test_settings_that_a_spec_cannot_express_are_rejected_by_name(write: Write) -> None:
    folder = write()
    config = json.loads((folder / "config.json").read_text())
    for settings, message in (
        *tiny.rejections(feed_forward_proj="tanh", dense_act_fn="silu", is_decoder=True),
        *tiny.rejections(feed_forward_proj="double-gelu"),
        ({"vocab_size": 60}, "settings require"),
        ({"d_model": 10**12}, "settings require"),
        ({"num_layers": 10**9}, "`architecture.N.encoder`"),
        ({"relative_attention_num_buckets": 7}, r"`architecture\.positions\.buckets`"),
        ({"eos_token_id": 5}, "ends a text with the token 1, but `eos_token_id` is 5"),
        ({"decoder_start_token_id": -1}, "`decoder_start_token_id: -1` is not an integer"),
    ):
        (folder / "generation_config.json").unlink(missing_ok=True)
        (folder / "config.json").write_text(json.dumps(config | settings))
        refused(message, read, folder)


def test_damaged_tokenizers_are_rejected(write: Write) -> None:
    folder = write()
    for config, message in (
        ({"tokenizer_class": "LlamaTokenizer"}, "zoo reads only T5Tokenizer"),
        ({"extra_ids": 90}, "tokens, but `vocab_size` is 80"),
        ({"extra_ids": -1}, "is damaged: `extra_ids`"),
        ({"added_tokens_decoder": {"5": {"content": "<x>"}}}, "`<x>` has no valid ID"),
        ({"added_tokens_decoder": {"9999999": {"content": "<x>"}}}, "has 10,000,000 tokens, but `vocab_size` is 80"),
        ({"added_tokens_decoder": {"75": {"content": "<x>", "single_word": True}}}, "it only matches whole words"),
    ):
        (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 3} | config))
        refused(message, read, folder)


def test_networks_that_t5_cannot_express_are_rejected_by_name(write: Write) -> None:
    spec = read(write(feed_forward_proj="gated-silu")).spec
    T5().written_architecture(spec)
    cross = [{"kind": "cross_attention"}, {"kind": "feed_forward", "gated": True, "bias": False, "activation": "silu"}]
    own, norm = {"kind": "self_attention"}, {"kind": "layer_norm", "placement": "pre"}
    relu = [own, {"kind": "feed_forward", "bias": False}]
    for changes, message in (
        ({"norm": norm}, "`architecture.norm.kind: layer_norm` would become `rms_norm`"),
        ({"d_k": 6}, "`architecture.d_v: 8` would become `6`"),
        ({"tied_embeddings": "none"}, "`architecture.tied_embeddings: none` would become `all`"),
        ({"decoder": [{"kind": "ssru"}, *cross]}, "its decoder layers consist of ssru"),
        ({"decoder": [{**own, "kv_heads": 1}, *cross]}, r"`architecture.decoder\[0\].kv_heads: 1` would become"),
        ({"encoder": relu}, r"`architecture.decoder\[2\].activation: silu` would become `relu`"),
    ):
        fields = {**spec.model_dump(mode="json", exclude_none=True)["architecture"], **changes}
        changed = spec.model_copy(update={"architecture": Architecture.model_validate(fields)})
        refused(message, T5().written_architecture, changed)
