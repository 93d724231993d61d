"""A bundle that is written for another engine computes the same there, and comes back as it was."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo
from specs import BOS, UNK, ZooError
from zoo.files import manifest
from zoo.interop.exported import Bundle
from zoo.interop.exporter import export_model
from zoo.interop.importer import ImportOptions, import_model
from zoo.publishing import publish
from zoo.report import Report
from zoo.training.run import Run

EVEN = {"d_model": 16, "h": 2, "d_k": 8, "d_v": 8}
MODELS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "learned positions, silu": {"positional_encoding": "learned", "max_positions": 70, "activation": "silu"},
    "halves from 2, gelu": {"positional_encoding": "sinusoidal_halves", "first_position": 2, "activation": "gelu"},
    "two tables, biases": {"tied_embeddings": "target", "projection_bias": True, "output_bias": True},
    "three tables": {"tied_embeddings": "none", "N": {"encoder": 1, "decoder": 2}},
}
INSTALLED = {
    "hf-marian": ("transformers",),
    "ctranslate2": ("ctranslate2",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
}


def needs(format: str) -> None:
    for name in INSTALLED[format]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture
def published(trained: Callable[..., Run]) -> Callable[..., Path]:
    def make(**architecture: Any) -> Path:
        return publish.publish(trained(architecture={**EVEN, **architecture}).folder, name="exported")

    return make


@pytest.mark.parametrize("format", ["hf-marian", "ctranslate2"])
@pytest.mark.parametrize("of", MODELS.values(), ids=MODELS)
def test_it_comes_back_with_the_same_weights(
    of: dict[str, Any],
    format: str,
    published: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if format == "ctranslate2":
        needs(format)
    bundle = published(**of)
    done = export_model("exported", format, tmp_path / "written", Report())
    assert "Loading" not in capfd.readouterr().err, "bars of transformers"
    assert done.checked is None or done.checked.difference < 1e-3
    back = import_model(str(tmp_path / "written"), ImportOptions(name="back"), Report())
    before, after = (load_file(folder / "weights.safetensors") for folder in (bundle, back.folder))
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert not any(after[name].any() for name in after.keys() - before.keys()), "biases that do nothing"
    texts = ["the old dog sees the cat", "two books?"]
    one, other = (zoo.load(name, device="cpu", backend="eager") for name in ("exported", "back"))
    assert one.score(texts, texts) == pytest.approx(other.score(texts, texts), abs=1e-3)


@pytest.mark.parametrize("of", [MODELS["as in the paper"], MODELS["two tables, biases"]])
def test_transformers_translates_alike(of: dict[str, Any], published: Callable[..., Path], tmp_path: Path) -> None:
    needs("hf-marian")
    import transformers

    published(**of)
    export_model("exported", "hf-marian", tmp_path / "written", Report())
    tokenizer: Any = transformers.MarianTokenizer.from_pretrained(tmp_path / "written")
    model: Any = transformers.MarianMTModel.from_pretrained(tmp_path / "written")
    texts = ["the old dog sees the cat", "two books?", "we read today"]
    translator = zoo.load("exported", device="cpu", backend="eager")
    for text, (best, *_) in zip(texts, translator.hypotheses(texts, beam=1), strict=True):
        found = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=1, max_length=20)[0].tolist()
        assert found[1 : 1 + len(best.tokens[:18])] == list(best.tokens[:18])


def test_the_options_of_its_search_are_said(published: Callable[..., Path], tmp_path: Path) -> None:
    needs("ctranslate2")
    published()
    options = "`beam_size=4`, `length_penalty=0.6`, `min_decoding_length=0`"
    note, *_ = export_model("exported", "ctranslate2", tmp_path / "written", Report()).notes
    assert note == f"CTranslate2 searches by options of each call: {options} come nearest to the spec's."
    import_model(str(tmp_path / "written"), ImportOptions(name="back"), Report())
    options = "`beam_size=2`, `length_penalty=1.0`, `min_decoding_length=1`, `max_decoding_length=256`"
    (note,) = export_model("back", "ctranslate2", tmp_path / "again", Report()).notes
    assert note == f"CTranslate2 searches by options of each call: {options} are the spec's."


@pytest.mark.slow
def test_onnx_models_compute_the_same(published: Callable[..., Path], tmp_path: Path) -> None:
    needs("onnx")
    published()
    done = export_model("exported", "onnx", tmp_path / "written", Report())
    assert done.checked is not None
    assert done.checked.difference < 1e-4
    assert {"encode.onnx", "decode_step.onnx", "spec.yaml", "vocabulary.model"} <= {
        file.name for file in (tmp_path / "written").iterdir()
    }


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "pre-norm": ("norm: pre", {"norm": "pre"}),
    "heads": ("heads do not share", {"d_k": 6, "d_v": 4}),
    "SSRU": ("ssru", {"decoder": [{"kind": "ssru"}, {"kind": "cross_attention"}, {"kind": "feed_forward"}]}),
    "score": ("attention_score", {"attention_score": "dot_product"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_transformers_has_not_is_refused_by_name(
    case: str, published: Callable[..., Path], tmp_path: Path
) -> None:
    named, of = REFUSED[case]
    published(**of)
    with pytest.raises(ZooError, match=named) as told:
        export_model("exported", "hf-marian", tmp_path / "written", Report())
    assert told.value.hint == "`--to onnx` takes every model"
    assert not (tmp_path / "written").exists()


def test_what_ctranslate2_has_not_is_refused_by_name(published: Callable[..., Path], tmp_path: Path) -> None:
    needs("ctranslate2")
    published(**REFUSED["SSRU"][1])
    with pytest.raises(ZooError, match="cannot be written for CTranslate2: its decoder has layers of ssru") as told:
        export_model("exported", "ctranslate2", tmp_path / "written", Report())
    assert told.value.hint == "`--to onnx` takes every model"
    assert not (tmp_path / "written").exists()


def test_what_computes_something_else_is_not_written(published: Callable[..., Path], tmp_path: Path) -> None:
    needs("ctranslate2")
    bundle = published()
    file = bundle / "proof.safetensors"
    proof = load_file(file)
    save_file({**proof, "log_probabilities": proof["log_probabilities"] - 0.01}, file)
    manifest.write(bundle)
    with pytest.raises(ZooError, match="computes something else"):
        export_model("exported", "ctranslate2", tmp_path / "written", Report())
    assert not (tmp_path / "written").exists()


def test_a_proof_that_is_not_the_published_one_proves_nothing(published: Callable[..., Path], tmp_path: Path) -> None:
    file = published() / "proof.safetensors"
    proof = load_file(file)
    save_file({**proof, "log_probabilities": proof["log_probabilities"] - 0.01}, file)
    with pytest.raises(ZooError, match=r"proof.safetensors` is damaged"):
        export_model("exported", "hf-marian", tmp_path / "written", Report())


def test_a_number_that_is_none_is_no_small_difference(
    published: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the engine says of the first sentence, of one behind it comes no number."""
    needs("ctranslate2")
    import ctranslate2

    published()
    whole = ctranslate2.Translator

    class Faulty:
        def __init__(self, *where: Any, **how: Any) -> None:
            self.engine = whole(*where, **how)

        def score_batch(self, *of: Any) -> list[SimpleNamespace]:
            first, *others = (each.log_probs for each in self.engine.score_batch(*of))
            rows = [first, *([float("nan")] * len(row) for row in others)]
            return [SimpleNamespace(log_probs=row) for row in rows]

    monkeypatch.setattr(ctranslate2, "Translator", Faulty)
    with pytest.raises(ZooError, match="computes something else"):
        export_model("exported", "ctranslate2", tmp_path / "written", Report())
    assert not (tmp_path / "written").exists()


def test_what_of_a_search_is_left_to_the_caller_is_said(published: Callable[..., Path], tmp_path: Path) -> None:
    needs("ctranslate2")
    bundle = published()
    said = " ".join(export_model("exported", "ctranslate2", tmp_path / "bare", Report()).notes)
    assert "disable_unk" not in said
    before = zoo.spec(bundle / "spec.yaml")
    most = before.decoding.extra_length
    assert f"at most {before.decoding.length_factor:g} times the source's length + {most} tokens here" in said
    assert "`max_decoding_length`" in said
    assert "`stopping_rule: admissible`" in said
    decoding = before.decoding.model_copy(update={"suppressed_tokens": (UNK, BOS), "length_factor": 0.0})
    (bundle / "spec.yaml").write_text(before.model_copy(update={"decoding": decoding}).yaml(zoo.__version__))
    manifest.write(bundle)
    said = " ".join(export_model("exported", "ctranslate2", tmp_path / "suppressed_tokens", Report()).notes)
    assert '`disable_unk=True`, `suppress_sequences=[["<s>"]]`' in said
    assert f"`max_decoding_length={most}`" in said
    assert "tokens here" not in said


def test_a_name_is_looked_for_with_the_report_of_the_export(
    published: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, report, asked = published(), Report(), []

    def found(name: str, report: Report) -> Path:
        asked.append(report)
        return bundle

    monkeypatch.setattr("zoo.interop.export.find.published", found)
    export_model("exported", "hf-marian", tmp_path / "written", report)
    assert asked == [report]


class Slow:
    """A format that takes long enough for somebody else to write to the same place."""

    name, description = "slow", "nothing"

    def __init__(self, meanwhile: Callable[[], Any]) -> None:
        self.meanwhile = meanwhile

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        (folder / "model").write_text("written")
        self.meanwhile()
        return []

    def check(self, bundle: Bundle, folder: Path) -> None:
        return None


def test_what_is_put_there_meanwhile_stays(
    published: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published()
    folder = tmp_path / "written"
    folder.mkdir()
    monkeypatch.setattr("zoo.interop.export.TARGETS", [Slow(lambda: (folder / "mine").write_text("kept"))])
    with pytest.raises(ZooError, match="is there already") as told:
        export_model("exported", "slow", folder, Report())
    assert "left as it is" in str(told.value.hint)
    assert [file.name for file in folder.iterdir()] == ["mine"]
    assert (folder / "mine").read_text() == "kept"


def test_a_link_to_an_empty_folder_stays_one(
    published: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published()
    link, folder = tmp_path / "link", tmp_path / "elsewhere" / "empty"
    folder.mkdir(parents=True)
    link.symlink_to(folder)
    monkeypatch.setattr("zoo.interop.export.TARGETS", [Slow(lambda: None)])
    assert export_model("exported", "slow", link, Report()).folder == link
    assert link.is_symlink()
    assert (folder / "model").read_text() == "written"


def test_a_folder_that_is_there_and_a_format_that_is_not(published: Callable[..., Path], tmp_path: Path) -> None:
    published()
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "mine").write_text("kept")
    with pytest.raises(ZooError, match="is there already"):
        export_model("exported", "hf-marian", tmp_path / "written", Report())
    assert (tmp_path / "written" / "mine").read_text() == "kept"
    with pytest.raises(ZooError, match="did you mean `ctranslate2`"):
        export_model("exported", "ctranslate", tmp_path / "new", Report())
    with pytest.raises(ZooError, match="there is no published model `nothing`"):
        export_model("nothing", "onnx", tmp_path / "new", Report())
