"""Transformers' Marian: the same matrices as Marian's own give the same, with the positions of either."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo
from compiler import Purpose, interpret, lower
from specs import BOS, EOS, ZooError
from zoo.interop.formats import PositionConvention, format_of
from zoo.interop.huggingface.generation import KEYS
from zoo.interop.imported import Imported, Wanted
from zoo.interop.importer import ImportOptions, import_model
from zoo.models import local_store
from zoo.report import Report

LINES = [("the old dog reads", "ein Hund liest"), ("a house", "der alte Hund sieht ein Haus")]


class Written:
    """A folder, Marian's own matrices, and the tokens of both sides by their foreign numbers."""

    def __init__(self, tiny: SimpleNamespace, folder: Path, **config: Any) -> None:
        models = tuple(tiny.sentence_pieces(tiny.TEXT[part], 45) for part in (slice(3), slice(3, 6)))
        self.source, self.target = map(tiny.opened, models)
        names = dict.fromkeys(["</s>", "<unk>", ">>deu<<"])
        for each in (self.source, self.target):
            names |= dict.fromkeys(each.id_to_piece(number) for number in range(2, each.get_piece_size()))
        self.vocabulary = {name: number for number, name in enumerate([*names, "<pad>"])}
        rows = len(self.vocabulary) - 1
        self.weights = tiny.marian_weights(tiny.OPTIONS, (rows, rows))
        self.weights["decoder_ff_logit_out_b"][0, 0] = 3.0  # so that translations end
        self.place = tiny.write_transformers(folder / "hf", self.weights, self.vocabulary, models, **config)

    def rows(self, source: str, target: str) -> tuple[list[int], list[int]]:
        sides = ((self.source, source), (self.target, target))
        found = [[*(self.vocabulary[name] for name in model.encode(line, out_type=str)), 0] for model, line in sides]
        return found[0], found[1]

    def read(self, positions: PositionConvention | None = None) -> Imported:
        return format_of(self.place).read(self.place, Wanted("mine", positions=positions))

    def change(self, **config: Any) -> None:
        file = self.place / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | config))

    def generation(self, **settings: Any) -> None:
        """In a file of its own."""
        (self.place / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **settings}))


@pytest.fixture
def written(tiny: SimpleNamespace, tmp_path: Path) -> Written:
    return Written(tiny, tmp_path)


def scores(imported: Imported, source: str, target: str) -> np.ndarray:
    encode = imported.vocabulary.encode
    rows = [[*encode(source), EOS]], [[BOS, *encode(target, "target"), EOS]]
    inputs = {"source": torch.tensor(rows[0]), "target": torch.tensor(rows[1])}
    found = interpret(lower(imported.spec, Purpose.SCORE), dict(imported.tensors), inputs)
    return found["log_probabilities"][0].numpy()


@pytest.mark.parametrize(
    ("positions", "halves", "epsilon"), [(None, None, 1e-6), ("transformers", 4.0, 1e-5)], ids=["Marian's", "the other"]
)
def test_it_computes_what_marian_does(
    tiny: SimpleNamespace, written: Written, positions: PositionConvention | None, halves: float | None, epsilon: float
) -> None:
    imported = written.read(positions)
    how = {"epsilon": epsilon} | ({"halves": halves} if halves else {})
    marian = tiny.MarianModel(written.weights, tiny.OPTIONS, **how)
    for source, target in LINES:
        theirs, wanted = written.rows(source, target)
        every = marian.log_probabilities(theirs, wanted)
        if positions == "transformers":  # its padding has a share: a logit of 0
            log_sum = np.log(1 + np.exp(marian.last_logits).sum(-1, keepdims=True))
            every = marian.last_logits - log_sum
        expected = [row[token] for row, token in zip(every, wanted, strict=True)]
        np.testing.assert_allclose(scores(imported, source, target), expected, atol=2e-5)


def test_its_search_and_languages_come_along(written: Written) -> None:
    imported = written.read("transformers")
    spec = imported.spec
    found = spec.decoding
    assert (found.beam, found.alpha, found.length_penalty, found.suppressed_tokens) == (2, 1.0, "power", (BOS,))
    assert found.stopping_rule == "full"
    assert (found.length_factor, found.extra_length, found.max_source_length) == (0.0, 30, 63)
    assert (spec.corpus.source, spec.corpus.target) == ("eng", "deu")
    assert (spec.vocabulary.shared, spec.vocabulary.separate_models) == (True, True)
    assert any(">>deu<<" in note for note in imported.notes)


def test_a_model_of_the_hub_is_called_as_there(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by the commit that the folder of its files is called by."""
    monkeypatch.setattr("zoo.interop.importer.hub.fetched", lambda source, report: written.place)
    folder = import_model("hf:Org/opus-mt.en-de@main", ImportOptions(), Report()).folder
    assert folder.name == "opus-mt.en-de"
    assert (
        zoo.spec(folder / "spec.yaml").description == "Imported from the Hugging Face Marian model Org/opus-mt.en-de."
    )
    assert json.loads((folder / "facts.json").read_text())["imported"]["source"] == "hf:Org/opus-mt.en-de@main"


@pytest.mark.parametrize("source", [".", "../me@work"])
def test_a_folder_is_called_by_its_whole_name(written: Written, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    place = written.place.rename(written.place.with_name("me@work"))
    monkeypatch.chdir(place)
    folder = import_model(source, ImportOptions(), Report()).folder
    assert folder.name == "me-work"
    assert json.loads((folder / "facts.json").read_text())["imported"]["source"] == "me@work"


def test_only_a_config_forces_an_end_unsaid(written: Written) -> None:
    assert written.read().spec.decoding.extra_length == 30  # max_length 32 less the start and the forced EOS
    written.generation(max_length=32)
    assert written.read().spec.decoding.extra_length == 31
    written.generation(max_length=32, forced_eos_token_id=0)
    assert written.read().spec.decoding.extra_length == 30


@pytest.mark.parametrize(("early", "told"), [(True, 0), (False, 1), ("never", 1)])
def test_its_own_rule_of_an_end_is_told(written: Written, early: bool | str, told: int) -> None:
    written.generation(num_beams=4, early_stopping=early)
    assert sum("transformers' own rule" in note for note in written.read().notes) == told


def test_a_code_of_a_language_is_one_piece(written: Written) -> None:
    encode = written.read().vocabulary.encode
    assert encode(">>deu<< a house")[1:] == encode("a house")


def test_what_is_renormalised_has_no_share(written: Written) -> None:
    written.change(renormalize_logits=True)
    imported = written.read("transformers")
    assert imported.spec.decoding.suppressed_tokens == ()
    assert float(imported.tensors["output_bias"][BOS]) < -1e8


@pytest.mark.parametrize("zipped", [True, False], ids=["a zip", "of before torch 1.6"])
def test_weights_of_an_older_kind_are_read_without_code(written: Written, zipped: bool) -> None:
    before = written.read().tensors
    file = written.place / "model.safetensors"
    torch.save(load_file(file), written.place / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    file.unlink()
    after = written.read().tensors
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    torch.save({"model.shared.weight": Exception}, written.place / "pytorch_model.bin")
    with pytest.raises(ZooError, match=r"calls `exceptions\.Exception`, which no file of transformers does"):
        written.read()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"normalize_before": True}, "`normalize_before: true`"),
        ({"scale_embedding": False}, "`scale_embedding: false`"),
        ({"activation_function": "gelu_new"}, "`activation_function: gelu_new`"),
        ({"decoder_ffn_dim": 99}, "`decoder_ffn_dim: 99`"),
        ({"no_repeat_ngram_size": 3}, "`no_repeat_ngram_size: 3`"),
        ({"bad_words_ids": [[3, 4]]}, "words of several tokens"),
        ({"length_penalty": -1.0}, "`length_penalty: -1.0`"),
        ({"forced_bos_token_id": 5}, "`forced_bos_token_id: 5`"),
        ({"something_new": 1}, "`something_new: 1` is not known here"),
    ],
)
def test_what_a_spec_cannot_say_is_refused_by_name(written: Written, config: dict[str, Any], told: str) -> None:
    written.change(**config)
    with pytest.raises(ZooError) as error:
        written.read()
    assert told in error.value.problem
    assert "config.json" in str(error.value.where)


def test_where_a_file_says_how_to_search_the_config_is_asked_for_the_rest(written: Written) -> None:
    written.change(num_beams=7, no_repeat_ngram_size=3)
    written.generation(num_beams=3, max_length=32)
    assert written.read().spec.decoding.beam == 3
    written.change(something_new=1)
    with pytest.raises(ZooError, match="`something_new: 1` is not known here") as error:
        written.read()
    assert str(error.value.where).endswith("/config.json")


def test_a_file_of_how_to_search_is_known_whole(written: Written) -> None:
    written.generation(something_new=1)
    with pytest.raises(ZooError, match="`something_new: 1` is not known here") as error:
        written.read()
    assert str(error.value.where).endswith("/generation_config.json")


def test_what_transformers_writes_is_known(written: Written) -> None:
    transformers = pytest.importorskip("transformers")
    said = json.loads((written.place / "config.json").read_text())
    of_network = {key: value for key, value in said.items() if key not in KEYS or key.endswith("_token_id")}
    written.change(**transformers.MarianConfig(**of_network).to_dict())
    transformers.GenerationConfig(num_beams=2, max_length=32, eos_token_id=0).save_pretrained(written.place)
    assert written.read().spec.decoding.beam == 2


def test_every_tensor_is_known_and_there(written: Written) -> None:
    file = written.place / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"model.encoder.layernorm_embedding.weight": torch.ones(8)}, file)
    with pytest.raises(ZooError, match="layernorm_embedding"):
        written.read()
    save_file({name: tensor for name, tensor in tensors.items() if "fc1" not in name}, file)
    with pytest.raises(ZooError, match="fc1"):
        written.read()


def test_positions_in_a_file_must_be_sinusoids(written: Written) -> None:
    file, name = written.place / "model.safetensors", "model.encoder.embed_positions.weight"
    tensors = load_file(file)
    angles = torch.arange(64)[:, None] * 10000 ** (-torch.arange(4) / 4)
    save_file(tensors | {name: torch.cat([angles.sin(), angles.cos()], 1)}, file)
    written.read()
    save_file(tensors | {name: torch.randn(64, 8)}, file)
    with pytest.raises(ZooError, match="neither Marian's sinusoids"):
        written.read()


def test_positions_without_rows_take_no_memory(written: Written) -> None:
    file, name = written.place / "model.safetensors", "model.encoder.embed_positions.weight"
    save_file(load_file(file) | {name: torch.empty(0, 1_000_000_000)}, file)
    written.change(d_model=1_000_000_000)
    with pytest.raises(ZooError, match="positions of another width"):
        written.read()


@pytest.mark.parametrize("name", ["builtins bytearray", "torch Tensor", "os mkdir"])
def test_a_pickle_that_calls_what_takes_memory_is_refused_by_name(written: Written, name: str) -> None:
    (written.place / "model.safetensors").unlink()
    call = f"c{name.replace(' ', chr(10))}\n(K\x10tR.".encode("latin-1")
    with zipfile.ZipFile(written.place / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + call)
    with pytest.raises(ZooError, match=f"calls `{name.replace(' ', '.')}`"):
        written.read()


def test_an_archive_that_is_damaged_is_told(written: Written) -> None:
    file, weights = written.place / "model.safetensors", written.place / "pytorch_model.bin"
    torch.save(load_file(file), weights)
    file.unlink()
    held = bytearray(weights.read_bytes())
    with zipfile.ZipFile(weights) as archive:
        (pickle,) = [each for each in archive.infolist() if each.filename.endswith("data.pkl")]
    held[held.index(b"ctorch", pickle.header_offset) + 3] ^= 1
    weights.write_bytes(held)
    with pytest.raises(ZooError, match="cannot be read"):
        written.read()


def test_a_header_that_promises_too_much_is_not_believed(written: Written) -> None:
    (written.place / "model.safetensors").write_bytes((11_000_000).to_bytes(8, "little") + b"{}")
    with pytest.raises(ZooError, match="its header would have"):
        written.read()


@pytest.mark.parametrize(
    "settings",
    [{"length_penalty": 10**400}, {"bad_words_ids": [["x"]]}, {"bad_words_ids": [[999_999]]}],
    ids=["a number", "a word", "a token"],
)
def test_what_nobody_has_thought_of_is_no_fault_of_zoo(written: Written, settings: dict[str, Any]) -> None:
    written.generation(**settings)
    with pytest.raises(ZooError, match=r"is not as hf-marian's models are|is no number"):
        import_model(str(written.place), ImportOptions(name="mine"), Report())
    assert local_store.names() == []


@pytest.mark.parametrize("beam", [1, 3])
def test_transformers_finds_the_same(written: Written, beam: int, capfd: pytest.CaptureFixture[str]) -> None:
    """With `early_stopping` its beam search ends as ours does. No bars are shown, and counts of sentences are true."""
    pytest.importorskip("transformers")
    from zoo.interop.comparison import compared
    from zoo.report import Progress

    totals: list[int | None] = []

    class Told(Report):
        def progress(self, label: str, total: int | None, unit: str) -> Progress:
            totals.append(total)
            return Progress()

    pad = written.vocabulary["<pad>"]
    starts = {"decoder_start_token_id": pad, "pad_token_id": pad, "bad_words_ids": [[pad]]}
    written.generation(num_beams=beam, forced_eos_token_id=0, max_length=32, early_stopping=True, **starts)
    imported = written.read("transformers")
    found = compared(format_of(written.place), written.place, imported, [source for source, _ in LINES], Told())
    assert found.difference < 1e-4
    assert found.identical == 2
    assert set(totals) == {len(LINES)}
    assert "Loading" not in capfd.readouterr().err
