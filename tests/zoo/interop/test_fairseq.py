"""Checkpoints of fairseq compute the same as a forward pass in plain torch, and none of their code runs."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, relu, silu

from specs import Sinusoidal, ZooError
from tests.zoo.interop import conftest as tiny
from zoo.interop.fairseq import FairseqImport
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.importer import read_foreign

WORDS = ("a", "b", "cc", "d@@", "e", "f", "g", "h")
D_MODEL, D_FF, HEADS = 8, 16, 2
END, PAD = 2, 1  # fairseq's </s> and <pad>
ACTIVATIONS = {"relu": relu, "gelu": gelu, "swish": silu}
SENTENCES = (("a b cc", "e f"), ("d@@ h h g a", "b"), ("zzz a", "cc e zzz"), ("b", "a a a a a a a"))
CHECKPOINT = "checkpoint_best.pt"


def options(**changes: Any) -> dict[str, Any]:
    """Return the options of a small model without sections."""
    sides = ("encoder", "decoder")
    sizes = {"embed_dim": D_MODEL, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 2}
    off = ("share_all_embeddings", "share_decoder_input_output_embed", "no_scale_embedding", "layernorm_embedding")
    return {
        **{f"{side}_{key}": value for side in sides for key, value in sizes.items()},
        **{f"{side}_{key}": False for side in sides for key in ("normalize_before", "learned_pos")},
        **dict.fromkeys((*off, "no_cross_attention"), False),
        **dict.fromkeys(("decoder_input_dim", "decoder_output_dim"), D_MODEL),
        "adaptive_softmax_cutoff": None,
        "activation_fn": "relu",
        "arch": "transformer",
        "task": "translation",
        "source_lang": "en",
        "target_lang": "de_DE",
        "lr": [0.0005],
        "adam_betas": "(0.9, 0.98)",
        "max_source_positions": 20,
        **changes,
    }


class Model:
    """A checkpoint with its dictionaries, and its forward pass."""

    def __init__(self, seed: int = 3, **changes: Any) -> None:
        self.options = options(**changes)
        self.shares_embeddings = self.options["share_all_embeddings"]
        self.target_words = WORDS if self.shares_embeddings else WORDS[::-1]
        torch.manual_seed(seed)
        self.tensors: dict[str, Tensor] = {}
        rows = 4 + len(WORDS)
        for side in ("encoder", "decoder"):
            self.tensors[f"{side}.embed_tokens.weight"] = torch.randn(rows, D_MODEL) / 2
            self.tensors[f"{side}.version"] = torch.tensor([3.0])
            if self.options[f"{side}_learned_pos"]:
                self.tensors[f"{side}.embed_positions.weight"] = torch.randn(22, D_MODEL) / 2
            else:
                self.tensors[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
            for number in range(self.options[f"{side}_layers"]):
                layer = f"{side}.layers.{number}"
                for part in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                    for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
                        self.add_linear(f"{layer}.{part}.{projection}", D_MODEL, D_MODEL)
                    self.add_norm(f"{layer}.{part}_layer_norm")
                self.add_linear(f"{layer}.fc1", D_MODEL, D_FF)
                self.add_linear(f"{layer}.fc2", D_FF, D_MODEL)
                self.add_norm(f"{layer}.final_layer_norm")
            if self.options[f"{side}_normalize_before"]:
                self.add_norm(f"{side}.layer_norm")
        if self.shares_embeddings:
            self.tensors["encoder.embed_tokens.weight"] = self.tensors["decoder.embed_tokens.weight"]
        tied = self.shares_embeddings or self.options["share_decoder_input_output_embed"]
        output = self.tensors["decoder.embed_tokens.weight"] if tied else torch.randn(rows, D_MODEL) / 2
        self.tensors["decoder.output_projection.weight"] = output

    def add_linear(self, name: str, inputs: int, outputs: int) -> None:
        self.tensors[f"{name}.weight"] = torch.randn(outputs, inputs) / 3
        self.tensors[f"{name}.bias"] = torch.randn(outputs) / 3

    def add_norm(self, name: str) -> None:
        self.tensors[f"{name}.weight"] = 1 + torch.randn(D_MODEL) / 5
        self.tensors[f"{name}.bias"] = torch.randn(D_MODEL) / 5

    def write(self, folder: Path, content: dict[str, Any] | None = None, zipped: bool = True, **more: Any) -> Path:
        """Write a folder; `content` replaces the flat options."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {**(content or {"args": argparse.Namespace(**self.options)}), **more}
        content = {"model": self.tensors, "optimizer_history": [{"num_updates": 7}], **content}
        torch.save(content, folder / CHECKPOINT, _use_new_zipfile_serialization=zipped)
        for language, words in (("en", WORDS), ("de_DE", self.target_words)):
            lines = "".join(f"{word} {9 - index}\n" for index, word in enumerate(words))
            (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
        return folder

    def log_probabilities(self, source: str, target: str) -> Tensor:
        """Return the log-probability of each target token and of EOS. Decoding begins with EOS."""
        memory = self.stack("encoder", ids(source, WORDS), None)
        expected = ids(target, self.target_words)
        y = self.stack("decoder", [END, *expected[:-1]], memory)
        logits = y @ self.tensors["decoder.output_projection.weight"].T
        return logits.log_softmax(-1)[torch.arange(len(expected)), torch.tensor(expected)]

    def stack(self, side: str, tokens: list[int], memory: Tensor | None) -> Tensor:
        scale = 1.0 if self.options["no_scale_embedding"] else math.sqrt(D_MODEL)
        x = scale * self.tensors[f"{side}.embed_tokens.weight"][tokens] + self.positions(side, len(tokens))
        pre_norm = self.options[f"{side}_normalize_before"]
        causal = torch.full((len(tokens), len(tokens)), -math.inf).triu(1) if memory is not None else torch.zeros(1)

        def norm(x: Tensor, name: str) -> Tensor:
            return layer_norm(x, (D_MODEL,), self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], 1e-5)

        def sublayer(x: Tensor, layer: str, part: str) -> Tensor:
            if part == "final":
                inner = ACTIVATIONS[self.options["activation_fn"]](self.linear(x, f"{layer}.fc1"))
                return self.linear(inner, f"{layer}.fc2")
            if part == "self_attn" or memory is None:
                return self.attention(x, x, f"{layer}.self_attn", causal)
            return self.attention(x, memory, f"{layer}.encoder_attn", torch.zeros(1))

        for number in range(self.options[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            for part in ("self_attn", *(["encoder_attn"] if memory is not None else []), "final"):
                name = f"{layer}.{part}_layer_norm"
                x = x + sublayer(norm(x, name), layer, part) if pre_norm else norm(x + sublayer(x, layer, part), name)
        return norm(x, f"{side}.layer_norm") if pre_norm else x

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def attention(self, x: Tensor, memory: Tensor, name: str, mask: Tensor) -> Tensor:
        query, key, value = (
            self.linear(inputs, f"{name}.{part}_proj").view(len(inputs), HEADS, -1).transpose(0, 1)
            for part, inputs in (("q", x), ("k", memory), ("v", memory))
        )
        weights = (query @ key.transpose(1, 2) / math.sqrt(D_MODEL / HEADS) + mask).softmax(-1)
        return self.linear((weights @ value).transpose(0, 1).reshape(len(x), D_MODEL), f"{name}.out_proj")

    def positions(self, side: str, length: int) -> Tensor:
        if self.options[f"{side}_learned_pos"]:
            return self.tensors[f"{side}.embed_positions.weight"][PAD + 1 : PAD + 1 + length]
        half = D_MODEL // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = torch.arange(2, 2 + length).unsqueeze(1) * rates
        return torch.cat([angles.sin(), angles.cos()], 1)


def ids(text: str, words: tuple[str, ...]) -> list[int]:
    return [*(4 + words.index(word) if word in words else 3 for word in text.split()), END]


def read(folder: Path) -> ImportedModel:
    return read_foreign(FairseqImport(), folder, ImportRequest("model"))


def require_same(folder: Path, model: Model) -> None:
    imported = read(folder)
    for source, target in SENTENCES:
        expected, found = model.log_probabilities(source, target), tiny.log_probabilities(imported, source, target)
        torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)


VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "tied": {"share_all_embeddings": True},
    "tied target, gelu": {"share_decoder_input_output_embed": True, "activation_fn": "gelu"},
    "tied, unscaled": {"share_all_embeddings": True, "no_scale_embedding": True},
    "different depths, swish": {"encoder_layers": 3, "decoder_layers": 1, "activation_fn": "swish"},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_imported_checkpoint_computes_the_same(changes: dict[str, Any], tmp_path: Path) -> None:
    model = Model(**changes)
    require_same(model.write(tmp_path), model)


def test_spec_and_notes(tmp_path: Path) -> None:
    imported = read(Model(share_all_embeddings=True).write(tmp_path))
    spec, decoding = imported.spec, imported.spec.decoding
    assert (spec.corpus.source, spec.corpus.target) == ("en", "de-DE")
    assert spec.architecture.positions == Sinusoidal(kind="sinusoidal_halves", first=2)
    assert spec.architecture.tied_embeddings == "all"
    assert (decoding.beam, decoding.length_penalty, decoding.alpha) == (5, "power", 1.0)
    assert (decoding.length_factor, decoding.extra_length) == (0, 200)
    assert (decoding.stopping_rule, decoding.min_length) == ("full", 1)
    assert any("tokenised text" in note for note in imported.notes)
    assert any("subword-nmt" in note for note in imported.notes)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_old_names_of_tensors_and_old_files(zipped: bool, tmp_path: Path) -> None:
    model = Model()
    numbers = {"self_attn": 0, "encoder_attn": 1, "final": 2}
    old: dict[str, Tensor] = {}
    for name, tensor in model.tensors.items():
        if name.endswith(("q_proj.weight", "q_proj.bias")):
            projections = [model.tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            old[name.replace("q_proj.", "in_proj_")] = torch.cat(projections)
        elif "_layer_norm." in name:
            layer, _, rest = name.partition(f".{name.split('.')[3]}")
            number = numbers[name.split(".")[3].removesuffix("_layer_norm")]
            old[f"{layer}.layer_norms.{number if name.startswith('decoder') else min(number, 1)}{rest}"] = tensor
        elif ".k_proj." not in name and ".v_proj." not in name:
            old[name] = tensor
    old["decoder.embed_out"] = old.pop("decoder.output_projection.weight")
    require_same(model.write(tmp_path, zipped=zipped, model=old), model)


def test_unsupported_options_and_tensors_are_rejected_by_name(tmp_path: Path) -> None:
    model = Model()
    for key, value in {
        "layernorm_embedding": True,
        "adaptive_softmax_cutoff": [100, 200],
        "no_token_positional_embeddings": True,
        "cross_self_attention": True,
        "decoder_normalize_before": True,
        "decoder_attention_heads": 4,
        "decoder_output_dim": 4,
        "activation_fn": "gelu_accurate",
        "task": "multilingual_translation",
        "encoder_layers_to_keep": "0,1",
        "scale_heads": True,
        "an_option_of_a_fork": 3,
    }.items():
        model.options = options(**{key: value})
        with pytest.raises(ZooError, match=key):
            read(model.write(tmp_path))
    model.options = options()
    norm = {"encoder.layernorm_embedding.weight": torch.ones(D_MODEL)}
    with pytest.raises(ZooError, match=r"encoder\.layernorm_embedding\.weight"):
        read(model.write(tmp_path, model={**model.tensors, **norm}))
    wrong = {"decoder.layers.0.fc1.weight": torch.ones(D_MODEL, D_FF)}
    with pytest.raises(ZooError, match=r"decoder\.layers\.0\.fc1\.weight"):
        read(model.write(tmp_path, model={**model.tensors, **wrong}))


class Malicious:
    """Object whose pickle creates a file if it is loaded without care."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_no_code_in_a_pickle_runs(zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / "touched"
    with pytest.raises(ZooError, match="calls `"):
        read(Model().write(tmp_path, zipped=zipped, more=Malicious(file)))
    assert not file.exists()


def test_objects_of_fairseq_are_inert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fairseq.dataclass")
    monkeypatch.setitem(sys.modules, "fairseq", ModuleType("fairseq"))
    monkeypatch.setitem(sys.modules, "fairseq.dataclass", module)
    config = type("Config", (), {"__module__": "fairseq.dataclass"})
    module.Config = config  # type: ignore[attr-defined]
    model = Model()
    folder = model.write(tmp_path, extra_state={"config": config()})
    monkeypatch.undo()
    require_same(folder, model)


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    model = Model()
    with pytest.raises(ZooError, match="an option has the type Tensor"):
        read(model.write(tmp_path, {"args": argparse.Namespace(**model.options | {"adaptive_input": torch.zeros(2)})}))
    file = model.write(tmp_path) / CHECKPOINT
    content = file.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.99):
        file.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ZooError, match=r"checkpoint_best\.pt"):
            read(tmp_path)
    file.write_bytes(content)
    dictionary = tmp_path / "dict.en.txt"
    dictionary.write_text("a 1\nb 1\n", encoding="utf-8")
    with pytest.raises(ZooError, match="the source vocabulary lists 6 tokens, but its embedding has 12 rows"):
        read(tmp_path)
    dictionary.write_text("a 1\nb\n", encoding="utf-8")
    with pytest.raises(ZooError, match=r"dict\.en\.txt:2"):
        read(tmp_path)
