"""Every error is a problem, an empty line and a hint, with exit status 1 or 2 and without a traceback."""

from __future__ import annotations

import errno
import re
import shlex
from unittest.mock import Mock

import pytest
import typer

from cli.errors import handle_errors, to_zoo_error
from specs import ZooError
from tests.conftest import Zoo, missing

ERRORS = [
    ("foo", "`foo` is not a zoo command", "the commands are list, show, plan"),
    ("benchmark decoed tiny", "`benchmark decoed` is not a zoo command", "did you mean `zoo benchmark decode`?"),
    (f"translate {__file__}", ".py` has an unknown format", "supported formats: .txt"),
    ("decode tiny hello", "`zoo decode`: got unexpected extra argument", "text is read from stdin or from `--input"),
    ("decode 'the old dog'", "`the old dog` is not the name of a model", "text is read from stdin or from `--input"),
    ("decode --beem 3", "`zoo decode` has no option `--beem`", "did you mean `--beam`? run `zoo decode --help`"),
    ("decode --spec tiny --beam", "option '--beam' requires an argument", "run `zoo decode --help`"),
    ("import model.npz --languages en", "option '--languages' requires 2 arguments", "run `zoo import --help`"),
    ("train tiny --fresh=yes", "option '--fresh' does not take a value", "run `zoo train --help`"),
    ("show", "`zoo show` needs SPEC", "run `zoo show --help`"),
    ("serve tiny", "`zoo serve`: got unexpected extra argument", "select a model with `--model`"),
    ("decode --spec tiny decoding.beam=2", "the fields of a trained model cannot be changed", "omit KEY=VALUE"),
    ("prepare .", "no spec is named `.`", "this path exists, but is not a spec; run `zoo list`"),
    ("sweep tiny --table", "no run in this sweep has finished yet", "omit `--table`"),
    ("sweep tiny --list --json", "`--list` cannot be combined with `--json`", "omit one of them"),
    ("compare a b --references r --device cuda:9", "`--device` applies to models only", "omit `--device`"),
    ("evaluate --hypotheses a", "`--hypotheses` and `--references` must be given together", "pass both files"),
    (
        "evaluate --hypotheses a --references r --spec tiny",
        "a model and files to score cannot be used together",
        "omit",
    ),
    (f"evaluate {__file__}", "` is not the name of a model", "to score a file, use `--hypotheses FILE --references"),
    (f"compare {__file__} b", "` is not the name of a model", "to compare two files, add `--references FILE`"),
    ("align tiny --model tiny", "MODEL and `--model` cannot be used together", "omit one of them"),
    ("score --spec tiny --source x", "`--source` needs `--target`", "pass both files"),
    ("paper table1 --html a.html", "`--html` always writes all tables", "omit TABLE and `--json`"),
    ("decode --alpha 0,6", "`--alpha` must be a number, not `0,6`", "write decimals with a point; run `zoo decode"),
    ("decode --search foo", "`--search` must be one of `beam`, `sample`, not `foo`", "run `zoo decode --help`"),
    ("decode --backend gpu", "`gpu` is not a backend", "choose one of auto, eager, "),
    ("export nope --to ctranslate -o x", "`ctranslate` is not an export format", "did you mean `ctranslate2`?"),
    ("verify nope", "there is no published model `nope` in any of these places: `nope`, `/", "zoo list --published"),
    ("compile", "SPEC or `--model` is missing", "run `zoo compile SPEC`"),
    ("attend --spec tiny -o a.html", "the sentence is missing", "`--figure 3`"),
    ("attend --spec tiny words", "no output file is given", "-o FILE.html"),
    ("attend --spec tiny words -o a.svg", "`a.svg` does not end in .html", "a.html"),
    ("curves tiny -o c.svg", "`c.svg` does not end in .html", "the output is HTML: name the file `c.html`"),
]


@pytest.mark.parametrize(("words", "problem", "hint"), ERRORS, ids=[words for words, *_ in ERRORS])
def test_usage_errors_have_a_problem_and_a_hint(zoo: Zoo, words: str, problem: str, hint: str) -> None:
    first, _, second = zoo(*shlex.split(words)).refusal.partition("\n\n")
    assert first.startswith("error: ")
    assert problem in first
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize("number", ["alpha x", "beam 0", f"beam {'9' * 300}", f"top-k {2**62}", f"seed {2**63}"])
def test_invalid_numbers_name_the_option(zoo: Zoo, number: str) -> None:
    option, value = number.split()
    error = zoo("decode", f"--{option}", value).refusal
    assert re.match(rf"error: `--{option}`(: | must be (a (whole )?number|at (least|most) ))", error)
    assert "hint: run `zoo decode --help`" in error


def test_a_misspelt_backend_or_precision_is_reported_before_a_missing_model(zoo: Zoo) -> None:
    for command in ("decode --spec base", "parse --spec base", "score --spec base", "evaluate --spec base", "serve"):
        for option, wrong, right in (("--backend", "egaer", "eager"), ("--precision", "flaot32", "float32")):
            assert not missing(zoo(*command.split(), option, wrong).refusal, f"`{wrong}`", f"`{right}`?")


def test_exceptions_have_a_status_and_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    for error, status, text in (
        (ZooError("a", where="b:1", hint="c"), 2, "error: a (b:1)\n\nhint: c\n"),
        (ZooError("a", exit_code=1), 1, "error: a\n"),
        (ZooError("a", additional=[ZooError("b", hint="c")]), 2, "error: a\n\nerror: b\n\nhint: c\n"),
        (OSError(errno.ENOSPC, "No space left on device", "x/y"), 1, "error: `x/y`: No space left on device\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (typer.Exit(3), 3, ""),
    ):
        assert (handle_errors(Mock(side_effect=error)), capsys.readouterr().err) == (status, text)


def test_internal_errors_offer_a_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_TRACEBACK", raising=False)
    failing = Mock(side_effect=KeyError("x"))
    assert handle_errors(failing) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: internal error in zoo: KeyError: 'x'\n\nhint: ")
    assert missing(text, "ZOO_TRACEBACK=1", "Traceback") == ["Traceback"]
    monkeypatch.setenv("ZOO_TRACEBACK", "1")
    assert handle_errors(failing) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: x")])
def test_exhausted_memory_has_a_remedy(error: Exception) -> None:
    assert "--max-batch-tokens" in str(to_zoo_error(error).hint)
