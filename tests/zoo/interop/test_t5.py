"""T5, mT5 and MADLAD-400 compute the same as in transformers, and read texts as its tokenizer does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file

from specs import BOS, Architecture, Languages, ZooError
from tests.zoo.interop import conftest as tiny
from zoo.interop.formats import Bundle, ImportedModel, ImportRequest
from zoo.interop.huggingface.t5 import T5
from zoo.interop.tables import Layout
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
    "depths": {"num_layers": 1, "num_decoder_layers": 3},
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
    usual, of_madlad = {"pad_id": 0, "eos_id": 1, "unk_id": 2}, {"unk_id": 0, "bos_id": 1, "eos_id": 2}
    words = [text.replace("<", "").replace(">", "") for text in TEXTS] * 5
    content, symbolic, madlad = (
        tiny.train_sentencepiece(words, 70, user_defined_symbols=symbols, **ids)
        for symbols, ids in (
            ([], usual),
            (["[de]", "[fr]"], usual),
            ([f"<2{code}>" for code in ALL_CODES], of_madlad),
        )
    )

    def write_model(
        *,
        untied: bool = False,
        is_madlad: bool = False,
        with_symbols: bool = False,
        extra_ids: int = 3,
        **settings: Any,
    ) -> Path:
        folder = tmp_path_factory.mktemp("t5")
        (folder / "spiece.model").write_bytes(madlad if is_madlad else symbolic if with_symbols else content)
        (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": extra_ids}))
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
        network.generation_config = transformers.GenerationConfig(
            max_length=12, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id,
            decoder_start_token_id=config.decoder_start_token_id, bad_words_ids=[[config.pad_token_id]],
        )  # fmt: skip
        network.save_pretrained(folder)
        return folder

    return write_model


def read(folder: Path) -> ImportedModel:
    return T5().read(folder, ImportRequest("mine"))


def exported(model: ImportedModel, folder: Path, family: T5 | None = None) -> Path:
    """Export an imported model, and return the folder. It must be the same when it is read back."""
    folder.mkdir()
    bundle = Bundle(model.spec, model.vocabulary, model.tensors, proof=None)  # type: ignore[arg-type]
    family = family or T5()
    family.write(bundle, folder)
    tiny.require_same_model(family.read(folder, ImportRequest("mine")), model)
    return folder


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_models_compute_the_same(settings: dict[str, Any], write: Write, tmp_path: Path) -> None:
    folder = write(**settings)
    model = read(folder)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tiny.require_same_as_transformers(network, transformers.T5Tokenizer.from_pretrained(folder), model, TEXTS)
    written = exported(model, tmp_path / "written")
    before, after = (load_file(each / "model.safetensors") for each in (folder, written))
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    tokens, tokens_after = (
        transformers.T5Tokenizer.from_pretrained(each)(TEXTS).input_ids for each in (folder, written)
    )
    assert tokens == tokens_after


@pytest.mark.parametrize("name", ["first T5", "v1.1", "mT5, tied"])
def test_models_compute_the_same_in_ctranslate2(name: str, write: Write, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    texts = ["the old dog sees a small house", "zwei Bücher", "today we read two books about a house " * 3]
    tiny.require_same_in_ctranslate2(read(write(**CONFIGS[name])), tmp_path, texts)


def test_madlads_special_tokens_and_tables_are_read(write: Write) -> None:
    """MADLAD-400 pads with `<s>`."""
    folder = write(is_madlad=True, untied=True, extra_ids=0, **MADLAD_IDS)
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0, "pad_token": "<s>", "bos_token": "<s>"}))
    model = read(folder)
    assert model.spec.architecture.tied_embeddings == "embeddings"
    encode, strings = model.vocabulary.encode, model.vocabulary.token_strings
    for text in ("a <s> b", "<2de> the dog", "the<2fr> dog"):
        with pytest.raises(ZooError, match=r"the text contains `<(s|2de|2fr)>`, a special token") as error:
            encode(text)
        assert "`--to`" in str(error.value.hint)
    assert strings(encode("<2translate> a"))[-2] == "<2translate>"


@pytest.mark.parametrize("saved", [False, True], ids=["spiece.model", "tokenizer.json"])
@pytest.mark.parametrize("listed", [True, False])
def test_target_languages_are_chosen_as_in_transformers(
    listed: bool, saved: bool, write: Write, tmp_path: Path
) -> None:
    """MADLAD-400's tokenizer lists additional tokens, none: `▁<2de>` then begins the source, and else `<2de>`."""
    folder = write(is_madlad=True, untied=True, extra_ids=0, **MADLAD_IDS)
    config = {"extra_ids": 0, "pad_token": "<s>", **({"additional_special_tokens": []} if listed else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
    if saved:
        (folder / "spiece.model").unlink()
        tokenizer.save_pretrained(folder)
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
            assert (names[0] == "▁") == listed
        inputs = tokenizer(prefixed, return_tensors="pt", padding=True)
        generated = network.generate(**inputs, use_cache=False)[:, 1:].tolist()
        for row, (best, *_) in zip(
            generated, translator.hypotheses(texts, target=code, beam=1, protect=False), strict=True
        ):
            names = [name.replace("⁇", "<unk>") for name in model.vocabulary.token_strings(best.tokens)]
            assert names == tiny.zoo_names(tokenizer, row, 2)
    sampled = model.vocabulary.source.sample([*tag, *model.vocabulary.encode(texts[0])], 0.1)
    assert tuple(sampled[: len(tag)]) == tag
    with pytest.raises(ZooError, match="the target language is not given"):
        translator.translate("the dog")
    with pytest.raises(ZooError, match="the model has no language `it`"):
        T5().read(folder, ImportRequest("mine", ("en", "it")))
    again = transformers.T5Tokenizer.from_pretrained(exported(model, tmp_path / "written"))
    assert [again.tokenize(line) for line in prefixed] == [tokenizer.tokenize(line) for line in prefixed]


@pytest.mark.parametrize("saved", [False, True], ids=["spiece.model", "tokenizer.json"])
@pytest.mark.parametrize("listed", [{}, {"additional_special_tokens": ["[X]"]}, {"extra_special_tokens": {"x": "[X]"}}])
def test_texts_become_the_same_tokens(saved: bool, listed: dict[str, Any], write: Write) -> None:
    folder = write(with_symbols=True)
    rows = len(transformers.T5Tokenizer.from_pretrained(folder))
    config = {"extra_ids": 3, "added_tokens_decoder": {rows: {"content": "<new>", "special": False}}, **listed}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
    if saved:
        (folder / "spiece.model").unlink()
        tokenizer.save_pretrained(folder)
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
        assert [
            "<pad>" if token == "<s>" and "<s>" not in text else token for token in tokenize(text)
        ] == tokenizer.tokenize(text)


def test_settings_that_a_spec_cannot_express_are_rejected_by_name(write: Write) -> None:
    folder = write()
    config = json.loads((folder / "config.json").read_text())
    for settings, message in (
        ({"feed_forward_proj": "tanh"}, "`feed_forward_proj: tanh`"),
        ({"feed_forward_proj": "double-gelu"}, "`feed_forward_proj: double-gelu`"),
        ({"dense_act_fn": "silu"}, "`dense_act_fn: silu`"),
        ({"is_decoder": True}, "`is_decoder: true`"),
        ({"something_new": 1}, "`something_new: 1` is an unknown setting"),
        ({"vocab_size": 60}, "settings require"),
        ({"d_model": 10**12}, "settings require"),
        ({"num_layers": 10**9}, "`architecture.N.encoder`"),
        ({"relative_attention_num_buckets": 7}, r"`architecture\.positions\.buckets`"),
        ({"eos_token_id": 5}, "ends a text with the token 1, but `eos_token_id` is 5"),
        ({"decoder_start_token_id": -1}, "`decoder_start_token_id: -1` is not an integer"),
    ):
        (folder / "generation_config.json").unlink(missing_ok=True)
        (folder / "config.json").write_text(json.dumps(config | settings))
        with pytest.raises(ZooError, match=message):
            read(folder)


def test_damaged_tokenizers_are_rejected(write: Write) -> None:
    folder = write()
    for config, message in (
        ({"tokenizer_class": "LlamaTokenizer"}, "zoo reads only T5Tokenizer"),
        ({"extra_ids": 90}, "tokens, but `vocab_size` is 80"),
        ({"extra_ids": -1}, "is damaged: `extra_ids`"),
        ({"added_tokens_decoder": {"5": {"content": "<x>"}}}, "the IDs of its added token"),
        ({"added_tokens_decoder": {"9999999": {"content": "<x>"}}}, "has 10,000,000 tokens, but `vocab_size` is 80"),
        ({"added_tokens_decoder": {"75": {"content": "<x>", "single_word": True}}}, "or only as a whole word"),
    ):
        (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 3} | config))
        with pytest.raises(ZooError, match=message):
            read(folder)


def test_networks_that_t5_cannot_express_are_rejected_by_name(write: Write) -> None:
    spec = read(write(feed_forward_proj="gated-silu")).spec
    T5().written_architecture(spec)
    cross = [{"kind": "cross_attention"}, {"kind": "feed_forward", "gated": True, "bias": False, "activation": "silu"}]
    for changes, message in (
        (
            {"norm": {"kind": "layer_norm", "placement": "pre"}},
            "`architecture.norm.kind: layer_norm` would become `rms_norm`",
        ),
        ({"d_k": 6}, "`architecture.d_v: 8` would become `6`"),
        ({"decoder": [{"kind": "ssru"}, *cross]}, "its decoder layers consist of ssru"),
        (
            {"decoder": [{"kind": "self_attention", "kv_heads": 1}, *cross]},
            r"`architecture.decoder\[0\].kv_heads: 1` would become",
        ),
        (
            {"encoder": [{"kind": "self_attention"}, {"kind": "feed_forward", "bias": False}]},
            r"`architecture.decoder\[2\].activation: silu` would become `relu`",
        ),
    ):
        fields = {**spec.model_dump(mode="json", exclude_none=True)["architecture"], **changes}
        changed = spec.model_copy(update={"architecture": Architecture.model_validate(fields)})
        with pytest.raises(ZooError, match=message):
            T5().written_architecture(changed)


class _Nested(T5):
    """A family whose tensors differ from those of T5 in their names only."""

    name = "hf-nested"
    model_types = ("nested",)
    tables: ClassVar = {key: name if key == "output" else f"model.{name}" for key, name in T5.tables.items()}

    def layout(self, a: Architecture) -> Layout:
        return Layout({ours: f"model.{theirs}" for ours, theirs in super().layout(a).names.items()})


@pytest.mark.parametrize("name", ["first T5", "v1.1"])
def test_a_family_with_other_names_of_tensors_needs_only_their_names(name: str, write: Write, tmp_path: Path) -> None:
    folder = write(**CONFIGS[name])
    expected = read(folder)
    file, config = folder / "model.safetensors", folder / "config.json"
    renamed = {key if key.startswith("lm_head") else f"model.{key}": x for key, x in load_file(file).items()}
    save_file(renamed, file, metadata={"format": "pt"})
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "nested"}))
    model = _Nested().read(folder, ImportRequest("mine"))
    assert model.spec == expected.spec
    assert all(torch.equal(tensor, model.tensors[key]) for key, tensor in expected.tensors.items())
    exported(model, tmp_path / "written", _Nested())
    assert load_file(tmp_path / "written/model.safetensors").keys() == renamed.keys()
