"""transformers' Marian models compute the same as Marian's forward pass with the same matrices."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from specs import BOS, Sinusoidal, ZooError
from tests import forks
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.formats import ImportedModel, ImportRequest, PositionConvention
from zoo.interop.huggingface.hub import HubModel
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.importer import find_format, import_model, read_foreign
from zoo.models import local_store
from zoo.report import Report

POSITIONS = "model.encoder.embed_positions.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    return tiny.TransformersFolder(tmp_path / "hf")


def read(folder: Any, positions: PositionConvention | None = None) -> ImportedModel:
    return read_foreign(HuggingFaceMarian(), folder.path, ImportRequest("mine", positions=positions))


def require_same(imported: ImportedModel, folder: Any, log_probabilities: Callable[..., torch.Tensor]) -> None:
    """Compare log-probabilities with those that a function computes from the IDs of both sides."""
    for source, target in tiny.SENTENCES:
        expected = log_probabilities(*folder.foreign_ids(source, target))
        np.testing.assert_allclose(tiny.log_probabilities(imported.model, source, target), expected, atol=2e-5)


def test_imported_model_computes_the_same(folder: Any) -> None:
    marian = tiny.marian_reference(folder.weights, tiny.MARIAN_OPTIONS)
    require_same(read(folder), folder, marian.log_probabilities)


def test_larger_opus_models_are_imported(folder: Any) -> None:
    """Models such as opus-mt-tc-big have ReLU, matrices in float16, and each shared matrix under all its names."""
    tensors = {name: tensor.half() for name, tensor in load_file(folder.weights_file).items()}
    names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    copies = {name: tensors["model.shared.weight"].clone() for name in names}
    save_file(tensors | copies, folder.weights_file)
    folder.write_config(
        activation_function="relu", forced_eos_token_id=0, bos_token_id=0, max_length=512, torch_dtype="float16",
        normalize_before=False, normalize_embedding=False, add_final_layer_norm=False, static_position_embeddings=True,
        tie_word_embeddings=True, share_encoder_decoder_embeddings=True, num_beams=4,
    )  # fmt: skip
    weights = {name: tensor.astype(np.float16).astype(np.float32) for name, tensor in folder.weights.items()}
    marian = tiny.marian_reference(weights, tiny.MARIAN_OPTIONS | {"transformer-ffn-activation": "relu"})
    imported = read(folder)
    assert imported.model.spec.decoding.extra_length == 510
    require_same(imported, folder, marian.log_probabilities)


def network_config(folder: Any) -> Any:
    """Return transformers' configuration of the network, without the settings of the search."""
    transformers = pytest.importorskip("transformers")
    search = ("bad_words_ids", "num_beams", "max_length")
    return transformers.MarianConfig(**{key: value for key, value in folder.config.items() if key not in search})


@pytest.mark.parametrize("common", [True, False], ids=["common embedding", "two embeddings"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_each_way_of_tying_computes_the_same_as_transformers(folder: Any, tied: bool, common: bool) -> None:
    """If `tie_word_embeddings` is false, transformers ties nothing, not even a common embedding.

    Only transformers, not Marian, trains models that leave embeddings unscaled.
    """
    transformers = pytest.importorskip("transformers")
    folder.config |= {"tie_word_embeddings": tied, "share_encoder_decoder_embeddings": common, "init_std": 0.5}
    folder.config["scale_embedding"] = common
    torch.manual_seed(5)
    network = transformers.MarianMTModel(network_config(folder)).eval()
    network.save_pretrained(folder.path)
    folder.write_config()
    (folder.path / "generation_config.json").unlink(missing_ok=True)
    if not common:
        (folder.path / "target_vocab.json").write_text(json.dumps(folder.ids))
    imported = read(folder, "transformers" if common else None)
    names, a = {(True, True): "all", (True, False): "target"}, imported.model.spec.architecture
    assert (a.tied_embeddings, a.scale_embeddings) == (names.get((tied, common), "none"), common)

    def log_probabilities(source: list[int], target: list[int]) -> torch.Tensor:
        return tiny.scores_of(network, {"input_ids": torch.tensor([source])}, torch.tensor([target]), folder.pad)[0]

    require_same(imported, folder, log_probabilities)


def test_missing_tables_are_tied_and_contradictory_ones_are_rejected(folder: Any) -> None:
    """Older versions of transformers write a common embedding once, even if the output is not tied to it."""
    tensors = load_file(folder.weights_file)
    shared, other = tensors["model.shared.weight"], torch.randn(tensors["model.shared.weight"].shape)
    names = {"source": "model.encoder.embed_tokens.weight", "target": "model.decoder.embed_tokens.weight"}
    names |= {"output": "lm_head.weight", "shared": "model.shared.weight"}
    (folder.path / "target_vocab.json").write_text(json.dumps(folder.ids))
    for tied, common, tables, expected in (
        (False, True, {"shared": shared, "output": other}, "embeddings"),
        (False, True, {"source": shared, "target": other, "output": other}, "target"),
        (True, True, {"output": shared}, "all"),
        (True, False, {"source": shared, "output": other}, "target"),
        (True, False, {"source": shared, "target": shared}, "target"),
        (True, True, {"shared": shared, "target": other}, None),
        (True, False, {"source": shared, "target": shared, "output": other}, None),
        (True, False, {"source": shared, "target": other, "shared": other}, None),
        (False, True, {"shared": shared}, None),
        (False, False, {"shared": shared, "output": other}, None),
    ):
        folder.write_config(tie_word_embeddings=tied, share_encoder_decoder_embeddings=common)
        written = {name: tensor for name, tensor in tensors.items() if name != names["shared"]}
        save_file(written | {names[key]: table.clone() for key, table in tables.items()}, folder.weights_file)
        if expected is None:
            refused(r"different embeddings|has no tensor|zoo does not support", read, folder)
        else:
            assert read(folder).model.spec.architecture.tied_embeddings == expected


def test_search_settings_and_languages_are_imported(folder: Any) -> None:
    imported = read(folder, "transformers")
    spec, decoding = imported.model.spec, imported.model.spec.decoding
    assert (decoding.beam, decoding.alpha, decoding.length_penalty) == (2, 1.0, "power")
    assert (decoding.stopping_rule, decoding.suppressed_tokens) == ("full", (BOS,))
    assert (decoding.length_factor, decoding.extra_length, decoding.max_source_length) == (0.0, 30, 63)
    assert (spec.corpus.source, spec.corpus.target) == ("eng", "deu")
    assert (spec.vocabulary.shared, spec.vocabulary.separate_models) == (True, True)
    assert any(">>deu<<" in note for note in imported.notes)
    encode = imported.model.vocabulary.encode
    assert encode(">>deu<< a house")[1:] == encode("a house")
    folder.write_config(renormalize_logits=True)
    imported = read(folder, "transformers")
    assert imported.model.spec.decoding.suppressed_tokens == ()
    assert float(imported.model.weights.tensors["output_bias"][BOS]) < -1e8


def test_maximum_length_excludes_forced_eos(folder: Any) -> None:
    """Only `config.json` forces EOS by default."""
    assert read(folder).model.spec.decoding.extra_length == 30  # 32 without the first token and the forced EOS
    forced = {"max_length": 32, "forced_eos_token_id": 0}
    for settings, expected in (({"max_length": 32}, 31), (forced, 30), ({"max_new_tokens": 9}, 9)):
        folder.write_generation(**settings)
        assert read(folder).model.spec.decoding.extra_length == expected


def test_different_stopping_rule_is_noted(folder: Any) -> None:
    for early_stopping, notes in ((True, 0), (False, 1), ("never", 1)):
        folder.write_generation(num_beams=4, early_stopping=early_stopping)
        assert sum("unlike in transformers" in note for note in read(folder).notes) == notes


def test_unsupported_settings_are_rejected_by_name(folder: Any) -> None:
    for config, message in (
        *tiny.rejections(normalize_before=True, activation_function="quick_gelu"),
        *tiny.rejections(decoder_ffn_dim=99, no_repeat_ngram_size=3, length_penalty=-1.0, forced_bos_token_id=5),
        ({"bad_words_ids": [[3, 4]]}, "words of several tokens"),
        ({"something_new": 1}, "`something_new: 1` is an unknown setting"),
    ):
        folder.write_config(**config)
        assert str(refused(message, read, folder).where).endswith("/config.json")


def test_generation_config_replaces_settings_in_config(folder: Any) -> None:
    folder.write_config(num_beams=7, no_repeat_ngram_size=3)
    folder.write_generation(num_beams=3, max_length=32)
    assert read(folder).model.spec.decoding.beam == 3
    folder.write_generation(something_new=1)
    error = refused("`something_new: 1` is an unknown setting", read, folder)
    assert str(error.where).endswith("/generation_config.json")


def test_all_settings_that_transformers_writes_are_known(folder: Any) -> None:
    transformers = pytest.importorskip("transformers")
    folder.write_config(**network_config(folder).to_dict())
    transformers.GenerationConfig(num_beams=2, max_length=32, eos_token_id=0).save_pretrained(folder.path)
    assert read(folder).model.spec.decoding.beam == 2


def test_missing_and_additional_tensors_are_rejected_by_name(folder: Any) -> None:
    tensors = load_file(folder.weights_file)
    save_file(tensors | {"model.encoder.layernorm_embedding.weight": torch.ones(8)}, folder.weights_file)
    refused("layernorm_embedding", read, folder)
    for missing in ("fc1.weight", "fc1.bias"):
        save_file({name: t for name, t in tensors.items() if not name.endswith(missing)}, folder.weights_file)
        refused(missing, read, folder)


def test_weights_may_be_split_into_several_files(folder: Any) -> None:
    whole, tensors = read(folder).model.weights.tensors, load_file(folder.weights_file)
    folder.weights_file.unlink()
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {key: names[number % 2] for number, key in enumerate(tensors)}
    for name in names:
        save_file({key: tensors[key] for key in tensors if index[key] == name}, folder.path / name)
    file = folder.path / "model.safetensors.index.json"
    file.write_text(json.dumps({"metadata": {}, "weight_map": index}))
    split = read(folder).model.weights.tensors
    assert all(torch.equal(tensor, split[name]) for name, tensor in whole.items())
    wrong = index | {"x": "../model.safetensors"}
    for listed, message in (
        (dict.fromkeys(index, names[0]), "does not have the tensors that"),
        (wrong, r"`\.\./model\.safetensors`, which is not a valid name of a weight file"),
    ):
        file.write_text(json.dumps({"metadata": {}, "weight_map": listed}))
        refused(message, read, folder)


def test_unknown_model_types_are_rejected_by_name(folder: Any) -> None:
    folder.write_config(model_type="gpt2")
    refused("of the type `gpt2`, but zoo imports only `marian`", find_format, folder.path)


def test_tables_of_positions_must_be_sinusoids_or_on_both_sides(folder: Any) -> None:
    tensors = load_file(folder.weights_file)
    angles = torch.arange(64)[:, None] * 10000 ** (-torch.arange(4) / 4)
    save_file(tensors | {POSITIONS: torch.cat([angles.sin(), angles.cos()], 1)}, folder.weights_file)
    assert read(folder).model.spec.architecture.positions == Sinusoidal(kind="sinusoidal_halves")
    save_file(tensors | {POSITIONS: torch.randn(64, 8)}, folder.weights_file)
    refused("either the encoder or the decoder has no position embeddings", read, folder)
    both = {POSITIONS: torch.randn(64, 8), POSITIONS.replace("encoder", "decoder"): torch.randn(60, 8)}
    save_file(tensors | both, folder.weights_file)
    imported = read(folder)
    assert imported.model.spec.architecture.max_positions == 60
    assert torch.equal(imported.model.weights.tensors["encoder.positions"], both[POSITIONS][:60])


def test_implausible_sizes_allocate_no_memory(folder: Any) -> None:
    save_file(load_file(folder.weights_file) | {POSITIONS: torch.empty(0, 1_000_000_000)}, folder.weights_file)
    folder.write_config(d_model=1_000_000_000)
    refused("position embeddings whose dimension is not", read, folder)
    folder.weights_file.write_bytes((11_000_000).to_bytes(8, "little") + b"{}")
    refused(r"model\.safetensors", read, folder)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_pickled_weights_are_read_without_running_code(folder: Any, zipped: bool) -> None:
    before, tensors = read(folder).model.weights.tensors, load_file(folder.weights_file)
    pickled = folder.path / "pytorch_model.bin"
    folder.weights_file.unlink()
    torch.save(tensors, pickled, _use_new_zipfile_serialization=zipped)
    after = read(folder).model.weights.tensors
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    tensors["final_logits_bias"] = tensors["final_logits_bias"].to("meta")
    for content, message in (
        ({"model.shared.weight": Exception}, r"calls `exceptions\.Exception`, which transformers files never call"),
        (tensors, "is not a tensor with values"),
    ):
        torch.save(content, pickled)
        refused(message, read, folder)


def test_pickles_that_call_functions_are_rejected_by_name(folder: Any) -> None:
    """torch ignores case when it looks for the member with the pickle."""
    folder.weights_file.unlink()
    for name in ("builtins bytearray", "torch Tensor", "os mkdir"):
        call = f"c{name.replace(' ', chr(10))}\n(K\x10tR.".encode("latin-1")
        with zipfile.ZipFile(folder.path / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/DATA.PKL", b"\x80\x02" + call)
        refused(f"calls `{name.replace(' ', '.')}`", read, folder)


IMPORT = """
import sys
from specs import ZooError
from zoo.interop.formats import ImportRequest
from zoo.interop.importer import import_model
from zoo.report import Report
from zoo.system.memory import peak_memory
try:
    import_model(sys.argv[1], ImportRequest(name="mine"), Report())
except ZooError as error:
    print(peak_memory("cpu"), error)
"""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_small_file_that_fills_the_memory_is_rejected(folder: Any) -> None:
    """In a new process, because other tests may have used more memory."""
    folder.weights_file.unlink()
    first = b"c_codecs\nencode\n(X\x01\0\0\0xX\x06\0\0\0latin1tRq\0"
    doubled = b"c_codecs\nencode\n(h\0X\x03\0\0\0hextRq\0"  # twice as many bytes
    with zipfile.ZipFile(folder.path / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/version", b"3\n")
        archive.writestr("archive/data.pkl", b"\x80\x02" + first + doubled * 40 + b".")
    peak, _, message = forks.run(IMPORT, str(folder.path)).stdout.partition(" ")
    assert re.search("needs more than .* of memory, but the files are only", message)
    assert int(peak) < 2e9


def test_an_optional_file_that_cannot_be_read_is_not_ignored(folder: Any) -> None:
    (folder.path / "generation_config.json").symlink_to("nowhere")
    refused(r"generation_config\.json` is missing", read, folder)


def test_invalid_values_are_reported_as_a_damaged_model(folder: Any) -> None:
    for settings in ({"length_penalty": 10**400}, {"bad_words_ids": [["x"]]}, {"bad_words_ids": [[999_999]]}):
        folder.write_generation(**settings)
        with pytest.raises(ZooError, match=r"is not a valid hf-marian model|is not a number"):
            import_model(str(folder.path), ImportRequest(name="mine"), Report())
    assert local_store.names() == []


@pytest.mark.integration
def test_names_of_imported_models(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the Hub has the name of its repository, and a folder its own name."""
    monkeypatch.setattr(HubModel, "download", lambda model, report: folder.path)
    bundle = import_model("hf:Org/opus-mt.en-de@main", ImportRequest(), Report())
    assert bundle.name == "opus-mt.en-de"
    assert "Hugging Face model Org/opus-mt.en-de." in (bundle / "spec.yaml").read_text()
    facts = json.loads((bundle / "facts.json").read_text())
    assert facts["imported"]["source"] == "hf:Org/opus-mt.en-de@main"
    monkeypatch.chdir(folder.path.rename(folder.path.with_name("me@work")))
    bundle = import_model(".", ImportRequest(), Report())
    assert bundle.name == "me-work"
    assert json.loads((bundle / "facts.json").read_text())["imported"]["source"] == "me@work"
