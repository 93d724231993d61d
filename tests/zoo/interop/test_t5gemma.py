"""T5Gemma without soft-capping computes the same as in transformers; other properties are rejected by name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentencepiece
import torch

from specs import Architecture, ZooError
from zoo.interop.formats import Bundle, ImportedModel, ImportRequest
from zoo.interop.huggingface.t5gemma import T5Gemma

transformers = pytest.importorskip("transformers")

TEXTS = [
    "the old dog sees a small house",
    "zwei Bücher",
    "a <bos> dog<eos>reads a book",
    ("today we read two books " * 3).strip(),
]
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 100}
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied": {"tie_word_embeddings": False},
    "depths": {"decoder": {"num_hidden_layers": 1}},
    "one head of keys": {"both": {"num_key_value_heads": 1}},
    "as many heads of keys": {"both": {"num_key_value_heads": 4}, "eos": True},
    "wider heads": {"both": {"head_dim": 10, "query_pre_attn_scalar": 10}},
    "other decoder": {"decoder": {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 20}},
    "silu, theta": {
        "both": {"hidden_activation": "silu", "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"}}
    },
    "epsilon, full": {"both": {"rms_norm_eps": 0.1, "sliding_window": 3, "layer_types": ["full_attention"] * 2}},
    "padded vocabulary": {"vocab_size": 400, "eos": True},
}
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that writes a random model of transformers with a tiny vocabulary, and returns its folder."""
    content = io.BytesIO()
    names = {"pad_piece": "<pad>", "eos_piece": "<eos>", "bos_piece": "<bos>", "pad_id": 0, "eos_id": 1, "bos_id": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=content, model_type="bpe", vocab_size=320, unk_id=3,
        byte_fallback=True, hard_vocab_limit=False, add_dummy_prefix=False, remove_extra_whitespaces=False,
        normalization_rule_name="identity", minloglevel=2, **names,
    )  # fmt: skip

    def write_model(*, eos: bool = False, **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp("t5gemma")
        (folder / "tokenizer.model").write_bytes(content.getvalue())
        (folder / "tokenizer_config.json").write_text(json.dumps({"add_eos_token": eos}))
        torch.manual_seed(3)
        rows, caps = (
            settings.pop("vocab_size", 330),
            dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping")),
        )
        both, decoder = settings.pop("both", {}), settings.pop("decoder", {})
        sides = [{**SIZES, **caps, "vocab_size": rows, **both, **own} for own in ({}, decoder)]
        config = transformers.T5GemmaConfig(encoder=sides[0], decoder=sides[1], vocab_size=rows, **settings)
        network: Any = transformers.T5GemmaForConditionalGeneration(config)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.normal_(0, 0.3 if "norm" in name else 0.5)
        network.generation_config = transformers.GenerationConfig(
            max_length=12, eos_token_id=1, pad_token_id=0, decoder_start_token_id=2, bad_words_ids=[[0], [2]]
        )
        network.save_pretrained(folder)
        return folder

    return write_model


def read(folder: Path) -> ImportedModel:
    return T5Gemma().read(folder, ImportRequest("mine"))


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_models_compute_the_same(settings: dict[str, Any], write: Write, tmp_path: Path, tiny: SimpleNamespace) -> None:
    folder = write(**settings)
    tokenizer = transformers.GemmaTokenizer.from_pretrained(folder)
    model = read(folder)
    for text in TEXTS:
        ids, names = model.vocabulary.encode(text), model.vocabulary.source.token_strings(range(330))
        expected = [{"<bos>": "<s>", "<eos>": "</s>"}.get(name, name) for name in tokenizer.tokenize(text)]
        assert [names[id] for id in ids] == expected
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager")
    tiny.require_same_as_transformers(network, tokenizer, model, TEXTS)
    T5Gemma().write(Bundle(model.spec, model.vocabulary, model.tensors, proof=None), tmp_path)  # type: ignore[arg-type]
    again = read(tmp_path)
    assert (again.spec.architecture, again.spec.vocabulary) == (model.spec.architecture, model.spec.vocabulary)
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in model.tensors.items())
    assert again.vocabulary.has_same_tokens_as(model.vocabulary)
    written = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager")
    texts = TEXTS[:1]
    inputs, inputs_after = (
        each(texts, return_tensors="pt") for each in (tokenizer, transformers.GemmaTokenizer.from_pretrained(tmp_path))
    )
    with torch.inference_mode():
        before, after = (
            each.get_encoder()(**given).last_hidden_state
            for each, given in ((network, inputs), (written, inputs_after))
        )
    assert torch.allclose(before, after, atol=1e-5)


@pytest.mark.parametrize("name", ["untied", "other decoder"])
def test_models_compute_the_same_in_ctranslate2(name: str, write: Write, tmp_path: Path, tiny: SimpleNamespace) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    tiny.require_same_in_ctranslate2(read(write(**CONFIGS[name])), tmp_path, [TEXTS[0], TEXTS[1], TEXTS[3]])


def test_settings_that_a_spec_cannot_express_are_rejected_by_name(write: Write) -> None:
    folder = write()
    config = json.loads((folder / "config.json").read_text())
    for side, settings, message in (
        ("decoder", {"attn_logit_softcapping": 50.0}, "`decoder.attn_logit_softcapping: 50.0` limits numbers by tanh"),
        ("encoder", {"final_logit_softcapping": 30.0}, "`encoder.final_logit_softcapping: 30.0` limits"),
        ("encoder", {"hidden_size": 18}, "`decoder.hidden_size: 16` differs from the encoder"),
        ("decoder", {"rms_norm_eps": 0.5}, "`decoder.rms_norm_eps: 0.5` differs from the encoder"),
        ("encoder", {"query_pre_attn_scalar": 16}, "`encoder.query_pre_attn_scalar: 16` differs from `head_dim: 4`"),
        ("encoder", {"attention_bias": True}, "`encoder.attention_bias: true`"),
        ("encoder", {"hidden_activation": "tanh"}, "`encoder.hidden_activation: tanh`"),
        ("decoder", {"num_key_value_heads": 3}, r"`architecture\.decoder\[0\]\.kv_heads`|cannot be divided"),
        ("decoder", {"intermediate_size": 10**9}, r"d_ff` must be at most"),
        ("encoder", {"something_new": 1}, "`encoder.something_new: 1` is an unknown setting"),
        (
            "encoder",
            {"rope_parameters": {"rope_type": "linear", "factor": 2}},
            "`encoder.rope_parameters.rope_type: linear`",
        ),
    ):
        (folder / "config.json").write_text(json.dumps({**config, side: config[side] | settings}))
        with pytest.raises(ZooError, match=message):
            read(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))
    with pytest.raises(ZooError, match="puts `<bos>` before each source"):
        read(folder)


def test_lengths_stay_within_the_window_of_attention(write: Write) -> None:
    decoding = read(write(both={"sliding_window": 9})).spec.decoding
    assert (decoding.max_source_length, decoding.extra_length) == (8, 9)


def test_networks_that_t5gemma_cannot_express_are_rejected_by_name(write: Write) -> None:
    spec = read(write()).spec
    T5Gemma().written_architecture(spec)
    attention, feed_forward = {"kind": "self_attention"}, {"kind": "feed_forward", "gated": True, "bias": False}
    for changes, message in (
        ({"norm": {"kind": "rms_norm", "placement": "pre"}}, "`architecture.norm.placement: pre` would become `both`"),
        ({"positions": {"kind": "alibi"}}, "`architecture.positions.kind: alibi` would become `rotary`"),
        (
            {"attention_score": "dot_product"},
            "`architecture.attention_score: dot_product` would become `scaled_dot_product`",
        ),
        ({"d_v": 6}, "`architecture.d_v: 6` would become `4`"),
        ({"tied_embeddings": "all"}, "`architecture.tied_embeddings: all` would become `none`"),
        ({"scale_logits": True}, "`architecture.scale_logits: true` would become `false`"),
        (
            {"encoder": [attention, {"kind": "feed_forward"}]},
            r"`architecture.encoder\[1\].gated: false` would become `true`",
        ),
        ({"encoder": [{**attention, "d_k": 8}, feed_forward]}, r"`architecture.encoder\[0\].d_k: 8` would become `4`"),
        ({"encoder": [{"kind": "lstm"}, feed_forward]}, "its encoder has layers of lstm"),
    ):
        fields = {**spec.model_dump(mode="json", exclude_none=True)["architecture"], **changes}
        changed = spec.model_copy(update={"architecture": Architecture.model_validate(fields)})
        with pytest.raises(ZooError, match=message):
            T5Gemma().written_architecture(changed)
