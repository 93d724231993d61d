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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specs
import zoo
from specs import Spec, ZooError
from tests.conftest import PAIRS, SMALL
from tests.zoo.training.conftest import train_steps
from zoo.evaluation.text_metrics import text_metric
from zoo.files import storage
from zoo.generation.loading import open_model
from zoo.publishing.removal import plan_cleanup
from zoo.report import Report
from zoo.text.languages import LanguagePair
from zoo.training import synthetic
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run
from zoo.training.synthetic import write_missing

Trained = Callable[..., Run]
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


def pairs_in(folder: Path) -> list[tuple[str, ...]]:
    sides = [(folder / f"{side}.txt").read_text("utf-8").splitlines() for side in ("source", "target")]
    return list(zip(*sides, strict=True))


@pytest.fixture
def back(trained: Trained) -> Run:
    """A model from German to English."""
    part = [{"source": "pairs.de", "target": "pairs.en"}]
    return trained("runs/back", corpus={"source": "de", "target": "en", "train": part, "dev": part, "test": []})


def test_an_ensemble_of_teachers_translates_the_text(trained: Trained, words: Any) -> None:
    teachers = [trained(f"runs/teacher-{seed}", training={"seed": seed}).folder for seed in (1, 2)]
    text = write("text.en", TEXT)
    part = {"models": [str(each) for each in teachers], "source": text, "n_best": 2, "decoding": {"beam": 3}}
    (folder,) = written(part, report=words)
    opened = [open_model(each) for each in teachers]
    expected = []
    for line in ["the old dog sees a house", "we  read two books", "do you see the cat?", "she knows him", "no"]:
        found = type(opened[0]).ensemble(opened).translate(line, n_best=2, beam=3)
        expected += [(line, each) for each in dict.fromkeys(found) if each]
    assert pairs_in(folder) == expected
    said = "`runs/teacher-1` and `runs/teacher-2` translate `text.en` into the target sentences: 6 lines"
    assert said in str(words.said)
    best = {**part, "reference": write("text.de", ["der Hund"] * 6)}
    (selected,) = written(best)
    chrf = text_metric("chrf")
    for source, target in pairs_in(selected):
        rivals = [other for text, other in pairs_in(folder) if text == source]
        assert chrf.score([target], ["der Hund"]) == max(chrf.score([rival], ["der Hund"]) for rival in rivals)


def test_long_lines_give_no_pair(trained: Trained) -> None:
    lines = [LONG, "a cat sleeps", LONG, "x" * 100_001]
    teacher = trained("runs/teacher", decoding={"extra_length": 3, "max_source_length": 40})
    (folder,) = written({"models": [str(teacher.folder)], "source": write("text.en", lines)})
    assert [source for source, _ in pairs_in(folder)] == ["a cat sleeps"]


def test_text_is_written_again_only_if_its_text_models_or_options_change(
    back: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"models": ["runs/back"], "target": write("text.de", TEXT), "decoding": {"search": "sample", "seed": 3}}
    (first,) = written(part)
    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "open_model", lambda *_, **__: pytest.fail("the text exists already"))
        shutil.copytree("runs/back", "moved")
        same = written({**part, "models": ["moved"], "weight": 0.5, "tag": "<BT>"}, training={"steps": 7})
        assert same == [first]
    (samples, other_text) = written(
        {**part, "decoding": {"search": "sample", "seed": 4}}, {**part, "target": write("other.de", TEXT[:3])}
    )
    back.weights.write_bytes(back.newest_weights.read_bytes())
    spec = back.spec_file.read_text("utf-8")
    back.spec_file.write_text(spec.replace("extra_length: 3", "extra_length: 4"), "utf-8")
    (other_model,) = written(part)
    assert len({first, samples, other_text, other_model}) == 4
    kept = {item.path for item in plan_cleanup().removable}
    assert not kept & {first, samples}
    assert {item.path for item in plan_cleanup(["synthetic"]).removable} == {first, samples, other_text, other_model}


@pytest.mark.parametrize("options", [{"search": "sample"}, {"beam": 3}])
def test_interrupted_work_continues_without_a_lost_or_doubled_line(
    back: Run, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, words: Any
) -> None:
    part = {"models": ["runs/back"], "target": write("text.de", [f"{line} {n}" for n in range(3) for line in TEXT])}
    part |= {"n_best": 2, "decoding": options}
    journals: list[bytes] = []
    combine = synthetic._SyntheticText._combine

    def watched(self: Any, folder: Path, journal: Path, record: Any) -> int:
        journals.append(journal.read_bytes())
        return combine(self, folder, journal, record)

    monkeypatch.setattr(synthetic._SyntheticText, "_combine", watched)
    (folder,) = written(part)
    expected = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert [path for path in storage.synthetic().iterdir() if not path.name.startswith(".")] == [folder]
    whole = journals[0]
    moments = random.Random(1)
    for length in (0, 1, len(whole) - 1, len(whole), *(moments.randrange(len(whole)) for _ in range(3))):
        shutil.rmtree(folder)
        folder.with_suffix(".partial").write_bytes(whole[:length] + b"\0" * moments.randrange(2))
        assert written(part, report=words) == [folder]
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == expected
        assert journals[-1] == whole
    assert "(18 are already translated)" in str(words.said)


@pytest.mark.parametrize("content", ["the same number of other lines\n", "", "more\n" * 2])
def test_a_text_that_changes_meanwhile_gives_no_pairs(back: Run, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"models": ["runs/back"], "target": write("text.de", ["eine Katze"])}
    translate_lines = synthetic.translate_lines

    def changing(*arguments: Any, **options: Any) -> Any:
        yield from translate_lines(*arguments, **options)
        Path("text.de").write_text(content)

    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "translate_lines", changing)
        with pytest.raises(ZooError, match="the text or a model was changed"):
            written(part)
    assert not [path for path in storage.synthetic().iterdir() if not path.name.startswith(".")]
    write("text.de", ["eine Katze"])
    assert len(pairs_in(written(part)[0])) == 1


def test_a_model_that_is_replaced_meanwhile_writes_nothing(back: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"models": ["runs/back"], "target": write("text.de", TEXT)}

    def replaced(path: Path, **options: Any) -> Any:
        spec = back.spec_file.read_text("utf-8")
        back.spec_file.write_text(spec.replace("extra_length: 3", "extra_length: 4"), "utf-8")
        return open_model(path, **options)

    monkeypatch.setattr(synthetic, "open_model", replaced)
    with pytest.raises(ZooError, match="the text or a model was changed"):
        written(part)


KILLED = """
import sys, specs
from zoo.report import Report
from zoo.text.languages import LanguagePair
from zoo.training.synthetic import write_missing
write_missing(specs.parse(open("student.yaml").read(), "student.yaml"), Report(), "cpu")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_process_leaves_text_that_the_next_one_completes(back: Run, request: pytest.FixtureRequest) -> None:
    lines = [f"{source} {number}" for number in range(400) for source, _ in PAIRS]
    part = {"models": ["runs/back"], "target": write("text.de", lines), "decoding": {"search": "sample"}}
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
    files = [resumed / name for name in ("source.txt", "target.txt")]
    interrupted = [file.read_bytes() for file in files]
    shutil.rmtree(resumed)
    assert written(part) == [resumed]
    assert [file.read_bytes() for file in files] == interrupted


def test_mistakes_name_the_part(back: Run, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write("text.de", TEXT)
    mistakes: list[tuple[dict[str, Any], str, str]] = [
        ({"models": ["runs/bakc"], "target": text}, r"`corpus.train\[1\]`: there is no model `runs/bakc`", "zoo list"),
        (
            {"models": ["runs/back"], "source": text},
            r"from `en` to `de` is needed, but the model `runs/back` translates from `de` to `en`",
            "another model",
        ),
        ({"models": ["runs/back"], "target": "none.de"}, "`none.de` does not exist", "correct the path"),
        ({"models": ["runs/back"], "target": write("empty.de", [])}, "`empty.de` is empty", "another file"),
        (
            {"models": ["runs/back"], "target": text, "decoding": {"top_k": 5}},
            "`top_k` has no effect when `search`",
            "`sample`",
        ),
        ({"models": ["runs/back"], "target": text, "n_best": 9}, "a beam of 4 cannot find more than 4", "beam to 9"),
    ]
    for part, problem, hint in mistakes:
        with pytest.raises(ZooError, match=problem) as caught:
            written(part)
        assert hint in str(caught.value.hint)
    teacher = trained("runs/teacher", training={"seed": 1})
    lines = {"source": text, "reference": write("short.de", TEXT[:3]), "n_best": 2}
    with pytest.raises(ZooError, match=r"`text.de` has 6 lines, but `short.de` has 3 lines"):
        written({"models": [str(teacher.folder)], **lines})

    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    part = {"models": ["runs/back"], "target": text}
    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "translate_lines", full)
        with pytest.raises(ZooError, match=r"`corpus.train\[1\]`: `.*\.partial` cannot be written: the disk is full"):
            written(part)
    monkeypatch.setattr("zoo.files.storage.shutil.disk_usage", lambda path: type("Usage", (), {"free": 100}))
    with pytest.raises(ZooError, match=r"the synthetic text needs \d+ bytes in .* but only 100 bytes are free"):
        written(part)


def test_multilingual_models_translate_by_the_codes_that_they_use(trained: Trained) -> None:
    codes = {"codes": ["eng_Latn", "zho_Hans", "zho_Hant"]}
    model = specs.load("tiny", {"languages": codes, "corpus": {"train": [], "dev": [], "test": []}})
    assert synthetic._languages_of("nllb", model, ("en", "zho_Hant")) == ("eng_Latn", "zho_Hant")
    with pytest.raises(ZooError, match="the model `nllb` has no `en` or `zh`"):
        synthetic._languages_of("nllb", model, ("en", "zh"))
    with pytest.raises(ZooError, match="the model `parser` has the task `parsing`"):
        synthetic._languages_of("parser", specs.load("parsing/tiny"), ("en", "en"))


def test_tagged_sources_begin_with_a_token_of_the_vocabulary(back: Run) -> None:
    spec = student({"models": ["runs/back"], "target": write("text.de", TEXT), "tag": "<BT>"}, vocabulary={"size": 110})
    prepared = prepare_corpus(spec, Report())
    store, vocabulary = prepared.store("train"), prepared.vocabulary
    tag = vocabulary.source.id_of("<BT>")
    assert tag is not None
    assert tag not in vocabulary.encode("<BT> a cat")
    tagged = [int(store.row("source", number)[0]) == tag for number in range(len(store))]
    assert tagged == [False] * store.parts[0] + [True] * store.parts[1]
    assert store.parts[1] > 0
    with pytest.raises(ZooError, match="the vocabulary has no token for the tag `<MT>`"):
        LanguagePair.of(spec, vocabulary, ("en", "de"), "<MT>")


@pytest.mark.integration
def test_run_names_the_models_and_resumes_without_them(back: Run, words: Any) -> None:
    part = {"models": ["runs/back"], "target": write("text.de", TEXT), "decoding": {"search": "sample"}, "weight": 2.0}
    training = {"source_tokens": 400, "target_tokens": 400, "dev_score": None}

    def spec(steps: int) -> Spec:
        return student(part, training={**training, "steps": steps})

    train_steps(spec(1), "runs/student", report=words)
    data = json.loads(Path("runs/student/data.json").read_text("utf-8"))
    (record,) = data["synthetic"]
    assert record["part"] == "train[1]"
    assert list(record["models"]) == ["runs/back"]
    assert zoo.spec("runs/student/spec.yaml").corpus.train[1].models == ("runs/back",)
    shutil.rmtree("runs/back")
    train_steps(spec(2), "runs/student", report=words)
    assert "resuming at step 1" in words.said
    shutil.rmtree(record["folder"])
    with pytest.raises(ZooError, match="there is no model `runs/back`"):
        train_steps(spec(3), "runs/student")
