"""Text that models write before training: distillation, back-translation, interrupted work, and mistakes."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import specs
import zoo
from specs import Spec
from tests.conftest import PAIRS, SMALL, Trained
from tests.refusals import refused
from tests.zoo.training.conftest import Patch, train_steps
from zoo.evaluation.text_metrics import text_metric
from zoo.files import storage
from zoo.generation.loading import open_model
from zoo.publishing.removal import plan_cleanup
from zoo.report import Report
from zoo.text.languages import LanguagePair
from zoo.text.lines import clean
from zoo.training import synthetic
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run
from zoo.training.synthetic import write_missing

TEXT = ["the old dog sees a house", "", "we  read two\tbooks", "do you see the cat?", "she knows him", "no"]
LONG = "the dog " * 60
FILES = {"source": "pairs.en", "target": "pairs.de"}


def write(name: str, lines: list[str]) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def student(*parts: dict[str, Any], **fields: Any) -> Spec:
    corpus = {"train": [FILES, *parts], "dev": [FILES], "test": []}
    return specs.load("tiny", {**SMALL, "corpus": corpus, "decoding": {"extra_length": 3}, **fields})


def written(*parts: dict[str, Any], report: Report | None = None, **fields: Any) -> list[Path]:
    """Return the folder of each part, after writing those that are missing."""
    _, records = write_missing(student(*parts, **fields), report or Report(), "cpu")
    return [Path(record["folder"]) for record in records]


def finished_folders() -> list[Path]:
    return [path for path in storage.synthetic().iterdir() if not path.name.startswith(".")]


def from_german(target: str, **options: Any) -> dict[str, Any]:
    """Return a part whose target file the model `back` translates."""
    return {"models": ["runs/back"], "target": target, **options}


def pairs_in(folder: Path) -> list[tuple[str, ...]]:
    sides = [(folder / f"{side}.txt").read_text("utf-8").splitlines() for side in ("source", "target")]
    return list(zip(*sides, strict=True))


@pytest.fixture
def back(trained: Trained) -> Run:
    """A model from German to English."""
    part = [{"source": "pairs.de", "target": "pairs.en"}]
    return trained("runs/back", corpus={"source": "de", "target": "en", "train": part, "dev": part, "test": []})


def lengthen(run: Run) -> None:
    """Change the spec of a model, so that it is a different model."""
    run.spec_file.write_text(run.spec_file.read_text("utf-8").replace("extra_length: 3", "extra_length: 4"), "utf-8")


def test_an_ensemble_of_teachers_translates_the_text(trained: Trained, words: Any) -> None:
    teachers = [trained(f"runs/teacher-{seed}", training={"seed": seed}).folder for seed in (1, 2)]
    text = write("text.en", TEXT)
    part = {"models": [str(each) for each in teachers], "source": text, "n_best": 2, "decoding": {"beam": 3}}
    (folder,) = written(part, report=words)
    first, second = map(open_model, teachers)
    expected = []
    for line in [clean(line) for line in TEXT if line]:
        found = first.ensemble([first, second]).translate(line, n_best=2, beam=3)
        expected += [(line, each) for each in dict.fromkeys(found) if each]
    assert pairs_in(folder) == expected
    both = "`runs/teacher-1` and `runs/teacher-2`"
    assert f"{both} translate `text.en` into the target sentences: 6 lines" in str(words.said)
    (selected,) = written({**part, "reference": write("text.de", ["der Hund"] * 6)})
    chrf = text_metric("chrf")
    for source, target in pairs_in(selected):
        rivals = [other for text, other in pairs_in(folder) if text == source]
        assert chrf.score([target], ["der Hund"]) == max(chrf.score([rival], ["der Hund"]) for rival in rivals)


def test_long_lines_give_no_pair(trained: Trained) -> None:
    lines = [LONG, "a cat sleeps", LONG, "x" * 100_001]
    teacher = trained("runs/teacher", decoding={"extra_length": 3, "max_source_length": 40})
    (folder,) = written({"models": [str(teacher.folder)], "source": write("text.en", lines)})
    assert [source for source, _ in pairs_in(folder)] == ["a cat sleeps"]


def test_text_is_written_again_only_if_its_text_models_or_options_change(back: Run, monkeypatch: Patch) -> None:
    part = from_german(write("text.de", TEXT), decoding={"search": "sample", "seed": 3})
    (first,) = written(part)
    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "open_model", lambda *_, **__: pytest.fail("the text exists already"))
        shutil.copytree("runs/back", "moved")
        same = written({**part, "models": ["moved"], "weight": 0.5, "tag": "<BT>"}, training={"steps": 7})
        assert same == [first]
    other_seed = {**part, "decoding": {"search": "sample", "seed": 4}}
    (samples, other_text) = written(other_seed, {**part, "target": write("other.de", TEXT[:3])})
    lengthen(back)
    (other_model,) = written(part)
    assert len({first, samples, other_text, other_model}) == 4
    assert not {item.path for item in plan_cleanup().removable} & {first, samples}
    assert {item.path for item in plan_cleanup(["synthetic"]).removable} == {first, samples, other_text, other_model}


@pytest.mark.parametrize("options", [{"search": "sample"}, {"beam": 3}])
def test_interrupted_work_loses_and_doubles_no_line(back: Run, options: Any, monkeypatch: Patch, words: Any) -> None:
    text = write("text.de", [f"{line} {n}" for n in range(3) for line in TEXT])
    part, journals = from_german(text, n_best=2, decoding=options), list[bytes]()
    writer, combine = synthetic._SyntheticText, synthetic._SyntheticText._combine
    monkeypatch.setattr(writer, "_combine", lambda *given: journals.append(given[2].read_bytes()) or combine(*given))
    (folder,) = written(part)
    expected = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert finished_folders() == [folder]
    whole, moments = journals[0], random.Random(1)
    for length in (0, 1, len(whole) - 1, len(whole), *(moments.randrange(len(whole)) for _ in range(3))):
        shutil.rmtree(folder)
        folder.with_suffix(".partial").write_bytes(whole[:length] + b"\0" * moments.randrange(2))
        assert written(part, report=words) == [folder]
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == expected
        assert journals[-1] == whole
    assert "(18 are already translated)" in str(words.said)


@pytest.mark.parametrize("content", ["the same number of other lines\n", "", "more\n" * 2])
def test_a_text_that_changes_meanwhile_gives_no_pairs(back: Run, content: str, monkeypatch: Patch) -> None:
    part = from_german(write("text.de", ["eine Katze"]))
    translate_lines = synthetic.translate_lines

    def changing(*arguments: Any, **options: Any) -> Any:
        yield from translate_lines(*arguments, **options)
        Path("text.de").write_text(content)

    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "translate_lines", changing)
        refused("a model, or the text to translate, was changed", written, part)
    assert not finished_folders()
    write("text.de", ["eine Katze"])
    assert len(pairs_in(written(part)[0])) == 1


def test_a_model_that_is_replaced_meanwhile_writes_nothing(back: Run, monkeypatch: Patch) -> None:
    monkeypatch.setattr(synthetic, "open_model", lambda *args, **other: lengthen(back) or open_model(*args, **other))
    refused("a model, or the text to translate, was changed", written, from_german(write("text.de", TEXT)))
    assert not finished_folders()


KILLED = """
import sys, specs
from zoo.report import Report
from zoo.training.synthetic import write_missing
write_missing(specs.parse(open("student.yaml").read(), "student.yaml"), Report(), "cpu")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_process_leaves_text_that_the_next_one_completes(back: Run, request: pytest.FixtureRequest) -> None:
    lines = [f"{source} {number}" for number in range(400) for source, _ in PAIRS]
    part = from_german(write("text.de", lines), decoding={"search": "sample"})
    write("student.yaml", [student(part).yaml()])
    environment = {**os.environ, "PYTHONPATH": str(request.config.rootpath)}
    sizes, moments = [0], random.Random(5)
    while len(sizes) < 4:
        process = subprocess.Popen([sys.executable, "-c", KILLED], env=environment)
        journals: list[Path] = []
        while process.poll() is None and not (journals and journals[0].stat().st_size > sizes[-1]):
            time.sleep(0.005)
            journals = list(storage.synthetic().glob("*.partial"))
        time.sleep(moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        sizes.append(journals[0].stat().st_size)
    (resumed,) = written(part)
    interrupted = {file.name: file.read_bytes() for file in resumed.iterdir()}
    shutil.rmtree(resumed)
    assert written(part) == [resumed]
    assert {file.name: file.read_bytes() for file in resumed.iterdir()} == interrupted


@pytest.mark.parametrize(
    ("changes", "problem", "hint"),
    [
        ({"models": ["runs/bakc"]}, r"cannot be translated: there is no model `runs/bakc`", "zoo list"),
        ({"target": "none.de"}, "`none.de` does not exist", "correct the path"),
        ({"target": "empty.de"}, "`empty.de` contains no lines", "another file"),
        ({"n_best": 9}, "a beam of 4 finds at most 4 hypotheses", "beam to 9"),
    ],
)
def test_mistakes_name_the_part(back: Run, changes: dict[str, Any], problem: str, hint: str) -> None:
    write("empty.de", [])
    assert hint in str(refused(problem, written, from_german(write("text.de", TEXT)) | changes).hint)


def test_wrong_languages_wrong_lines_and_a_full_disk(back: Run, trained: Trained, monkeypatch: Patch) -> None:
    text = write("text.de", TEXT)
    wrong = "the model `runs/back` does not translate from `en` to `de`"
    assert "different model" in str(refused(wrong, written, {"models": ["runs/back"], "source": text}).hint)
    teacher = trained("runs/teacher", training={"seed": 1})
    part = {"models": [str(teacher.folder)], "source": text, "reference": write("short.de", TEXT[:3]), "n_best": 2}
    refused(r"`text.de` has 6 lines, but `short.de` has 3 lines", written, part)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(synthetic, "translate_lines", Mock(side_effect=full))
    refused(r"cannot be translated: `.*\.partial` cannot be written: the disk is full", written, from_german(text))
    monkeypatch.setattr("zoo.files.storage.shutil.disk_usage", lambda path: Mock(free=100))
    refused(r"the synthetic text needs \d+ bytes in .* but only 100 bytes are free", written, from_german(text))


def test_multilingual_models_translate_by_the_codes_that_they_use(trained: Trained) -> None:
    codes = {"codes": ["eng_Latn", "zho_Hans", "zho_Hant"]}
    model = specs.load("tiny", {"languages": codes, "corpus": {"train": [], "dev": [], "test": []}})
    assert synthetic._languages_of("nllb", model, ("en", "zho_Hant")) == ("eng_Latn", "zho_Hant")
    assert synthetic._languages_of("nllb", model, ("en", "zh")) == ("eng_Latn", "zho_Hans")  # as in `zoo decode`
    parser = specs.load("parsing/tiny")
    refused("`parser` does not translate from `en` to `en`", synthetic._languages_of, "parser", parser, ("en", "en"))


def test_tagged_sources_begin_with_a_token_of_the_vocabulary(back: Run) -> None:
    spec = student(from_german(write("text.de", TEXT), tag="<BT>"), vocabulary={"size": 110})
    prepared = prepare_corpus(spec, Report())
    store, vocabulary = prepared.store("train"), prepared.vocabulary
    tag = vocabulary.source.id_of("<BT>")
    assert tag is not None
    assert tag not in vocabulary.encode("<BT> a cat")
    tagged = [int(store.row("source", number)[0]) == tag for number in range(len(store))]
    assert tagged == [False] * store.parts[0] + [True] * store.parts[1]
    assert store.parts[1] > 0
    refused("the vocabulary has no token for the tag `<MT>`", LanguagePair.of, spec, vocabulary, ("en", "de"), "<MT>")


@pytest.mark.integration
def test_run_names_the_models_and_resumes_without_them(back: Run, words: Any) -> None:
    part = from_german(write("text.de", TEXT), decoding={"search": "sample"}, weight=2.0)
    training = {"source_tokens": 400, "target_tokens": 400, "dev_score": None}

    def train_until(step: int) -> None:
        train_steps(student(part, training={**training, "steps": step}), "runs/student", report=words)

    train_until(1)
    (record,) = json.loads(Path("runs/student/data.json").read_text("utf-8"))["synthetic"]
    assert (record["part"], list(record["models"])) == ("train[1]", ["runs/back"])
    assert zoo.spec("runs/student/spec.yaml").corpus.train[1].models == ("runs/back",)
    shutil.rmtree("runs/back")
    train_until(2)
    assert "resuming at step 1" in words.said
    shutil.rmtree(record["folder"])
    refused("there is no model `runs/back`", train_until, 3)
