"""`zoo decode`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import zoo as library
from compiler.backends import BACKENDS
from tests import forks
from tests.conftest import Trained, Zoo, missing
from tests.paths import ROOT
from zoo.generation.translator import Translator
from zoo.publishing.publish import publish

TEXT = "the old dog sees a small house\n\nwe read two books\n   \nwe read two books today\n"


@pytest.fixture
def decode(zoo: Zoo, translator: Translator) -> Zoo:
    """A function that runs `zoo decode` with the model of `translator`."""
    return partial(zoo, "decode", "--model", "tiny")


def test_each_line_gives_a_line_and_empty_lines_stay_empty(decode: Zoo, translator: Translator) -> None:
    for standard_streams in ((), ("-i", "-", "-o", "-")):
        result = decode(*standard_streams, stdin=TEXT)
        expected = "".join(f"{line}\n" for line in translator.translate(TEXT.splitlines()))
        assert result == (0, expected, "")
    assert result.out.splitlines()[1] == result.out.splitlines()[3] == ""
    assert not Path("-").exists()
    for text in ("", "\n", "we read", "we read\r\n", "\ufeffwe read\n", "we\u2028read\u0085\n\n"):
        assert decode(stdin=text).printed.count("\n") == text.count("\n") + (not text.endswith("\n") and bool(text))


def test_decoding_options_are_passed_on(decode: Zoo, translator: Translator) -> None:
    text = "we read two books"
    result = decode("--beam", "2", "--alpha", "0", "--max-batch-tokens", "9", stdin=text)
    assert result.out == translator.translate(text, beam=2, alpha=0.0) + "\n"
    options = ("--search", "sample", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--n-best", "2")
    result = decode(*options, "--seed", "7", stdin=text)
    choice = {"search": "sample", "temperature": 0.9, "top_k": 50, "top_p": 0.95, "seed": 7}
    assert [line.split("\t")[2] for line in result.out.splitlines()] == translator.translate(text, n_best=2, **choice)
    assert decode(*options, "--seed", "8", stdin=text).out != result.out


def test_json_lines(decode: Zoo, translator: Translator) -> None:
    result = decode("--json", "--n-best", "2", stdin="we read\n\n")
    first, second = (json.loads(line) for line in result.out.splitlines())
    texts = [each["text"] for each in first["translations"]]
    assert (first["source"], texts) == ("we read", translator.translate("we read", n_best=2))
    empty = {"text": "", "score": 0.0, "log_probability": 0.0, "confidence": None}
    assert second == {"source": "", "translations": [empty]}
    assert empty.keys() <= first["translations"][0].keys()


def test_spans_that_are_not_kept_are_shown(decode: Zoo, translator: Translator) -> None:
    """A model after a few steps loses every number, if it is only checked."""
    text = "we read 1,250 books\nwe read\n"
    result = decode("--json", "--n-best", "2", stdin=text)
    first, second = (json.loads(line)["translations"][0] for line in result.out.splitlines())
    with pytest.warns(UserWarning, match="have characters|lack numbers"):
        (best, *_), _ = translator.hypotheses(text.splitlines(), n_best=2)
    assert first["unkept"] == list(best.unkept)
    assert "1,250" in first["unkept"]
    assert "unkept" not in second
    assert not missing(result.err, "1 of 2 translations lack numbers", "'1,250'")
    result = decode("--json", "--n-best", "2", "--no-protect", stdin=text)
    assert missing(result.out + result.err, "unkept", "lack") == ["unkept", "lack"]


def test_prefixes_begin_the_translations(decode: Zoo, translator: Translator) -> None:
    Path("prefixes").write_text("wir\n\ndie Katze\n", encoding="utf-8")
    texts, prefixes = ["we read", "the old dog", "the cat"], ["wir", "", "die Katze"]
    lines = decode("--prefix", "prefixes", stdin="\n".join(texts)).out.splitlines()
    assert lines == translator.translate(texts, prefixes=prefixes)
    assert all(line.startswith(prefix) for line, prefix in zip(lines, prefixes, strict=True))
    assert decode("--prefix", "prefixes", stdin="we read\n").status == 2
    assert "`none`" in decode("--prefix", "none", stdin="we read\n").err


def test_inputs_are_not_overwritten(zoo: Zoo, decode: Zoo) -> None:
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    Path("link").symlink_to("in.txt")
    Path("prefixes").write_text("\n" * 5, encoding="utf-8")
    for output in ("in.txt", "link", "./prefixes"):
        files = ("--input", "in.txt", "--prefix", "prefixes", "--output", output)
        assert output.removeprefix("./") in decode(*files).refusal
    files = ("--source", "in.txt", "--target", "prefixes", "--output", "link")
    assert "link" in zoo("score", "--model", "tiny", *files).refusal
    assert Path("in.txt").read_text(encoding="utf-8") == TEXT
    assert Path("prefixes").read_text(encoding="utf-8") == "\n" * 5


def test_invalid_utf8_is_located_and_nothing_is_lost(decode: Zoo, translator: Translator) -> None:
    Path("in.txt").write_bytes(b"we read\nna\xefve\n")
    Path("out.txt").write_text("from before\n")
    error = decode("--input", "in.txt", "--output", "out.txt").refusal
    assert not missing(error, "(in.txt:2)", "`out.txt.partial` contains the first 1 line")
    written = {path.name: path.read_text(encoding="utf-8") for path in Path().glob("*out*")}
    partial_output = f"{translator.translate('we read')}\n"
    assert written == {"out.txt": "from before\n", "out.txt.partial": partial_output}
    result = decode("--beam", "1", stdin=b"we read\n" * 64 + b"na\xefve\n")
    assert (result.status, "(<stdin>:65)" in result.err) == (2, True)
    assert result.out == f"{translator.translate('we read', beam=1)}\n" * 64, "earlier lines are translated"


def test_missing_input_and_damaged_weights(decode: Zoo) -> None:
    error = decode("--input", "none.txt").refusal
    assert error.startswith("error: cannot read `none.txt`: No such file or directory\n\nhint: check the path")
    weights = Path("runs/tiny/weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    result = decode(stdin=TEXT)
    assert (result.status, str(weights) in result.err) == (1, True)


def test_warnings_about_the_input_are_printed_once(decode: Zoo) -> None:
    lines = "two books\n" * 3
    for unusual in ("two books " * 12, "two ñ books"):
        result = decode("--beam", "1", stdin=f"{lines}{unusual}\n" * 20)
        assert (result.status, result.err.count("warning: "), "20 of 80" in result.err) == (0, 1, True)
    assert decode("--beam", "1", stdin=lines).err == ""


@pytest.fixture
def packed(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a published model with packed weights, with which `zoo decode` starts fast, without torch."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    backend = "eager" if BACKENDS["native"].unavailable_reason() else "native"
    name = publish(trained("runs/tiny").folder).name
    library.load(name, device="cpu", backend=backend)
    return ["--model", name, "--device", "cpu", "--backend", backend]


@pytest.mark.integration
def test_a_closed_pipe_ends_the_command_quietly(packed: list[str]) -> None:
    options = " ".join(packed)
    command = f"{sys.executable} -m zoo decode {options} --beam 1 | head -1; exit ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", command], input="we read\n" * 30_000, capture_output=True, text=True)
    assert (process.stdout.count("\n"), process.stderr, process.returncode) == (1, "", 141)


@pytest.mark.integration
@pytest.mark.parametrize("terminal", [True, False])
def test_lines_are_answered_when_the_input_pauses(packed: list[str], terminal: bool) -> None:
    """The input is a person at a terminal, or a program that waits for an answer before it writes again."""
    read_end, write_end = reversed(os.openpty()) if terminal else os.pipe()
    command = [sys.executable, "-m", "zoo", "decode", *packed, "--beam", "1"]
    pipes: Any = {"stdin": read_end, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        # If the process waits for more input instead of answering, it is killed, so that the test ends.
        guard = threading.Timer(200, process.kill)
        guard.daemon = True
        guard.start()
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
        guard.cancel()
    assert answers[2:] == [[b"\n"], answers[0] * 64]
    assert rest == (b"" if terminal else answers[1][0])


@pytest.mark.integration
def test_scores_are_printed_when_the_input_pauses(trained: Trained) -> None:
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
def test_the_parts_of_a_file_equal_the_whole(decode: Zoo, options: tuple[str, ...]) -> None:
    Path("lines.en").write_text(TEXT + "the last line has no end", encoding="utf-8")
    Path("starts.de").write_text("der\n\n\n\n\nwir\n", encoding="utf-8")
    whole = decode("-i", "lines.en", *options)
    assert (whole.status, whole.err) == (0, "")
    for count in (4, 7):
        parts = [decode("-i", "lines.en", *options, "--part", f"{part}/{count}").out for part in range(1, count + 1)]
        assert "".join(parts) == whole.out
        assert all(parts) is (count < 7)
    last = decode("-i", "lines.en", "--n-best", "2", "--part", "3/3").out
    assert [line.split("\t")[0] for line in last.splitlines()] == ["5", "5", "6", "6"]


def test_invalid_parts_are_refused(decode: Zoo) -> None:
    Path("lines.en").write_text(TEXT, encoding="utf-8")
    for part in ("3", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/2 "):
        assert "is not a valid part" in decode("-i", "lines.en", "--part", part).refusal, part
    assert "add `--input FILE`" in decode("--part", "1/2", stdin=TEXT).refusal
    assert decode("-i", "missing", "--part", "1/2").status != 0
