"""Checkpoints of fairseq compute the same as a forward pass in plain torch, and none of their code runs."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, silu

from specs import Sinusoidal, ZooError
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.fairseq import FairseqImport
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.importer import read_foreign

WORDS = ("a", "b", "cc", "d@@", "e", "f", "g", "h")
D_MODEL, D_FF, HEADS = tiny.D_MODEL, tiny.D_FF, tiny.HEADS
SIDES = ("encoder", "decoder")
END, PAD = 2, 1  # fairseq's </s> and <pad>
ACTIVATIONS = {"relu": relu, "gelu": gelu, "swish": silu}
SENTENCES = (("a b cc", "e f"), ("d@@ h h g a", "b"), ("zzz a", "cc e zzz"), ("b", "a a a a a a a"))
CHECKPOINT = "checkpoint_best.pt"


def options(**changes: Any) -> dict[str, Any]:
    """Return the options of a small model without sections."""
    sizes = {"embed_dim": D_MODEL, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 2}
    off = ("share_all_embeddings", "share_decoder_input_output_embed", "no_scale_embedding", "layernorm_embedding")
    network = {"arch": "transformer", "activation_fn": "relu", "max_source_positions": 20}
    training = {"task": "translation", "source_lang": "en", "target_lang": "de_DE", "lr": [0.0005]}
    return {
        **{f"{side}_{key}": value for side in SIDES for key, value in sizes.items()},
        **{f"{side}_{key}": False for side in SIDES for key in ("normalize_before", "learned_pos")},
        **dict.fromkeys((*off, "no_cross_attention"), False),
        **dict.fromkeys(("decoder_input_dim", "decoder_output_dim"), D_MODEL),
        "adaptive_softmax_cutoff": None,
        "adam_betas": "(0.9, 0.98)",
        **network,
        **training,
        **changes,
    }


class Model:
    """A checkpoint with its dictionaries, and its forward pass."""

    def __init__(self, seed: int = 3, **changes: Any) -> None:
        self.options = given = options(**changes)
        self.target_words = WORDS if given["share_all_embeddings"] else WORDS[::-1]
        marian = {"tied-embeddings-all": given["share_all_embeddings"], "output-omit-bias": True}
        marian |= {"tied-embeddings": given["share_decoder_input_output_embed"]}
        marian |= {f"{side[:3]}-depth": given[f"{side}_layers"] for side in SIDES}
        marian |= {"transformer-preprocess": "n" if given["encoder_normalize_before"] else ""}
        weights = tiny.marian_weights(tiny.MARIAN_OPTIONS | marian, 4 + len(WORDS), seed=seed)
        self.tensors = tiny.by_fairseq_names(weights)
        for side in SIDES:
            self.tensors[f"{side}.version"] = torch.tensor([3.0])
            learned = given[f"{side}_learned_pos"]
            positions = {"weight": torch.randn(22, D_MODEL) / 2} if learned else {"_float_tensor": torch.zeros(1)}
            self.tensors |= {f"{side}.embed_positions.{name}": tensor for name, tensor in positions.items()}

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
        ours, table = self.options, self.tensors["decoder.embed_tokens.weight"]
        how = {"scale": 1.0 if ours["no_scale_embedding"] else D_MODEL**0.5, "first": PAD + 1, "eps": 1e-5}
        how |= {"activation": ACTIVATIONS[ours["activation_fn"]], "pre_norm": ours["decoder_normalize_before"]}
        reference = tiny.Reference(self.tensors, start=table[END], **how)
        return reference.log_probabilities(ids(source, WORDS), ids(target, self.target_words)).float()


def ids(text: str, words: tuple[str, ...]) -> list[int]:
    return [*(4 + words.index(word) if word in words else 3 for word in text.split()), END]


def read(folder: Path) -> ImportedModel:
    return read_foreign(FairseqImport(), folder, ImportRequest("model"))


def require_same(folder: Path, model: Model) -> None:
    imported = read(folder).model
    for source, target in SENTENCES:
        expected, found = model.log_probabilities(source, target), tiny.log_probabilities(imported, source, target)
        torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)


VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
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
    spec, decoding = imported.model.spec, imported.model.spec.decoding
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
    flags = ("layernorm_embedding", "no_token_positional_embeddings", "cross_self_attention", "scale_heads")
    unsupported: dict[str, Any] = dict.fromkeys((*flags, "decoder_normalize_before"), True)
    unsupported |= {"decoder_attention_heads": 4, "decoder_output_dim": 4, "an_option_of_a_fork": 3}
    unsupported |= {"adaptive_softmax_cutoff": [100, 200], "activation_fn": "gelu_accurate"}
    unsupported |= {"task": "multilingual_translation", "encoder_layers_to_keep": "0,1"}
    for key, value in unsupported.items():
        model.options = options(**{key: value})
        refused(key, read, model.write(tmp_path))
    model.options = options()
    for name, shape in (("encoder.layernorm_embedding", (D_MODEL,)), ("decoder.layers.0.fc1", (D_MODEL, D_FF))):
        with pytest.raises(ZooError, match=rf"{re.escape(name)}\.weight"):
            read(model.write(tmp_path, model={**model.tensors, f"{name}.weight": torch.ones(shape)}))


class Malicious:
    """Object whose pickle creates a file if it is loaded without care."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_no_code_in_a_pickle_runs(zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / "touched"
    refused("calls `", read, Model().write(tmp_path, zipped=zipped, more=Malicious(file)))
    assert not file.exists()


def test_objects_of_fairseq_are_inert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fairseq", "fairseq.dataclass"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    config = type("Config", (), {"__module__": "fairseq.dataclass"})
    monkeypatch.setattr(sys.modules["fairseq.dataclass"], "Config", config, raising=False)
    model = Model()
    folder = model.write(tmp_path, extra_state={"config": config()})
    monkeypatch.undo()
    require_same(folder, model)


def test_a_folder_without_a_usual_checkpoint_is_rejected_with_the_names_of_its_checkpoints(tmp_path: Path) -> None:
    refused("contains none of checkpoint_best.pt, .*, and has no `.pt` files", read, tmp_path)
    for number in range(1, 7):
        (tmp_path / f"checkpoint{number}.pt").touch()
    listed = r"has 6 other `.pt` files \(checkpoint1.pt, .*, checkpoint5.pt, ...\)"
    refused(rf"{listed}\s+hint: use the path of the checkpoint file", read, tmp_path)
    (tmp_path / "model.bin").touch()
    refused(r"its name does not end in `.pt`", read, tmp_path / "model.bin")


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    model = Model()
    with pytest.raises(ZooError, match="an option has the type Tensor"):
        read(model.write(tmp_path, {"args": argparse.Namespace(**model.options | {"adaptive_input": torch.zeros(2)})}))
    file = model.write(tmp_path) / CHECKPOINT
    content = file.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.99):
        file.write_bytes(content[: int(share * len(content))])
        refused(r"checkpoint_best\.pt", read, tmp_path)
    file.write_bytes(content)
    for lines, message in (
        ("a 1\nb 1\n", "the source vocabulary lists 6 tokens, but its embedding has 12 rows"),
        ("a 1\nb\n", r"dict\.en\.txt:2"),
    ):
        (tmp_path / "dict.en.txt").write_text(lines, encoding="utf-8")
        refused(message, read, tmp_path)
