"""`zoo decode`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import zoo as library
from compiler.backends import BACKENDS
from tests import forks
from tests.conftest import Zoo
from tests.paths import ROOT
from zoo.generation.translator import Translator
from zoo.publishing.publish import publish
from zoo.training.run import Run

TEXT = "the old dog sees a small house\n\nwe read two books\n   \nwe read two books today\n"


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return library.load(str(trained("runs/tiny").folder), device="cpu")


def test_each_line_gives_a_line_and_empty_lines_stay_empty(zoo: Zoo, translator: Translator) -> None:
    result = zoo("decode", "--model", "tiny", stdin=TEXT)
    assert (result.status, result.err) == (0, "")
    assert result.out == "".join(f"{line}\n" for line in translator.translate(TEXT.splitlines()))
    assert result.out.splitlines()[1] == result.out.splitlines()[3] == ""
    for text in ("", "\n", "we read", "we read\r\n", "\ufeffwe read\n", "we\u2028read\u0085\n\n"):
        result = zoo("decode", "--model", "tiny", stdin=text)
        assert result.status == 0
        assert result.out.count("\n") == text.count("\n") + (not text.endswith("\n") and bool(text))


def test_decoding_options_are_passed_on(zoo: Zoo, translator: Translator) -> None:
    text = "we read two books"
    result = zoo("decode", "--model", "tiny", "--beam", "2", "--alpha", "0", "--max-batch-tokens", "9", stdin=text)
    assert result.out == translator.translate(text, beam=2, alpha=0.0) + "\n"
    options = ("--search", "sample", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--n-best", "2")
    result = zoo("decode", "--model", "tiny", *options, "--seed", "7", stdin=text)
    choice = {"search": "sample", "temperature": 0.9, "top_k": 50, "top_p": 0.95, "seed": 7}
    assert [line.split("\t")[2] for line in result.out.splitlines()] == translator.translate(text, n_best=2, **choice)
    assert zoo("decode", "--model", "tiny", *options, "--seed", "8", stdin=text).out != result.out


def test_json_lines(zoo: Zoo, translator: Translator) -> None:
    result = zoo("decode", "--model", "tiny", "--json", "--n-best", "2", stdin="we read\n\n")
    first, second = (json.loads(line) for line in result.out.splitlines())
    assert first["source"] == "we read"
    assert [each["text"] for each in first["translations"]] == translator.translate("we read", n_best=2)
    assert {"text", "score", "log_probability", "confidence"} <= first["translations"][0].keys()
    empty = {"text": "", "score": 0.0, "log_probability": 0.0, "confidence": None}
    assert second == {"source": "", "translations": [empty]}


def test_spans_that_are_not_kept_are_shown(zoo: Zoo, translator: Translator) -> None:
    """A model after a few steps loses every number, if it is only checked."""
    text = "we read 1,250 books\nwe read\n"
    result = zoo("decode", "--model", "tiny", "--json", "--n-best", "2", stdin=text)
    first, second = (json.loads(line)["translations"][0] for line in result.out.splitlines())
    with pytest.warns(UserWarning, match="have"):
        (best, *_), _ = translator.hypotheses(text.splitlines(), n_best=2)
    assert first["unkept"] == list(best.unkept)
    assert "1,250" in first["unkept"]
    assert "unkept" not in second
    assert "1 of 2 translations lack numbers" in result.err
    assert "'1,250'" in result.err
    result = zoo("decode", "--model", "tiny", "--json", "--n-best", "2", "--no-protect", stdin=text)
    assert "unkept" not in result.out
    assert "lack" not in result.err


def test_prefixes_begin_the_translations(zoo: Zoo, translator: Translator) -> None:
    Path("prefixes").write_text("wir\n\ndie Katze\n", encoding="utf-8")
    result = zoo("decode", "--model", "tiny", "--prefix", "prefixes", stdin="we read\nthe old dog\nthe cat\n")
    texts, prefixes = ["we read", "the old dog", "the cat"], ["wir", "", "die Katze"]
    assert result.out.splitlines() == translator.translate(texts, prefixes=prefixes)
    assert all(line.startswith(prefix) for line, prefix in zip(result.out.splitlines(), prefixes, strict=True))
    assert zoo("decode", "--model", "tiny", "--prefix", "prefixes", stdin="we read\n").status == 2
    assert "`none`" in zoo("decode", "--model", "tiny", "--prefix", "none", stdin="we read\n").err


class TestFiles:
    def test_inputs_are_not_overwritten(self, zoo: Zoo, translator: Translator) -> None:
        Path("in.txt").write_text(TEXT, encoding="utf-8")
        Path("link").symlink_to("in.txt")
        Path("prefixes").write_text("\n" * 5, encoding="utf-8")
        for output in ("in.txt", "link", "./prefixes"):
            files = ("--input", "in.txt", "--prefix", "prefixes", "--output", output)
            assert output.removeprefix("./") in zoo("decode", "--model", "tiny", *files).refusal
        result = zoo("score", "--model", "tiny", "--source", "in.txt", "--target", "prefixes", "--output", "link")
        assert (result.status, "link" in result.err) == (2, True)
        assert Path("in.txt").read_text(encoding="utf-8") == TEXT
        assert Path("prefixes").read_text(encoding="utf-8") == "\n" * 5

    def test_a_hyphen_is_a_standard_stream(self, zoo: Zoo, translator: Translator) -> None:
        result = zoo("decode", "--model", "tiny", "-i", "-", "-o", "-", stdin=TEXT)
        assert result.out == "".join(f"{line}\n" for line in translator.translate(TEXT.splitlines()))
        assert not Path("-").exists()

    def test_invalid_utf8_is_located_and_nothing_is_lost(self, zoo: Zoo, translator: Translator) -> None:
        Path("in.txt").write_bytes(b"we read\nna\xefve\n")
        Path("out.txt").write_text("from before\n")
        result = zoo("decode", "--model", "tiny", "--input", "in.txt", "--output", "out.txt")
        assert (result.status, "(in.txt:2)" in result.err) == (2, True)
        assert Path("out.txt").read_text() == "from before\n"
        assert sorted(path.name for path in Path().glob("*out*")) == ["out.txt", "out.txt.partial"]
        assert Path("out.txt.partial").read_text(encoding="utf-8") == f"{translator.translate('we read')}\n"
        assert "`out.txt.partial` contains the first 1 line" in result.err
        result = zoo("decode", "--model", "tiny", "--beam", "1", stdin=b"we read\n" * 64 + b"na\xefve\n")
        assert (result.status, "(<stdin>:65)" in result.err) == (2, True)
        assert result.out == f"{translator.translate('we read', beam=1)}\n" * 64, "earlier lines are translated"

    def test_missing_input_and_damaged_weights(self, zoo: Zoo, trained: Callable[..., Run]) -> None:
        run = trained("runs/tiny")
        result = zoo("decode", "--model", "tiny", "--input", "none.txt")
        assert result.status == 2
        assert result.err.startswith("error: cannot read `none.txt`: No such file or directory\n\nhint: check the path")
        run.weights.write_bytes(run.weights.read_bytes()[:-100])
        result = zoo("decode", "--model", "tiny", stdin=TEXT)
        assert (result.status, "runs/tiny/weights.safetensors" in result.err) == (1, True)


def test_warnings_about_the_input_are_printed_once(zoo: Zoo, translator: Translator) -> None:
    lines = "two books\n" * 3
    result = zoo("decode", "--model", "tiny", "--beam", "1", stdin=(lines + "two books " * 12 + "\n") * 20)
    assert (result.status, result.err.count("warning: "), "20 of 80" in result.err) == (0, 1, True)
    result = zoo("decode", "--model", "tiny", "--beam", "1", stdin=(lines + "two ñ books\n") * 20)
    assert (result.err.count("warning: "), "20 of 80" in result.err) == (1, True)
    assert zoo("decode", "--model", "tiny", "--beam", "1", stdin=lines).err == ""


def test_a_spec_stands_only_for_runs_of_the_same_spec(zoo: Zoo, trained: Callable[..., Run]) -> None:
    run = trained("runs/own", name="mine", training={"seed": 3})
    for folder, change in (("a", ""), ("b", "corpus: {target: fr}\narchitecture: {dropout: 0.3}\n")):
        Path(folder).mkdir()
        (Path(folder) / "whole.yaml").write_text(run.spec.yaml())
        (Path(folder) / "own.yaml").write_text(f"extends: whole.yaml\n{change}")
    for command in (("decode",), ("score",), ("evaluate", "--set", "dev")):
        error = zoo(*command, "--spec", "b/own.yaml", stdin="we read\twir lesen\n").refusal
        assert "architecture.dropout: `0.3`" in error
        assert "corpus.target: `fr`" in error
    assert zoo("decode", "--spec", "a/own.yaml", "--device", "cpu", stdin="we read\n").status == 0


@contextmanager
def _killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process that waits for more input instead of answering, so that the test ends."""
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        yield
    finally:
        guard.cancel()
        process.kill()


@pytest.fixture
def packed(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a published model with packed weights, with which `zoo decode` starts fast, without torch."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    backend = "eager" if BACKENDS["native"].unavailable_reason() else "native"
    name = publish(trained("runs/tiny").folder).name
    library.load(name, device="cpu", backend=backend)
    return ["--model", name, "--device", "cpu", "--backend", backend]


@pytest.mark.integration
class TestProcesses:
    def test_a_closed_pipe_ends_the_command_quietly(self, packed: list[str]) -> None:
        options = " ".join(packed)
        command = f"{sys.executable} -m zoo decode {options} --beam 1 | head -1; exit ${{PIPESTATUS[0]}}"
        process = subprocess.run(["bash", "-c", command], input="we read\n" * 30_000, capture_output=True, text=True)
        assert (process.stdout.count("\n"), process.stderr, process.returncode) == (1, "", 141)

    @pytest.mark.parametrize("terminal", [True, False])
    def test_lines_are_answered_when_the_input_pauses(self, packed: list[str], terminal: bool) -> None:
        """The input is a person at a terminal, or a program that waits for an answer before it writes again."""
        read_end, write_end = reversed(os.openpty()) if terminal else os.pipe()
        command = [sys.executable, "-m", "zoo", "decode", *packed, "--beam", "1"]
        pipes: Any = {"stdin": read_end, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as process, _killed_at_the_end(process):
            os.close(read_end)
            assert process.stdout
            answers = []
            for lines in (["we read"], ["the cat", "we read two books"], [""], ["we read"] * 64):
                os.write(write_end, "".join(f"{line}\n" for line in lines).encode())
                answers.append([process.stdout.readline() for _ in lines])
            os.write(write_end, b"\x04" if terminal else b"the cat")
            if not terminal:
                os.close(write_end)
            rest = process.stdout.read()
            assert process.wait() == 0
            assert process.stderr
            assert (b"Ctrl-D" in process.stderr.read()) == terminal
        assert answers[3] == answers[0] * 64
        assert answers[2] == [b"\n"]
        assert rest == (b"" if terminal else answers[1][0])

    def test_scores_are_printed_when_the_input_pauses(self, trained: Callable[..., Run]) -> None:
        trained("runs/tiny")
        os.mkfifo("lines")
        process = forks.Fork(forks.COMMAND, "score", "--model", "tiny", stdin="lines")
        with open("lines", "w") as lines:
            for number in (1, 2):
                print("we read\twir lesen", file=lines, flush=True)
                while process.stdout.count("\n") < number:
                    assert process.process.is_alive()
                    time.sleep(0.01)
        assert process.wait() == 0
        assert all(float(score) < 0 for score in process.stdout.split())


@pytest.mark.parametrize("options", [("--search", "sample", "--seed", "7"), ("--prefix", "starts.de")])
def test_the_parts_of_a_file_equal_the_whole(zoo: Zoo, trained: Callable[..., Run], options: tuple[str, ...]) -> None:
    trained("runs/tiny")
    Path("lines.en").write_text(TEXT + "the last line has no end", encoding="utf-8")
    Path("starts.de").write_text("der\n\n\n\n\nwir\n", encoding="utf-8")
    whole = zoo("decode", "--model", "tiny", "-i", "lines.en", *options)
    assert (whole.status, whole.err) == (0, "")
    for count in (4, 7):
        parts = [f"{number}/{count}" for number in range(1, count + 1)]
        results = [zoo("decode", "--model", "tiny", "-i", "lines.en", *options, "--part", part) for part in parts]
        assert "".join(result.out for result in results) == whole.out
        assert all(result.out for result in results) is (count < 7)
    last = zoo("decode", "--model", "tiny", "-i", "lines.en", "--n-best", "2", "--part", "3/3").out
    assert [line.split("\t")[0] for line in last.splitlines()] == ["5", "5", "6", "6"]


def test_invalid_parts_are_refused(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    Path("lines.en").write_text(TEXT, encoding="utf-8")
    for part in ("3", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/2 "):
        assert "is not a valid part" in zoo("decode", "--model", "tiny", "-i", "lines.en", "--part", part).refusal, part
    assert "add `--input FILE`" in zoo("decode", "--model", "tiny", "--part", "1/2", stdin=TEXT).refusal
    assert zoo("decode", "--model", "tiny", "-i", "missing", "--part", "1/2").status != 0
