"""Checkpoints of fairseq: made of the keys that it documents, they compute what a forward pass in plain torch does."""

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

from compiler import TRANSLATE, build
from specs import ZooError
from zoo.generation.translator import Translator
from zoo.interop.fairseq.format import Fairseq
from zoo.interop.imported import Imported, Wanted

WORDS = ("a", "b", "cc", "d@@", "e", "f", "g", "h")
D, D_FF, HEADS = 8, 16, 2
ENDS, PADS = 2, 1  # fairseq's </s> and <pad>
ACTIVATIONS = {"relu": relu, "gelu": gelu, "swish": silu}


def options(**changed: Any) -> dict[str, Any]:
    """Those of a small model, as a flat list."""
    sides = ("encoder", "decoder")
    sizes = {"embed_dim": D, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 2}
    of_sides = {f"{side}_{key}": value for side in sides for key, value in sizes.items()}
    flags = {f"{side}_{key}": False for side in sides for key in ("normalize_before", "learned_pos")}
    return {
        **of_sides,
        **flags,
        **dict.fromkeys(("share_all_embeddings", "share_decoder_input_output_embed", "no_scale_embedding"), False),
        **dict.fromkeys(("layernorm_embedding", "no_cross_attention"), False),
        **dict.fromkeys(("decoder_input_dim", "decoder_output_dim"), D),
        "adaptive_softmax_cutoff": None,
        "activation_fn": "relu",
        "arch": "transformer",
        "task": "translation",
        "source_lang": "en",
        "target_lang": "de_DE",
        "lr": [0.0005],
        "adam_betas": "(0.9, 0.98)",
        "max_source_positions": 20,
        **changed,
    }


def tensors(of: dict[str, Any], *, rows: int = 4 + len(WORDS)) -> dict[str, Tensor]:
    """Random ones by fairseq's names."""
    torch.manual_seed(3)
    found: dict[str, Tensor] = {}

    def linear(name: str, inner: int, outer: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = torch.randn(outer, inner) / 3, torch.randn(outer) / 3

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = 1 + torch.randn(D) / 5, torch.randn(D) / 5

    for side in ("encoder", "decoder"):
        found[f"{side}.embed_tokens.weight"] = torch.randn(rows, D) / 2
        found[f"{side}.version"] = torch.tensor([3.0])
        if of[f"{side}_learned_pos"]:
            found[f"{side}.embed_positions.weight"] = torch.randn(22, D) / 2
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for number in range(of[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            for part in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    linear(f"{layer}.{part}.{projection}", D, D)
                norm(f"{layer}.{part}_layer_norm")
            linear(f"{layer}.fc1", D, D_FF)
            linear(f"{layer}.fc2", D_FF, D)
            norm(f"{layer}.final_layer_norm")
        if of[f"{side}_normalize_before"]:
            norm(f"{side}.layer_norm")
    if of["share_all_embeddings"]:
        found["encoder.embed_tokens.weight"] = found["decoder.embed_tokens.weight"]
    shared = of["share_all_embeddings"] or of["share_decoder_input_output_embed"]
    found["decoder.output_projection.weight"] = (
        found["decoder.embed_tokens.weight"] if shared else torch.randn(rows, D) / 2
    )
    return found


def write(folder: Path, of: dict[str, Any], found: dict[str, Tensor], held: dict[str, Any] | None = None) -> Path:
    """A folder with `checkpoint_best.pt` and the dictionaries; `held` in place of the flat options."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = held or {"args": argparse.Namespace(**of)}
    torch.save({**kept, "model": found, "optimizer_history": [{"num_updates": 7}]}, folder / "checkpoint_best.pt")
    for language in ("en", "de_DE"):
        of_side = WORDS if language == "en" or of["share_all_embeddings"] else WORDS[::-1]
        lines = "".join(f"{word} {9 - place}\n" for place, word in enumerate(of_side))
        (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
    return folder


def log_probabilities(of: dict[str, Any], found: dict[str, Tensor], source: list[int], target: list[int]) -> Tensor:
    """Of each token of a target, in fairseq's numbers; it begins after EOS and ends with EOS."""
    memory = _stack("encoder", of, found, torch.tensor(source), None)
    begun = torch.tensor([ENDS, *target[:-1]])
    logits = _stack("decoder", of, found, begun, memory) @ found["decoder.output_projection.weight"].T
    return logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)]


def _stack(side: str, of: dict[str, Any], found: dict[str, Tensor], ids: Tensor, memory: Tensor | None) -> Tensor:
    scale = 1.0 if of["no_scale_embedding"] else math.sqrt(D)
    x = scale * found[f"{side}.embed_tokens.weight"][ids] + _positions(side, of, found, len(ids))
    before = of[f"{side}_normalize_before"]
    hidden = torch.full((len(ids), len(ids)), -math.inf).triu(1) if memory is not None else torch.zeros(1)

    def normed(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, (D,), found[f"{name}.weight"], found[f"{name}.bias"], 1e-5)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ found[f"{name}.weight"].T + found[f"{name}.bias"]

    def attention(x: Tensor, of_what: Tensor, name: str, mask: Tensor) -> Tensor:
        query, key, value = (
            linear(each, f"{name}.{part}_proj").view(len(each), HEADS, -1).transpose(0, 1)
            for part, each in (("q", x), ("k", of_what), ("v", of_what))
        )
        weights = (query @ key.transpose(1, 2) / math.sqrt(D / HEADS) + mask).softmax(-1)
        return linear((weights @ value).transpose(0, 1).reshape(len(x), D), f"{name}.out_proj")

    active = ACTIVATIONS[of["activation_fn"]]

    def sublayer(x: Tensor, layer: str, part: str) -> Tensor:
        if part == "final":
            return linear(active(linear(x, f"{layer}.fc1")), f"{layer}.fc2")
        if part == "self_attn":
            return attention(x, x, f"{layer}.self_attn", hidden)
        assert memory is not None
        return attention(x, memory, f"{layer}.encoder_attn", torch.zeros(1))

    for number in range(of[f"{side}_layers"]):
        layer = f"{side}.layers.{number}"
        for part in ("self_attn", *(["encoder_attn"] if memory is not None else []), "final"):
            norm = f"{layer}.{part}_layer_norm"
            x = x + sublayer(normed(x, norm), layer, part) if before else normed(x + sublayer(x, layer, part), norm)
    return normed(x, f"{side}.layer_norm") if before else x


def _positions(side: str, of: dict[str, Any], found: dict[str, Tensor], length: int) -> Tensor:
    if of[f"{side}_learned_pos"]:
        return found[f"{side}.embed_positions.weight"][PADS + 1 : PADS + 1 + length]
    half = D // 2
    angles = torch.arange(2, 2 + length).unsqueeze(1) * torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], 1)


SENTENCES = (("a b cc", "e f"), ("d@@ h h g a", "b"), ("zzz a", "cc e zzz"), ("b", "a a a a a a a"))
MODELS = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "tied": {"share_all_embeddings": True},
    "tied-target": {"share_decoder_input_output_embed": True, "activation_fn": "gelu"},
    "tied-and-not-scaled": {"share_all_embeddings": True, "no_scale_embedding": True},
    "depths": {"encoder_layers": 3, "decoder_layers": 1, "activation_fn": "swish"},
}


def imported(folder: Path) -> Imported:
    return Fairseq().read(folder, Wanted("model"))


def translator(model: Imported) -> Translator:
    program = build(model.spec, TRANSLATE, weights=model.tensors, backend="eager", device="cpu")
    return Translator(program, model.vocabulary, model.spec)


def ids(text: str, words: tuple[str, ...]) -> list[int]:
    return [*(4 + words.index(word) if word in words else 3 for word in text.split()), ENDS]


def require_alike(model: Imported, of: dict[str, Any], found: dict[str, Tensor]) -> None:
    ours = translator(model)
    of_target = WORDS if of["share_all_embeddings"] else WORDS[::-1]
    for source, target in SENTENCES:
        expected = log_probabilities(of, found, ids(source, WORDS), ids(target, of_target))
        (scored,) = ours.score_tokens([source], [target])
        torch.testing.assert_close(torch.tensor(scored.token_log_probabilities), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changed", MODELS.values(), ids=MODELS)
def test_it_computes_what_the_checkpoint_does(changed: dict[str, Any], tmp_path: Path) -> None:
    of = options(**changed)
    found = tensors(of)
    require_alike(imported(write(tmp_path, of, found)), of, found)


def test_it_says_what_it_is(tmp_path: Path) -> None:
    of = options(share_all_embeddings=True)
    model = imported(write(tmp_path, of, tensors(of)))
    spec = model.spec
    assert (spec.corpus.source, spec.corpus.target) == ("en", "de-DE")
    assert (spec.architecture.positional_encoding, spec.architecture.first_position) == ("sinusoidal_halves", 2)
    assert spec.architecture.tied_embeddings == "all"
    assert (spec.decoding.beam, spec.decoding.length_penalty, spec.decoding.alpha) == (5, "power", 1.0)
    assert (spec.decoding.length_factor, spec.decoding.extra_length) == (0, 200)
    assert (spec.decoding.stopping_rule, spec.decoding.min_length) == ("full", 1)
    assert any("cut into tokens already" in note for note in model.notes)
    assert any("subword-nmt" in note for note in model.notes)


def test_options_in_sections_say_the_same(tmp_path: Path) -> None:
    of = options()
    found = tensors(of)
    model = {key: value for key, value in of.items() if key not in ("task", "source_lang", "target_lang")}
    task = {"_name": "translation", "source_lang": "en", "target_lang": "de_DE", "left_pad_source": True}
    sections = {"_name": None, "common": {"seed": 1, "anything": 2}, "task": task, "model": argparse.Namespace(**model)}
    sectioned = imported(write(tmp_path / "new", of, found, {"args": None, "cfg": sections}))
    flat = imported(write(tmp_path / "old", of, found))
    assert sectioned.spec == flat.spec
    assert all(torch.equal(tensor, flat.tensors[name]) for name, tensor in sectioned.tensors.items())


def test_tensors_as_they_were_called_before_are_found(tmp_path: Path) -> None:
    of = options()
    found = tensors(of)
    old = {}
    for name, tensor in found.items():
        place = (
            ("self_attn", "encoder_attn", "final").index(name.split(".")[3].removesuffix("_layer_norm"))
            if ("_layer_norm." in name)
            else 0
        )
        if name.endswith(("q_proj.weight", "q_proj.bias")):
            several = [found[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            old[name.replace("q_proj.", "in_proj_")] = torch.cat(several)
        elif "_layer_norm." in name:
            layer, kind = name.rpartition(".")[0].rpartition(".")[0], name.rpartition(".")[2]
            number = place if name.startswith("decoder") else min(place, 1)
            old[f"{layer}.layer_norms.{number}.{kind}"] = tensor
        elif ".k_proj." not in name and ".v_proj." not in name:
            old[name] = tensor
    old["decoder.embed_out"] = old.pop("decoder.output_projection.weight")
    require_alike(imported(write(tmp_path, of, old)), of, found)


def test_a_file_of_before_there_were_zips_is_read(tmp_path: Path) -> None:
    of = options()
    found = tensors(of)
    folder = write(tmp_path, of, found)
    held = {"args": argparse.Namespace(**of), "model": found}
    torch.save(held, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=False)
    require_alike(imported(folder), of, found)


REFUSED = {
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
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_a_spec_cannot_say_is_refused_by_name(key: str, tmp_path: Path) -> None:
    plain = options()
    folder = write(tmp_path, options(**{key: REFUSED[key]}), tensors(plain))
    with pytest.raises(ZooError, match=key):
        imported(folder)


def test_a_tensor_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    of = options()
    folder = write(tmp_path, of, {**tensors(of), "encoder.layernorm_embedding.weight": torch.ones(D)})
    with pytest.raises(ZooError, match=r"encoder\.layernorm_embedding\.weight"):
        imported(folder)


class Evil:
    """What runs a command where a pickle of it is opened without care."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_in_a_pickle_is_executed(zipped: bool, tmp_path: Path) -> None:
    of = options()
    folder, touched = write(tmp_path, of, tensors(of)), tmp_path / "touched"
    held = {"args": argparse.Namespace(**of), "model": tensors(of), "more": Evil(touched)}
    torch.save(held, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ZooError, match="calls `"):
        imported(folder)
    assert not touched.exists()


def test_what_fairseq_itself_would_call_is_left_inert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fairseq.dataclass")
    monkeypatch.setitem(sys.modules, "fairseq", ModuleType("fairseq"))
    monkeypatch.setitem(sys.modules, "fairseq.dataclass", module)
    kind = type("Kind", (), {"__module__": "fairseq.dataclass"})
    module.Kind = kind  # type: ignore[attr-defined]
    of = options()
    found = tensors(of)
    folder = write(tmp_path, of, found, {"args": argparse.Namespace(**of), "extra_state": {"of": kind()}})
    monkeypatch.undo()
    require_alike(imported(folder), of, found)


def test_an_option_that_is_a_tensor_is_told(tmp_path: Path) -> None:
    of = options()
    held = {"args": argparse.Namespace(**of | {"adaptive_input": torch.zeros(2)}), "model": tensors(of)}
    with pytest.raises(ZooError, match="an option is of Tensor"):
        imported(write(tmp_path, of, tensors(of), held))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_refused(share: float, tmp_path: Path) -> None:
    of = options()
    file = write(tmp_path, of, tensors(of)) / "checkpoint_best.pt"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(ZooError, match=r"checkpoint_best\.pt"):
        imported(tmp_path)


def test_a_dictionary_of_another_model_is_refused(tmp_path: Path) -> None:
    of = options()
    folder = write(tmp_path, of, tensors(of))
    (folder / "dict.en.txt").write_text("a 1\nb 1\n", encoding="utf-8")
    with pytest.raises(ZooError, match="source vocabulary lists 6 tokens"):
        imported(folder)
    (folder / "dict.en.txt").write_text("a 1\nb\n", encoding="utf-8")
    with pytest.raises(ZooError, match=r"dict\.en\.txt:2"):
        imported(folder)
