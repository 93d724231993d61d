"""Acceptance test: models that read audio are trained from lists of files, resumed, scored, published and used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import specs
import zoo as library
from specs import Spec, ZooError
from zoo.data.prepare import prepare
from zoo.evaluation.evaluate import evaluate_models
from zoo.features.modality import modality_of
from zoo.generation.recognizer import Recognizer
from zoo.models import weights
from zoo.publishing.publish import publish
from zoo.report import Report
from zoo.training.run import Run

soundfile = pytest.importorskip("soundfile", reason="needs the `speech` extra")
pytest.importorskip("soxr", reason="needs the `speech` extra")
NOTES = {"low": 300, "high": 1_200, "top": 4_000}


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
    masks = {"number": 1, "width": 4}
    files = {split: [{"source": f"{split}.lst", "target": f"{split}.en"}] for split in ("train", "dev")}
    given: dict[str, Any] = {
        "task": {"kind": "recognition", "source": {"kind": "audio", "bins": 20, "time_masks": masks}},
        "architecture": {
            "N": 1,
            "d_model": 16,
            "d_ff": 24,
            "h": 2,
            "d_k": 8,
            "d_v": 8,
            "tied_embeddings": "target",
            "source": {"kind": "features", "width": 20, "subsampling": [{"kernel": 3, "stride": 2}] * 2},
        },
        "vocabulary": {"kind": "unigram", "size": 14},
        "corpus": {"source": "en", "target": "en", **files, "test": [], "max_length": 200},
        "training": {
            "steps": 4,
            "checkpoint_steps": 2,
            "warmup_steps": 1,
            "average": 1,
            "source_tokens": 400,
            "target_tokens": 400,
        },
        "compilation": {"backend": "eager"},
    }
    return specs.load(
        "tiny", {**{f"{a}.{b}": value for a, fields in given.items() for b, value in fields.items()}, **overrides}
    )


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
def test_files_folders_and_lists_are_recognised(run: Run, zoo: Callable[..., Any]) -> None:
    model = library.load(run.folder)
    assert isinstance(model, Recognizer)
    names = sorted(map(str, Path("sounds").glob("dev*")))
    texts = model.translate(names)
    found = model.recognize([model.modality.encode(name) for name in names])
    assert [best.text for best, *_ in found] == texts
    assert model.translate(Path(names[0])) == texts[0]
    assert model.translate(map(Path, names[:2])) == texts[:2]
    (score,) = model.score([names[0]], [texts[0]])
    assert model.score(Path(names[0]), texts[0]) == score
    assert score == pytest.approx(found[0][0].log_probability, abs=1e-3)
    outputs = [
        zoo("decode", "--model", "run", "--input", "dev.lst"),
        zoo("decode", "--model", "run", stdin="\n".join(names)),
        zoo("decode", "--model", "run", "--input", names[0], "--json"),
    ]
    assert outputs[0].out.splitlines() == outputs[1].out.splitlines() == texts
    assert json.loads(outputs[2].out)["translations"][0]["text"] == texts[0]
    Path("lists").mkdir()
    Path("lists/dev.lst").write_text("".join(f"../{name}\n" for name in names))
    scored = zoo("score", "--model", "run", "--source", "lists/dev.lst", "--target", "dev.en")
    assert len(scored.out.splitlines()) == 6, scored.err
    halves = [zoo("decode", "--model", "run", "--input", "sounds", "--part", f"{part}/2").out for part in (1, 2)]
    assert "".join(halves) == zoo("decode", "--model", "run", "--input", "sounds").out != ""
    Path("folder").mkdir()
    Path(names[1]).rename("folder/a.WAV")
    Path("folder/notes.txt").write_text("not a sound")
    assert zoo("decode", "--model", "run", "--input", "folder").out.splitlines() == [texts[1]]
    (broken := Path("folder/b.wav")).symlink_to("nothing.wav")
    assert "`folder/b.wav` is missing" in zoo("decode", "--model", "run", "--input", "folder").err
    broken.unlink()
    Path("folder/._a.wav").write_bytes(b"hidden file, as macOS writes it")
    assert zoo("decode", "--model", "run", "--input", "folder").out.splitlines() == [texts[1]]
    kept = Path("folder/a.WAV").read_bytes()
    written = zoo("decode", "--model", "run", "--input", "folder", "--output", "folder/a.WAV")
    assert ("is the name of an audio file" in written.err, written.status) == (True, 2), written.err
    assert Path("folder/a.WAV").read_bytes() == kept
    Path("folder/a.m4a").write_bytes(b"\0\0\0\x20ftypM4A \0\xff")
    Path("folder/b.lst").write_bytes(b"\xff\xfea\0")
    assert "cannot be read as audio" in zoo("decode", "--model", "run", "--input", "folder/a.m4a").err
    assert "iconv -f utf-16" in zoo("decode", "--model", "run", "--input", "folder/b.lst").err
    assert "writes `en`, not `fr`" in zoo("decode", "--model", "run", "--input", "folder", "--to", "fr").err
    missing = zoo("decode", "--model", "run", "--input", "dev.lst")
    assert missing.status == 1
    assert "is missing (dev.lst:2)" in missing.err
    assert "check the path" in missing.err
    with pytest.raises(ZooError, match="needs a model that reads text"):
        model.align(["a"], ["b"])
    Path("dev.txt").write_text("text")
    assert "`zoo translate` needs a model that reads text" in zoo("translate", "dev.txt", "--model", "run").err


@pytest.mark.integration
def test_a_run_is_scored_and_published(run: Run) -> None:
    scores = evaluate_models([run.folder], "dev")
    assert scores["sentences"] == 6
    assert 1 < scores["perplexity"] < 100
    folder = publish(run.folder)
    published = library.load("transformer-tiny-ende")
    name = sorted(map(str, Path("sounds").glob("dev*")))[0]
    assert published.translate(name) == library.load(run.folder).translate(name)
    assert "It reads audio files in `en`, and writes their text in" in (folder / "README.md").read_text()


@pytest.mark.integration
def test_one_model_writes_what_is_said_or_its_translation(sounds: None, zoo: Callable[..., Any]) -> None:
    words = {"low": "tief", "high": "hoch", "top": "oben"}
    parts: dict[str, list[dict[str, str]]] = {}
    for split in ("train", "dev"):
        lines = Path(f"{split}.en").read_text().splitlines()
        Path(f"{split}.de").write_text("".join(" ".join(map(words.get, line.split())) + "\n" for line in lines))
        files = {"source": f"{split}.lst", "target": f"{split}.en"}
        parts[f"corpus.{split}"] = [files, {**files, "target": f"{split}.de", "target_language": "de"}]
    languages = {"codes": ["en", "de"], "source_token": None, "target_token": "target"}
    overrides = {"languages": languages, "vocabulary.size": 24, "architecture.d_model": 32, "architecture.d_ff": 64}
    overrides |= {"training.steps": 120, "training.warmup_steps": 40}
    model = library.load(library.train(recognition(**parts, **overrides), run="both", quiet=True).folder)
    name = min(map(str, Path("sounds").glob("dev*")))
    texts = {target: model.translate(name, target=target) for target in ("en", "de")}
    assert model.translate(name) == texts["en"] != texts["de"]
    assert not {*texts["de"].split()} & {*words}
    for target, text in texts.items():
        ((best,),) = model.recognize([model.modality.encode(name)], target=target)
        assert (best.text, model.transcribe(name, target=target).text) == (text, text)
        assert model.attention(name, target=target).picture is not None
        assert zoo("transcribe", name, "--to", target, "--model", "both").status == 0
        assert Path(name).with_suffix(f".{target}.txt").read_text().strip() == text
    assert "has no language `fr`" in zoo("transcribe", name, "--to", "fr", "--model", "both").err


def test_files_with_names_that_cannot_be_lines_of_a_list_are_to_be_renamed(
    hearing: Callable[..., Run], zoo: Callable[..., Any]
) -> None:
    hearing()
    for name, problem in (("a\nb.wav", "contains a line break"), ("a\udcff.wav", "is not valid Unicode")):
        soundfile.write(name.encode(errors="surrogateescape"), np.ones(3_000) / 2, 16_000)
        result = zoo("decode", "--model", "runs/hearing", "--input", name)
        with pytest.raises(ZooError, match=problem) as error:
            library.load("runs/hearing").translate(name)
        assert result.status == 2
        for text in (result.err, f"{error.value} {error.value.hint}"):
            assert "file 1 ('a" in text
            assert problem in text
            assert "rename the file" in text


def test_prepared_features_are_those_of_the_files(sounds: None) -> None:
    spec = recognition(**{"corpus.max_length": 25})
    prepared = prepare(spec, Report())
    store, modality = prepared.store("dev"), modality_of(spec.task)
    assert modality is not None
    assert prepared.counts.long > 0
    assert len(prepared.dropped_examples) == 3
    for index, name in enumerate(prepared.texts("dev")["source"]):
        np.testing.assert_allclose(store.row("source", index), modality.encode(name), atol=2e-3)
    assert prepare(recognition(**{"corpus.max_length": 25, "task.source.time_masks.number": 3}), Report()).folder == (
        prepared.folder
    )
    other = Path("sounds/train 3.wav")
    other.write_bytes(Path("sounds/train 4.wav").read_bytes())
    assert prepare(spec, Report()).folder != prepared.folder


def test_tables_of_files_and_held_out_files_are_prepared(sounds: None) -> None:
    lines = zip(*(Path(f"train.{suffix}").read_text().splitlines() for suffix in ("lst", "en")), strict=True)
    Path("train.tsv").write_text("".join(f"{text}\t{name}\n" for name, text in lines))
    table = {"tsv": "train.tsv", "source_column": 2, "target_column": 1}
    spec = recognition(**{"corpus.train": [table], "corpus.dev": [{"held_out": 5}], "corpus.filters": ["copy"]})
    prepared = prepare(spec, Report())
    assert len(prepared.store("train")) + 5 == 60
    assert len(prepared.texts("dev")["source"]) == 5


@pytest.mark.parametrize(
    ("line", "problem"), [("", "'' is not a file name"), ("a\tb.wav", "is not a file name"), ("c.wav", "is missing")]
)
def test_a_list_with_a_wrong_line_is_refused(sounds: None, line: str, problem: str) -> None:
    Path("dev.lst").write_text(f"{line}\n" * 6)
    with pytest.raises(ZooError, match=problem):
        prepare(recognition(), Report())


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"corpus.train": [{"grammar": 9}]}, "reads audio files"),
        ({"corpus.max_ratio": 2.0}, "`corpus.max_ratio` compares numbers of tokens"),
        ({"vocabulary.shared": False}, "`vocabulary.shared` is false"),
        ({"languages": {"codes": ["en", "de"]}}, "`source_token: null` and `target_token: target`"),
    ],
)
def test_specs_that_need_text_are_refused(overrides: dict[str, Any], problem: str) -> None:
    with pytest.raises(ZooError, match=problem):
        recognition(**overrides)


FILES, TOKENS = {"source": "a.lst", "target": "a.en"}, {"source_token": None, "target_token": "target"}
GERMAN = {**FILES, "target_language": "de"}


@pytest.mark.parametrize(
    ("overrides", "problem", "hint"),
    [
        (
            {"corpus.train": [FILES, GERMAN]},
            "sets its own language, but the spec has no `languages`",
            "write `languages: {codes: [en, de], source_token: null, target_token: target}`",
        ),
        (
            {"languages": {"codes": ["en", "de"], **TOKENS}},
            "no part of `corpus.train` has the language `de`, which `languages.codes` contains",
            "write `target_language: de` in the parts with text in this language",
        ),
        (
            {"languages": {"codes": ["en", "de"], **TOKENS}, "corpus.target": "fr", "corpus.train": [{"digits": 5}]},
            "`languages.codes` does not contain `fr`, which is `corpus.target`",
            "the languages are en, de",
        ),
        (
            {
                "languages": {"codes": ["en", "de"], **TOKENS},
                "corpus.source": "und",
                "corpus.train": [GERMAN | {"source_language": "en"}],
                "corpus.dev": [],
            },
            "`languages.codes` does not contain `und`, which is `corpus.source`",
            "the languages are en, de",
        ),
        ({"languages": {"codes": ["en"], **TOKENS}}, "needs at least 2 entries", "`languages: null`"),
    ],
    ids=["no languages", "language without a part", "target", "source", "one language"],
)
def test_a_recognizer_with_contradicting_languages_is_refused(
    overrides: dict[str, Any], problem: str, hint: str
) -> None:
    with pytest.raises(ZooError, match=re.escape(problem)) as error:
        recognition(**overrides)
    assert hint in str(error.value.hint)


def test_spoken_digits_need_a_model_that_reads_sounds() -> None:
    with pytest.raises(ZooError, match="reads neither"):
        specs.load("tiny", {"corpus.train": [{"digits": 5}]})
