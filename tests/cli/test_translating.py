"""`decode`, `score` and `evaluate` as a shell sees them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import zoo as library
from specs import ZooError
from zoo.generation.translator import Translator
from zoo.training.run import Run

Zoo = Callable[..., Any]
ROOT = Path(__file__).parents[2]
TEXT = "the old dog sees a small house\n\nwe read two books\n   \nwe read two books today\n"


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return library.load(str(trained("runs/tiny").folder), device="cpu")


# decode


def test_a_line_in_is_a_line_out_and_empty_ones_stay_empty(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", stdin=TEXT)
    assert done.status == 0
    assert done.out == "".join(f"{line}\n" for line in translator.translate(TEXT.splitlines()))
    assert done.out.splitlines()[1] == done.out.splitlines()[3] == ""
    assert done.err == ""


@pytest.mark.parametrize("text", ["", "\n", "we read", "we read\r\n", "\ufeffwe read\n", "we\u2028read\u0085\n\n"])
def test_lines_end_where_they_end(zoo: Zoo, translator: Translator, text: str) -> None:
    done = zoo("decode", "--model", "tiny", stdin=text)
    assert done.status == 0
    assert done.out.count("\n") == text.count("\n") + (not text.endswith("\n") and bool(text))


def test_the_options_of_the_search_are_the_librarys(zoo: Zoo, translator: Translator) -> None:
    text = "we read two books"
    done = zoo("decode", "--model", "tiny", "--beam", "2", "--alpha", "0", "--tokens", "9", stdin=text)
    assert done.out == translator.translate(text, beam=2, alpha=0.0) + "\n"


def test_n_best_lines_have_number_score_and_text(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--n-best", "3", stdin="we read\n\nthe cat\n")
    found = translator.hypotheses(["we read", "", "the cat"], n_best=3)
    lines = [line.split("\t") for line in done.out.splitlines()]
    wanted = [(number, each) for number, several in enumerate(found, start=1) for each in several]
    assert [(int(number), text) for number, _, text in lines] == [(number, each.text) for number, each in wanted]
    assert [float(score) for _, score, _ in lines] == pytest.approx([each.score for _, each in wanted], abs=1e-5)
    assert [number for number, *_ in lines] == ["1", "1", "1", "2", "3", "3", "3"]


def test_json_lines_tell_everything(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--json", "--n-best", "2", stdin="we read\n\n")
    first, second = (json.loads(line) for line in done.out.splitlines())
    assert first["source"] == "we read"
    assert [each["text"] for each in first["translations"]] == translator.translate("we read", n_best=2)
    assert first["translations"][0].keys() == {"text", "score", "log_probability"}
    assert second == {"source": "", "translations": [{"text": "", "score": 0.0, "log_probability": 0.0}]}


def test_files_are_read_and_written_whole(zoo: Zoo, translator: Translator) -> None:
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    done = zoo("decode", "--model", "tiny", "--input", "in.txt", "--output", "out.txt")
    assert (done.status, done.out) == (0, "")
    assert Path("out.txt").read_text(encoding="utf-8").splitlines() == translator.translate(TEXT.splitlines())


def test_what_is_read_is_not_overwritten(zoo: Zoo, translator: Translator) -> None:
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    Path("link").symlink_to("in.txt")
    Path("begun").write_text("\n" * 5, encoding="utf-8")
    files = ("--input", "in.txt", "--prefix", "begun")
    for output, named in (("in.txt", "in.txt"), ("link", "link"), ("./begun", "begun")):
        done = zoo("decode", "--model", "tiny", *files, "--output", output)
        assert done.status == 2
        assert done.err == f"error: `{named}` would be read and written at once\n\nhint: write to another file\n"
    done = zoo("score", "--model", "tiny", "--source", "in.txt", "--target", "begun", "--output", "link")
    assert (done.status, done.err.count("`link` would be read and written at once")) == (2, 1)
    assert Path("in.txt").read_text(encoding="utf-8") == TEXT
    assert Path("begun").read_text(encoding="utf-8") == "\n" * 5


def test_a_pipe_and_a_link_stay_what_they_are(zoo: Zoo, translator: Translator) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("file")
    came: list[str] = []
    reader = threading.Thread(target=lambda: came.append(Path("pipe").read_text(encoding="utf-8")), daemon=True)
    reader.start()
    assert zoo("decode", "--model", "tiny", "--output", "pipe", stdin=TEXT).status == 0
    reader.join(20)
    assert zoo("decode", "--model", "tiny", "--output", "link", stdin=TEXT).status == 0
    assert Path("pipe").is_fifo()
    assert Path("link").readlink() == Path("file")
    assert came == [Path("file").read_text(encoding="utf-8")]
    assert came[0].splitlines() == translator.translate(TEXT.splitlines())


def test_no_folder_is_made_for_an_output(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--output", "new/out.txt", stdin=TEXT)
    assert done.status == 2
    assert done.err.startswith("error: `new/out.txt` cannot be written: there is no folder `new`\n\nhint: ")
    assert not Path("new").exists()


def test_what_is_not_utf8_is_named_and_leaves_the_old_output(zoo: Zoo, translator: Translator) -> None:
    Path("in.txt").write_bytes(b"we read\nna\xefve\n")
    Path("out.txt").write_text("from before\n")
    done = zoo("decode", "--model", "tiny", "--input", "in.txt", "--output", "out.txt")
    assert done.status == 2
    assert "(in.txt:2)" in done.err
    assert Path("out.txt").read_text() == "from before\n"
    assert sorted(path.name for path in Path().glob("*out*")) == ["out.txt"]
    done = zoo("decode", "--model", "tiny", stdin=b"we read\nna\xefve\n")
    assert "(<stdin>:2)" in done.err


def test_a_missing_input_is_named(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--input", "none.txt")
    assert (done.status, done.err) == (2, "error: `none.txt` cannot be read: No such file or directory\n")


def test_long_lines_are_translated_whole_with_a_warning(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--beam", "1", stdin="two books " * 12 + "\n")
    assert done.status == 0
    assert done.out.count("\n") == 1
    assert "warning: longer than any source in training (31 tokens): 1 of 1, " in done.err
    done = zoo("decode", "--model", "tiny", "--beam", "1", stdin=("two books\n" * 3 + "two books " * 12 + "\n") * 40)
    assert "warning: longer than any source in training (31 tokens): 40 of 160" in done.err
    assert done.err.count("warning") == 1


def test_unknown_characters_are_warned_of_once(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--beam", "1", stdin=("two books\n" * 3 + "two Ω books\n") * 40)
    assert done.err.count("warning") == 1
    assert (
        "warning: characters that the model does not know: in 40 of 160, first in text 4 ('two Ω books'); " in done.err
    )
    assert zoo("decode", "--model", "tiny", "--beam", "1", stdin="two books\n").err.count("warning") == 0


def test_damaged_weights_are_an_error(zoo: Zoo, trained: Callable[..., Run]) -> None:
    run = trained("runs/tiny")
    run.weights.write_bytes(run.weights.read_bytes()[:-100])
    done = zoo("decode", "--model", "tiny", stdin=TEXT)
    assert done.status == 1
    assert done.err.startswith("error: `runs/tiny/weights.safetensors` cannot be read: ")


def test_a_reader_that_has_enough_ends_it_quietly(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    many = "we read\n" * 3000
    command = f"{sys.executable} -m cli.app decode --model tiny --beam 1 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], input=many, capture_output=True, text=True, env=_environment(), check=False
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("typed", [True, False])
def test_what_has_come_is_answered_where_the_input_pauses(trained: Callable[..., Run], typed: bool) -> None:
    """A person at a terminal, or a program that writes and waits for its answer before it writes again."""
    trained("runs/tiny")
    theirs, ours = os.openpty() if typed else os.pipe()
    if typed:
        theirs, ours = ours, theirs
    command = [sys.executable, "-m", "cli.app", "decode", "--model", "tiny", "--beam", "1"]
    pipes: Any = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": _environment()}
    with subprocess.Popen(command, **pipes) as process, _ended_after_all(process):
        os.close(theirs)
        assert process.stdout
        answers = []
        for lines in (["we read"], ["the cat", "we read two books"], [""], ["we read"] * 64):
            os.write(ours, "".join(f"{line}\n" for line in lines).encode())
            answers.append([process.stdout.readline() for _ in lines])
        os.write(ours, b"\x04" if typed else b"the cat")
        if not typed:
            os.close(ours)
        rest = process.stdout.read()
        assert process.wait() == 0
        assert process.stderr
        assert (b"Ctrl-D" in process.stderr.read()) == typed
    assert answers[3] == answers[0] * 64
    assert answers[2] == [b"\n"]
    assert rest == (b"" if typed else answers[1][0])


def test_scores_come_where_the_input_pauses(trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    command = [sys.executable, "-m", "cli.app", "score", "--model", "tiny"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": _environment()}
    with subprocess.Popen(command, **pipes) as process, _ended_after_all(process):
        assert process.stdin
        assert process.stdout
        for _ in range(2):
            process.stdin.write(b"we read\twir lesen\n")
            process.stdin.flush()
            assert float(process.stdout.readline()) < 0
        process.stdin.close()
        assert process.wait() == 0


def test_an_error_comes_after_the_lines_before_it(zoo: Zoo, translator: Translator) -> None:
    done = zoo("decode", "--model", "tiny", "--beam", "1", stdin=b"we read\n" * 64 + b"na\xefve\n")
    assert done.status == 2
    assert done.out == f"{translator.translate('we read', beam=1)}\n" * 64
    assert "(<stdin>:65)" in done.err


def test_samples_are_the_librarys_and_another_seed_draws_others(zoo: Zoo, translator: Translator) -> None:
    text = "we read two books\nthe cat\n"
    options = ("--search", "sample", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--n-best", "2")
    done = zoo("decode", "--model", "tiny", *options, "--seed", "7", stdin=text)
    choice = {"search": "sample", "temperature": 0.9, "top_k": 50, "top_p": 0.95, "seed": 7}
    found = translator.translate(text.splitlines(), n_best=2, **choice)
    assert [line.split("\t")[2] for line in done.out.splitlines()] == [each for several in found for each in several]
    assert zoo("decode", "--model", "tiny", *options, "--seed", "8", stdin=text).out != done.out


def test_prefixes_are_read_beside_the_lines(zoo: Zoo, translator: Translator) -> None:
    Path("begun").write_text("wir\n\ndie Katze\n", encoding="utf-8")
    done = zoo("decode", "--model", "tiny", "--prefix", "begun", stdin="we read\nthe old dog\nthe cat\n")
    texts, prefixes = ["we read", "the old dog", "the cat"], ["wir", "", "die Katze"]
    assert done.out.splitlines() == translator.translate(texts, prefixes=prefixes)
    assert [line.startswith(prefix) for line, prefix in zip(done.out.splitlines(), prefixes, strict=True)] == [True] * 3
    done = zoo("decode", "--model", "tiny", "--prefix", "begun", stdin="we read\n")
    assert done.status == 2
    assert "there are 1 texts, and more prefixes" in done.err
    assert "`none` cannot be read" in zoo("decode", "--model", "tiny", "--prefix", "none", stdin="we read\n").err


def test_several_models_are_an_ensemble(zoo: Zoo, trained: Callable[..., Run]) -> None:
    opened = [library.load(str(trained(f"runs/{name}").folder), device="cpu") for name in ("one", "two")]
    done = zoo("decode", "--model", "runs/one", "--model", "runs/two", stdin=TEXT)
    assert done.out.splitlines() == Translator.ensemble(opened).translate(TEXT.splitlines())
    both = zoo("decode", "--spec", "tiny", "--model", "runs/one", stdin=TEXT)
    assert "`--spec` and `--model` are both given" in both.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--search", "dfs"), "error: `search` is 'dfs'\n\nhint: it is `beam` or `sample`"),
        (("--top-p", "0.5"), "error: `top_p` is given, and the search is `beam`, which has no use for it"),
        (("--search", "sample", "--top-p", "0"), "error: `top_p` is 0.0: it must be a number above 0 and at most 1"),
        (("--search", "sample", "--temperature", "0"), "error: `temperature` is 0.0: it must be a number above 0"),
    ],
)
def test_choices_that_make_no_sense_are_named(
    zoo: Zoo, translator: Translator, options: tuple[str, ...], named: str
) -> None:
    done = zoo("decode", "--model", "tiny", *options, stdin="we read\n")
    assert done.status == 2
    assert done.err.startswith(named)


# score


def test_scores_of_pairs_from_stdin_and_from_files_agree(zoo: Zoo, translator: Translator) -> None:
    sources, targets = ["we read", "", "the cat"], ["wir lesen", "die Katze", ""]
    wanted = translator.score(sources, targets)
    stdin = "".join(f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True))
    done = zoo("score", "--model", "tiny", stdin=stdin)
    assert [float(line) for line in done.out.splitlines()] == pytest.approx(wanted, abs=1e-5)
    for name, lines in (("a", sources), ("b", targets)):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = zoo("score", "--model", "tiny", "--source", "a", "--target", "b", "--output", "scores.txt")
    assert files.status == 0
    assert Path("scores.txt").read_text() == done.out


def test_json_scores_have_every_piece(zoo: Zoo, translator: Translator) -> None:
    done = zoo("score", "--model", "tiny", "--json", stdin="we read\twir lesen\n")
    found = json.loads(done.out)
    (forced,) = translator.score_tokens(["we read"], ["wir lesen"])
    assert found["tokens"] == forced.tokens == len(found["token_log_probabilities"])
    assert sum(found["token_log_probabilities"]) == pytest.approx(found["log_probability"])


@pytest.mark.parametrize(("line", "tabs"), [("we read", 0), ("a\tb\tc", 2)])
def test_a_line_that_is_no_pair_is_named(zoo: Zoo, translator: Translator, line: str, tabs: int) -> None:
    done = zoo("score", "--model", "tiny", stdin=f"we read\twir lesen\n{line}\n")
    assert done.status == 2
    assert done.err.startswith(f"error: a line has {tabs} tabs, not one (<stdin>:2)")
    assert done.out == zoo("score", "--model", "tiny", stdin="we read\twir lesen\n").out, "what came before is scored"


@pytest.mark.parametrize("window", [2, 4096])
def test_a_pair_that_cannot_be_scored_is_named_behind_those_before_it(
    zoo: Zoo, translator: Translator, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr("cli.score._WINDOW", window)
    good = "we read\twir lesen\n"
    done = zoo("score", "--model", "tiny", stdin=f"{good * 4}we\t{'x' * 100_001}\n{good}")
    assert done.status == 2
    assert re.search(r"error: target 5 \('x+\.\.\.'\) has a word of 100,001 characters.*\(<stdin>:5\)", done.err)
    scores = zoo("score", "--model", "tiny", stdin=good * 4).out
    assert done.out == scores
    Path("a").write_text("we read\n" * 5)
    Path("b").write_text("wir lesen\n" * 4 + "x" * 100_001 + "\n")
    done = zoo("score", "--model", "tiny", "--source", "a", "--target", "b")
    assert "(a:5, b:5)" in done.err
    assert done.out == scores


@pytest.mark.parametrize(("longer", "shorter"), [("a", "b"), ("b", "a")])
def test_files_of_different_length_are_named(zoo: Zoo, translator: Translator, longer: str, shorter: str) -> None:
    Path(longer).write_text("we\nread\n")
    Path(shorter).write_text("we\n")
    done = zoo("score", "--model", "tiny", "--source", "a", "--target", "b")
    assert done.status == 2
    assert f"`{shorter}` has 1 lines, and `{longer}` has more" in done.err


# evaluate


def test_evaluate_shows_each_score_and_its_signature(zoo: Zoo, translator: Translator) -> None:
    done = zoo("evaluate", "--model", "tiny", "--set", "dev", "--device", "cpu")
    assert done.status == 0
    signed = ["BLEU", "paper's BLEU", "chrF", "TER"]
    rows = [*signed, "perplexity", "sentences", *(f"signature, {called}" for called in signed)]
    assert [line.split("  ")[0] for line in done.out.splitlines()] == rows
    told = json.loads(zoo("evaluate", "--model", "runs/tiny", "--json").out)
    assert told["sentences"] == 4
    assert told["signature"].startswith("nrefs:1|")
    assert f"{told['bleu']:.2f}" in done.out
    listed = json.loads(zoo("list", "runs/tiny", "--json").out)["runs"][0]
    assert (listed["metric"], listed["test"]) == ("bleu", told["bleu"])


def test_evaluate_compares_two_files(zoo: Zoo) -> None:
    Path("a").write_text("Der alte Hund sieht ein kleines Haus\n", encoding="utf-8")
    Path("b").write_text("der alte Hund sieht ein kleines Haus\n", encoding="utf-8")
    files = ("--hypotheses", "a", "--references", "b")
    assert float(zoo("evaluate", *files).out.split()[1]) < 100
    assert "paper's" not in zoo("evaluate", *files).out
    assert "moses-de" in zoo("evaluate", *files, "--language", "de").out
    done = zoo("evaluate", *files, "--lowercase", "--tokenize", "none", "--json")
    assert json.loads(done.out)["bleu"] == pytest.approx(100)
    assert "case:lc" in done.out
    assert "tok:none" in done.out
    assert zoo("evaluate", *files, "--tokenize", "foo").status == 2


def test_two_files_are_compared(zoo: Zoo) -> None:
    lines = [f"der alte Hund sieht {number} kleine Häuser" for number in range(30)]
    Path("test.de").write_text("\n".join(lines), encoding="utf-8")
    Path("good").write_text("\n".join([*lines[:-1], "der Hund"]), encoding="utf-8")
    Path("bad").write_text("\n".join(line.replace("alte", "neue") for line in lines), encoding="utf-8")
    done = zoo("compare", "good", "bad", "--references", "test.de")
    assert done.status == 0
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["A", "B", "difference", "p", "better"]
    assert [row.split("  ")[0] for row in rows] == ["BLEU", "paper's BLEU", "chrF", "TER"]
    assert {row.split()[-1] for row in rows} == {"A"}
    told = json.loads(zoo("compare", "good", "good", "--references", "test.de", "--json").out)
    assert {(each["difference"], each["better"], each["p"]) for each in told} == {(0.0, None, 1.0)}


def test_two_models_are_compared_on_the_set_that_both_have(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/one")
    trained("runs/other", **{"training.seed": 7})
    told = json.loads(zoo("compare", "one", "runs/other", "--device", "cpu", "--json").out)
    assert [each["metric"] for each in told] == ["bleu", "paper_bleu", "chrf", "ter"]
    trained("runs/third", **{"corpus.test": [{"grammar": 4}]})
    done = zoo("compare", "one", "third")
    assert done.status == 2
    assert "the test sets of `runs/one` and `runs/third` are not the same sentences" in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a", "b", "--set", "dev", "--references", "c"), "`--set` is for models only"),
        (("a", "b", "--language", "de"), "`--language` is for files only"),
        (("a", "b", "--references", "c"), "`a` cannot be read"),
        (("a", "b"), "there is no model `a`"),
        (("tiny", "tiny", "--set", "train"), "`train` is not a set to evaluate on"),
    ],
)
def test_what_cannot_be_compared_is_said(
    zoo: Zoo, translator: Translator, arguments: tuple[str, ...], problem: str
) -> None:
    done = zoo("compare", *arguments)
    assert done.status == 2
    assert problem in done.err


def test_evaluate_compares_trees_as_evalb_does(zoo: Zoo) -> None:
    Path("gold").write_text("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n" * 3, encoding="utf-8")
    right, wrong = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))", "(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))"
    Path("test").write_text(f"{right}\n{right.replace('NP', 'PP')}\n{wrong}\n", encoding="utf-8")
    Path("unlabelled").write_text("LABELED 0\nDELETE_LABEL TOP\n", encoding="utf-8")
    done = zoo("evaluate", "--brackets", "gold", "test")
    assert done.status == 0
    assert done.out.splitlines()[3] == ("   1    4    0  100.00 100.00     3      3    3      0      3     3   100.00")
    assert "Bracketing Recall         =  83.33\n" in done.out
    assert done.err == (
        "warning: 1 of 3 sentences are left out as errors; the first is 3: the words `a` and `the` differ (those of "
        "deleted tags, such as marks, are not counted, and each tree's own tags say which they are)\n"
        "F1 83.33 (evalb:collins|tags:test|cutoff:40)\n"
    )
    told = json.loads(zoo("evaluate", "--brackets", "gold", "test", "--parameters", "unlabelled", "--json").out)
    assert (told["f1"], told["errors"], len(told["rows"])) == (100, 1, 3)
    Path("test").write_text(f"{right}\n", encoding="utf-8")
    assert "`test` has 1 lines and `gold` has 3" in zoo("evaluate", "--brackets", "gold", "test").err


@contextmanager
def _ended_after_all(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A process that waits for more instead of answering would be waited for until the end of days."""
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        yield
    finally:
        guard.cancel()
        process.kill()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


# a spec and the run that is called like it


@pytest.mark.parametrize("command", [("decode",), ("score",), ("evaluate", "--set", "dev")])
def test_a_run_answers_only_to_the_spec_that_it_is_of(
    zoo: Zoo, trained: Callable[..., Run], command: tuple[str]
) -> None:
    run = trained("runs/own", name="mine", training={"seed": 3})
    scores = run.scores.read_bytes()
    for folder, change in (("a", ""), ("b", "corpus: {target: fr}\narchitecture: {dropout: 0.3}\n")):
        Path(folder).mkdir()
        (Path(folder) / "whole.yaml").write_text(run.spec.yaml())
        (Path(folder) / "own.yaml").write_text(f"extends: whole.yaml\n{change}")
    refused = zoo(*command, "--spec", "b/own.yaml", stdin="we read\twir lesen\n")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("error: `runs/own` is of another spec than `b/own.yaml`:\n")
    assert "  architecture.dropout: `0.3` in `b/own.yaml`, `0.1` there\n" in refused.err
    assert "  corpus.target: `fr` in `b/own.yaml`, `de` there\n" in refused.err
    assert "`runs/own` in place of `b/own.yaml`" in refused.err
    assert run.scores.read_bytes() == scores
    assert zoo(*command, "--spec", "a/own.yaml", "--device", "cpu", stdin="we read\twir lesen\n").status == 0


def test_a_misspelt_backend_is_told_before_a_missing_model(zoo: Zoo) -> None:
    for command in ("decode", "parse", "score", "evaluate"):
        done = zoo(command, "--spec", "base", "--backend", "egaer")
        assert (done.status, done.err) == (2, "error: `egaer` is not a backend\n\nhint: did you mean `eager`?\n")
    with pytest.raises(ZooError, match="`egaer` is not a backend"):
        library.load("nowhere", backend="egaer")
