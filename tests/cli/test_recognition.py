"""Acceptance test: models that read audio are trained from lists of files, resumed, scored, published and used."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import yaml

import specs
import zoo as library
from specs import Spec
from tests.conftest import Trained, Zoo, missing
from tests.refusals import refused
from zoo.data.prepare import prepare
from zoo.evaluation.evaluate import evaluate_models
from zoo.features.audio import Audio
from zoo.features.modality import modality_of
from zoo.generation.recognizer import Recognizer
from zoo.models import weights
from zoo.publishing.publish import publish
from zoo.report import Report
from zoo.training.run import Run

soundfile = pytest.importorskip("soundfile", reason="needs the `speech` extra")
pytest.importorskip("soxr", reason="needs the `speech` extra")
NOTES = {"low": 300, "high": 1_200, "top": 4_000}
SPEC = """
task: {kind: recognition, source: {kind: audio, bins: 20, time_masks: {number: 1, width: 4}}}
architecture:
  {N: 1, d_model: 16, d_ff: 24, h: 2, d_k: 8, d_v: 8, tied_embeddings: target,
   source: {kind: features, width: 20, subsampling: [{kernel: 3, stride: 2}, {kernel: 3, stride: 2}]}}
vocabulary: {kind: unigram, size: 14}
corpus: {source: en, target: en, train: [{source: train.lst, target: train.en}],
         dev: [{source: dev.lst, target: dev.en}], test: [], max_length: 200}
training: {steps: 4, checkpoint_steps: 2, warmup_steps: 1, average: 1, source_tokens: 400, target_tokens: 400}
compilation: {backend: eager}
"""
LANGUAGES = {"codes": ["en", "de"], "source_token": None, "target_token": "target"}


def write_sounds(split: str, count: int) -> None:
    """Write sounds of some notes, a list of the files, and their texts."""
    Path("sounds").mkdir(exist_ok=True)
    draw, names, texts = np.random.default_rng(len(split)), [], []
    for number in range(count):
        words = [str(word) for word in draw.choice(list(NOTES), draw.integers(1, 4))]
        times = np.arange(1_600) / 16_000
        samples = np.concatenate([np.sin(2 * np.pi * NOTES[word] * times) * 0.4 for word in words])
        names.append(f"sounds/{split} {number}.wav")
        soundfile.write(names[-1], samples + 0.01 * draw.standard_normal(len(samples)), 16_000)
        texts.append(" ".join(words))
    Path(f"{split}.lst").write_text("\n".join(names) + "\n")
    Path(f"{split}.en").write_text("\n".join(texts) + "\n")


def recognition(**overrides: Any) -> Spec:
    return specs.load("tiny", {**yaml.safe_load(SPEC), **overrides})


@pytest.fixture
def sounds() -> None:
    write_sounds("train", 60)
    write_sounds("dev", 6)


@pytest.fixture
def run(sounds: None) -> Run:
    return library.train(recognition(), run="run", quiet=True)


def read_weights(run: Run) -> dict[str, torch.Tensor]:
    return dict(weights.read(run.weights).tensors)


@pytest.mark.integration
def test_a_resumed_run_with_masks_ends_with_the_same_weights(run: Run) -> None:
    library.train(recognition(**{"training.steps": 2}), run="other", quiet=True)
    resumed = library.train(recognition(), run="other", quiet=True)
    expected, actual = read_weights(run), read_weights(resumed)
    assert all(torch.equal(actual[name], tensor) for name, tensor in expected.items())
    unmasked = library.train(recognition(**{"task.source.time_masks.number": 0}), run="unmasked", quiet=True)
    assert any(not torch.equal(tensor, read_weights(unmasked)[name]) for name, tensor in expected.items())


@pytest.mark.integration
def test_files_folders_and_lists_are_recognised(run: Run, zoo: Zoo) -> None:
    model = library.load(run.folder)
    assert isinstance(model, Recognizer)
    decode = partial(zoo, "decode", "--model", "run")
    names = sorted(map(str, Path("sounds").glob("dev*")))
    texts = model.translate(names)
    found = model.recognize([model.modality.encode(name) for name in names])
    assert [best.text for best, *_ in found] == texts
    assert model.translate(Path(names[0])) == texts[0]
    assert model.translate(map(Path, names[:2])) == texts[:2]
    (score,) = model.score([names[0]], [texts[0]])
    assert model.score(Path(names[0]), texts[0]) == score
    assert score == pytest.approx(found[0][0].log_probability, abs=1e-3)
    assert decode("--input", "dev.lst").out.splitlines() == decode(stdin="\n".join(names)).out.splitlines() == texts
    assert json.loads(decode("--input", names[0], "--json").out)["translations"][0]["text"] == texts[0]
    Path("folder").mkdir()
    Path("folder/dev.lst").write_text("".join(f"../{name}\n" for name in names))
    scored = zoo("score", "--model", "run", "--source", "folder/dev.lst", "--target", "dev.en")
    assert len(scored.printed.splitlines()) == 6
    halves = [decode("--input", "sounds", "--part", f"{part}/2").out for part in (1, 2)]
    assert "".join(halves) == decode("--input", "sounds").out != ""
    Path(names[1]).rename("folder/a.WAV")
    Path("folder/notes.txt").write_text("not a sound")
    Path("folder/._a.wav").write_bytes(b"hidden file, as macOS writes it")
    assert decode("--input", "folder").out.splitlines() == [texts[1]]
    assert "are inputs of the model" in decode("--input", "folder", "--output", "folder/a.WAV").refusal
    assert decode("--input", "folder/a.WAV").out.splitlines() == [texts[1]], "it is not overwritten"
    Path("folder/b.wav").symlink_to("nothing.wav")
    Path("folder/a.m4a").write_bytes(b"\0\0\0\x20ftypM4A \0\xff")
    Path("folder/b.lst").write_bytes(b"\xff\xfea\0")
    for name, problem in {
        "folder": "`folder/b.wav` is missing",
        "folder/a.m4a": "cannot be read as audio",
        "folder/b.lst": "iconv -f utf-16",
    }.items():
        assert problem in decode("--input", name).err
    result = decode("--input", "dev.lst")
    assert (result.status, missing(result.err, "is missing (dev.lst:2)", "check the path")) == (1, [])
    refused("needs a model that reads text", model.align, ["a"], ["b"])
    Path("dev.txt").write_text("text")
    assert "`zoo translate` needs a model that reads text" in zoo("translate", "dev.txt", "--model", "run").err


@pytest.mark.integration
def test_a_run_is_scored_and_published(run: Run) -> None:
    scores = evaluate_models([run.folder], "dev")
    assert (scores["sentences"], 1 < scores["perplexity"] < 100) == (6, True)
    folder = publish(run.folder)
    published, trained = (library.load(name).translate("sounds/dev 0.wav") for name in (folder.name, run.folder))
    assert published == trained
    assert "It reads audio files in `en`, and writes their text in" in (folder / "README.md").read_text()


@pytest.mark.integration
def test_one_model_writes_what_is_said_or_its_translation(sounds: None, zoo: Zoo) -> None:
    words = {"low": "tief", "high": "hoch", "top": "oben"}
    parts: dict[str, list[dict[str, str]]] = {}
    for split in ("train", "dev"):
        lines = Path(f"{split}.en").read_text().splitlines()
        Path(f"{split}.de").write_text("".join(" ".join(map(words.get, line.split())) + "\n" for line in lines))
        files = {"source": f"{split}.lst", "target": f"{split}.en"}
        parts[f"corpus.{split}"] = [files, {**files, "target": f"{split}.de", "target_language": "de"}]
    overrides = {"languages": LANGUAGES, "vocabulary.size": 24, "architecture.d_model": 32, "architecture.d_ff": 64}
    overrides |= {"training.steps": 120, "training.warmup_steps": 40}
    model = library.load(library.train(recognition(**parts, **overrides), run="both", quiet=True).folder)
    name = "sounds/dev 0.wav"
    texts = {target: model.translate(name, target=target) for target in ("en", "de")}
    assert model.translate(name) == texts["en"] != texts["de"]
    assert not {*texts["de"].split()} & {*words}
    for target, text in texts.items():
        ((best,),) = model.recognize([model.modality.encode(name)], target=target)
        assert (best.text, model.transcribe(name, target=target).text) == (text, text)
        assert model.attention(name, target=target).picture is not None
        assert zoo("transcribe", name, "--to", target, "--model", "both").status == 0
        assert Path(name).with_suffix(f".{target}.txt").read_text().strip() == text
    assert "does not support the language `fr`" in zoo("transcribe", name, "--to", "fr", "--model", "both").err


def test_files_whose_names_cannot_be_in_a_list_are_to_be_renamed(hearing: Trained, zoo: Zoo) -> None:
    hearing()
    for name, problem in (("a\nb.wav", "contains a line break"), ("a\udcff.wav", "is not valid Unicode")):
        soundfile.write(name.encode(errors="surrogateescape"), np.ones(3_000) / 2, 16_000)
        result = zoo("decode", "--model", "runs/hearing", "--input", name)
        error = refused(problem, library.load("runs/hearing").translate, name)
        for text in (result.refusal, str(error)):
            assert not missing(text, "file 1 ('a", problem, "rename the file")
    with patch.object(Audio, "names_files", False):
        assert library.load("runs/hearing").preprocessor().terms.unit == "inputs"


def test_prepared_features_are_those_of_the_files(sounds: None) -> None:
    spec = recognition(**{"corpus.max_length": 25})
    prepared = prepare(spec, Report())
    store, modality = prepared.store("dev"), modality_of(spec.task)
    assert modality is not None
    assert (prepared.counts.long > 0, len(prepared.dropped_examples)) == (True, 3)
    for index, name in enumerate(prepared.texts("dev")["source"]):
        np.testing.assert_allclose(store.row("source", index), modality.encode(name), atol=2e-3)
    masked = recognition(**{"corpus.max_length": 25, "task.source.time_masks.number": 3})
    assert prepare(masked, Report()).folder == prepared.folder
    shutil.copy("sounds/train 4.wav", "sounds/train 3.wav")
    assert prepare(spec, Report()).folder != prepared.folder


def test_tables_of_files_and_held_out_files_are_prepared(sounds: None) -> None:
    names, texts = (Path(f"train.{suffix}").read_text().splitlines() for suffix in ("lst", "en"))
    # The last line has no transcript.
    Path("train.tsv").write_text("".join([*map("{}\t{}\n".format, names, texts), f"{names[0]}\n"]))
    parts = {"corpus.train": [{"tsv": "train.tsv"}], "corpus.dev": [{"held_out": 5}]}
    spec = recognition(**parts, **{"corpus.filters": ["copy"]})
    prepared = prepare(spec, Report())
    assert (len(prepared.store("train")), len(prepared.texts("dev")["source"])) == (55, 5)


def test_a_list_with_a_wrong_line_is_refused(sounds: None) -> None:
    for line, problem in (("", "'' is not a file name"), ("a\tb.wav", "is not a file name"), ("c.wav", "is missing")):
        Path("dev.lst").write_text(f"{line}\n" * 6)
        refused(problem, prepare, recognition(), Report())


def test_corpora_of_the_wrong_kind_are_refused() -> None:
    for overrides, problem in (
        ({"corpus.train": [{"grammar": 9}]}, "needs audio files"),
        ({"corpus.max_ratio": 2.0}, "`corpus.max_ratio` compares numbers of tokens"),
        ({"vocabulary.shared": False}, "`vocabulary.shared` is false"),
        ({"languages": {"codes": ["en", "de"]}}, "`source_token: null` and `target_token: target`"),
    ):
        refused(problem, recognition, **overrides)


FILES = {"source": "a.lst", "target": "a.en"}
GERMAN = {**FILES, "target_language": "de"}


def test_a_recognizer_with_contradicting_languages_is_refused() -> None:
    for overrides, problem, hint in (
        ({"corpus.train": [FILES, GERMAN]}, "the spec has no `languages`", "{codes: [en, de], source_token: null, "),
        ({"languages": LANGUAGES}, "no part of `corpus.train` has the language `de`", "write `target_language: de` in"),
        ({"languages": {**LANGUAGES, "codes": ["en"]}}, "at least 2 items", "`languages: null`"),
    ):
        assert hint in str(refused(re.escape(problem), recognition, **overrides).hint)
    for side, code, corpus in (
        ("target", "fr", {"corpus.train": [{"digits": 5}]}),
        ("source", "und", {"corpus.train": [{**GERMAN, "source_language": "en"}], "corpus.dev": []}),
    ):
        problem = f"`languages.codes` does not contain `{code}`, which is `corpus.{side}`"
        error = refused(problem, recognition, languages=LANGUAGES, **{f"corpus.{side}": code, **corpus})
        assert "the languages are en, de" in str(error.hint)
