"""Each benchmark script runs at toy size. `tests/zoo/serving/test_load_test.py` runs the scripts that need a server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import zoo
from specs import parts
from tests.benchmarks import (
    decode,
    drafts,
    everyday_scores,
    gpu,
    long_inputs,
    remote,
    shortlist,
    sublayers,
    train,
)
from tests.examples import write_pairs
from tests.paths import ROOT
from zoo.data.builtin import sentences
from zoo.features.audio import Audio
from zoo.features.image import Image
from zoo.models.registries import registry
from zoo.training.run import Run

Script = Callable[..., str]
InProcess = Callable[[Any], None]
pytestmark = pytest.mark.integration


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Script:
    """A function that runs a script at toy size in this process, and returns its output."""

    def call(script: ModuleType, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [script.__name__, *arguments])
        monkeypatch.setattr(script, "tune_process", lambda: None, raising=False)
        script.main()
        return capsys.readouterr().out

    return call


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """A function that lets a script open its systems in this process."""

    def opened(script: Any, commands: dict[str, list[str]]) -> dict[str, Any]:
        systems = {}
        for name, (_, module, *arguments) in commands.items():
            assert module == script.__name__
            monkeypatch.setattr(sys, "argv", [module, *arguments])
            systems[name] = SimpleNamespace(ask=script._child(script._arguments()), close=lambda: None)
        return systems

    return lambda script: monkeypatch.setattr(script, "opened", lambda commands: opened(script, commands))


@pytest.fixture
def texts() -> list[str]:
    """The files `pairs.en` and `pairs.de`, with sentences of the built-in corpus."""
    write_pairs((pair.source, pair.target) for pair in sentences("test", 12))
    return ["pairs.en", "pairs.de"]


def read_lines(file: str) -> list[str]:
    return Path(file).read_text("utf-8").splitlines()


def count_frames(files: Iterable[str | Path]) -> list[int]:
    """Return how many frames of audio each file has."""
    return [len(Audio(parts.Audio(kind="audio")).encode(Path(file))) for file in files]


def test_time_of_the_layers(run: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command))
    assert len(run(sublayers, "--toy").splitlines()) == len(sublayers.KINDS) + 2
    for _, _, _, *arguments in commands:
        assert "16 positions in" in run(sublayers, *arguments)


def test_growth_of_the_time_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    for power in (0.0, 1.0, 2.0, 1.37):
        assert sublayers.growth_exponent({n: 3.0 * n**power for n in (16, 32, 100, 4096)}) == pytest.approx(power)
    monkeypatch.setattr(sublayers, "MIN_SECONDS", 0.0)
    times = sublayers.time_sublayer(sublayers.FULL, [5, 9, 12], 8, heads=2, backward=True, rounds=2, max_seconds=0.0)
    assert list(times) == [5, 9], "an exponent needs two lengths"


def test_long_inputs(run: Script) -> None:
    for options in ([], ["--backward"]):
        rows = [line.split() for line in run(long_inputs, "--toy", *options).splitlines()[2:]]
        assert [row[0] for row in rows] == ["full", "full", "1", "1"]
        assert [row[-3] for row in rows] == ["1", "1", "25", "50"], "n / r"


def test_training_speed_of_the_systems(run: Script, in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.learners.tune_process", lambda: None)
    monkeypatch.setattr("tests.benchmarks.learners.fast_float32", nullcontext)
    in_process(train)
    result = json.loads(run(train, "--toy", "--json", "--systems", "zoo-float32,nn.Transformer,marian"))
    assert result["best_peer"] in ("nn.Transformer", "marian")
    losses = [system["loss"] for system in result["systems"].values()]
    assert len(losses) == 3
    assert max(losses) - min(losses) < 1


def test_translation_speed_of_the_systems(run: Script, in_process: InProcess) -> None:
    in_process(decode)
    for work in ("b32", "latency"):
        systems = json.loads(run(decode, "--toy", "--json", "--work", work))["systems"]
        assert {name.partition("-")[0] for name in systems} == {*decode.BACKENDS, "ctranslate2", "transformers"}
        assert systems["native-float32"]["same_tokens"] > 0.5


def test_systems_in_processes_answer_in_turn(capfd: pytest.CaptureFixture[str]) -> None:
    program = "from tests.benchmarks.remote import serve; serve(lambda: lambda word: [word, len(word)])"
    systems = remote.opened({"one": ["-c", program], "other": ["-c", program], "broken": ["-c", "pass"]})
    assert remote.turns(systems, "word", rounds=2) == dict.fromkeys(("one", "other"), [["word", 4]] * 2)
    assert "the process of broken ended without an answer" in capfd.readouterr().err


def test_speculative_decoding(run: Script, trained: Callable[..., Run], texts: list[str]) -> None:
    trained()
    for beam in ("1", "2"):
        result = json.loads(run(drafts, "runs/tiny", "--toy", "--texts", texts[0], "--beam", beam))
        assert result["milliseconds"].keys() == set(drafts.SYSTEMS)
        assert ("tokens_per_step" in result) == (beam == "1")
    costs = json.loads(run(drafts, "base", "--toy", "--cost", "--batch", "2", "--beam", "2"))
    assert costs["ratios"]["1"] == 1


def test_shortlists(run: Script, trained: Callable[..., Run], texts: list[str]) -> None:
    trained()
    result = json.loads(run(shortlist, "runs/tiny", "--toy", "--pairs", *texts, "--test", *texts))
    assert len(result["bleu"]) == 2
    assert json.loads(run(shortlist, "base", "vocabulary.size=32000", "--toy", "--batch", "1"))["ratio"] > 0


def test_scores_of_everyday(run: Script, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "INCLUDED", ROOT / "zoo" / "included")
    Path("far.pairs.de.txt").write_text("1\n3\n", encoding="utf-8")
    table = run(everyday_scores, "everyday", "one=pairs", "other=pairs").splitlines()
    assert [line.split(" | ")[:3] for line in table[2:]] == [
        [name, direction, "12"] for name in ("one", "other") for direction in ("en-de", "de-en")
    ]
    assert {line.count(" | ") for line in table} == {len(everyday_scores.COLUMNS) - 1}
    assert all(float(table[3].split(" | ")[everyday_scores.COLUMNS.index(name)]) >= 0 for name in ("near", "far"))


def test_parts_for_gpus_that_start_no_process(run: Script) -> None:
    parts = [part for part in gpu.PARTS if part not in ("correct", "real")]
    table = run(gpu, "--toy", "--out", "figures", *parts)
    assert all(f"\n{part}\n" in table for part in parts)
    assert "failed" not in table


def test_pictures_of_sentences(run: Script, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set has its own sentences and font families."""
    sentence_pictures = pytest.importorskip("tests.benchmarks.sentence_pictures", reason="needs the `pictures` extra")
    font = pytest.importorskip("PIL.ImageFont").load_default(20)
    Path("fonts").mkdir()
    Path("fonts/one.ttf").write_bytes(font.font_bytes)
    assert not sentence_pictures.find_fonts([Path("fonts")]), "the font has no German letters"
    families = {each: [Path("fonts/one.ttf")] for each in "abcdefg"}
    monkeypatch.setattr(sentence_pictures, "find_fonts", lambda _: families)
    monkeypatch.setattr(sentence_pictures, "SIZES", {"test": 2, "dev": 1, "train": 4})
    output = run(sentence_pictures, *reversed(texts), "out", "fonts")
    assert output.splitlines() == ["test: a, g", "dev: d", "train: b, c, e, f"]
    written = [read_lines(f"out/{name}.de") for name in ("test", "dev", "train")]
    assert [len(lines) for lines in written] == [2, 1, 4]
    assert len({line for lines in written for line in lines}) == 7
    modality = Image(parts.Image(kind="image"))
    assert all(len(modality.encode(Path("out", name))) > 32 for name in read_lines("out/train.pictures.de"))


def test_sounds_of_sentences(run: Script, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sentence_sounds = pytest.importorskip("tests.benchmarks.sentence_sounds", reason="needs the `speech` extra")
    monkeypatch.setattr(sentence_sounds, "SIZES", {"test": 2, "dev": 1, "train": 4})
    english = read_lines("pairs.en")
    for language in ("en", "de"):
        Path(f"some.{language}").write_text("\n".join([*read_lines(f"pairs.{language}")[:3], ""]))
    output = run(sentence_sounds, "pairs", "some", "out")
    assert output.splitlines() == ["test: 2 sounds", "dev: 1 sounds", "train: 4 sounds"]
    test, dev, train = (set(read_lines(f"out/{name}.en")) for name in ("test", "dev", "train"))
    assert test | dev == {*english[:3]}
    assert train <= {*english[3:]}
    assert min(count_frames(Path("out", name) for name in read_lines("out/train.sounds.en"))) > 20


def test_digits_by_flite(run: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    flite_digits = pytest.importorskip("tests.benchmarks.flite_digits", reason="needs the `speech` extra")
    monkeypatch.setattr(flite_digits, "COUNT", 6)
    program = Path("programs/flite")
    program.parent.mkdir()
    noise = "import random, sys; sys.stdout.buffer.write(bytes(44) + random.Random(0).randbytes(9_000))"
    program.write_text(f"#!{sys.executable}\n{noise}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent.resolve()))
    run(flite_digits, "out")
    texts, sounds = read_lines("out/train.en"), read_lines("out/train.sounds.en")
    assert set("".join(texts)) <= {*"0123456789 "}
    assert len(sounds) == len(texts) == 6
    assert min(count_frames(Path("out", name) for name in sounds)) > 20


def test_long_recordings_of_digits(run: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    long_digits = pytest.importorskip("tests.benchmarks.long_digits", reason="needs the `speech` extra")
    monkeypatch.setattr(long_digits, "STRINGS", {"test": 3})
    assert run(long_digits, "0.1", "short") == "test: 3 recordings\n"
    assert run(long_digits, "1000", "long") == "test: 1 recordings\n"
    assert Path("short/test.en").read_text("utf-8").split() == Path("long/test.en").read_text("utf-8").split()
    short, long = (
        sum(count_frames(Path(folder, name) for name in read_lines(f"{folder}/test.sounds.en")))
        for folder in ("short", "long")
    )
    assert long == pytest.approx(short, abs=10)  # a window at the end of each recording


def test_recordings_are_read_by_ctc(run: Script) -> None:
    long_ctc = pytest.importorskip("tests.benchmarks.long_ctc", reason="needs the `speech` extra")
    from tests.cli.test_recognition import recognition, write_sounds

    write_sounds("train", 60)
    write_sounds("dev", 6)
    encoder = [{"kind": "restricted_attention", "radius": 3}, {"kind": "feed_forward"}]
    spec = recognition(**{"architecture.encoder": encoder, "training.ctc_weight": 0.5})
    zoo.train(spec, run="run", quiet=True)
    assert long_ctc.with_radius(spec, 50).architecture.encoder[0].radius == 50
    files = "run", "dev.lst", "dev.en"
    assert re.fullmatch(r"6 recordings: WER \d+\.\d\n", run(long_ctc, *files))
    (first, *_), (same, *_) = (long_ctc.read("run", Path("dev.lst"), 1, radius) for radius in (3, None))
    assert same == first
    assert run(long_ctc, *files, "--count", "2", "--radius", "50").startswith("2 recordings: ")
    assert long_ctc.best_path([0, 7, 7, 0, 7, 5, 5, 0, 0]) == [7, 7, 5], "no blanks and no repetitions"


def test_spoken_lines_of_a_game(run: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rooms are held out, and lines without a sound or with an empty one are omitted."""
    soundfile = pytest.importorskip("soundfile", reason="needs the `speech` extra")
    fillets = pytest.importorskip("tests.benchmarks.fillets", reason="needs the `speech` extra")
    monkeypatch.setattr(fillets, "TIMES", 2)
    line = 'dialogId("{0}", "font_big", "\\"Where\\" {0}?")\ndialogStr("Kde {0}?")\n'
    for room in "abcdefghij":
        script, sounds = Path("game/script", room), Path("game/sound", room, "cs")
        for folder in (script, sounds):
            folder.mkdir(parents=True)
        soundfile.write(sounds / f"{room}-1.ogg", [0.1] * 800, 16_000)
        (script / "dialogs_cs.lua").write_text(line.format(f"{room}-1") + line.format(f"{room}-2"), "utf-8")
    soundfile.write("game/sound/a/cs/a-2.ogg", [], 16_000)
    output = run(fillets, "cs", "out", "game")
    assert output == "train: 8 sounds\ndev: 1 sounds\ntest: 1 sounds\nspoken: 16 sounds\n"
    assert [read_lines(f"out/dev.{each}") for each in ("cs", "en")] == [["Kde d-1?"], ['"Where" d-1?']]
    assert read_lines("out/test.sounds.cs") == [str(Path("game/sound/i/cs/i-1.ogg").resolve())]
    assert min(count_frames(read_lines("out/spoken.sounds.cs"))) > 20
