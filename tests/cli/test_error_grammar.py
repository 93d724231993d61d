"""One grammar for all errors: what is wrong, a blank line, the remedy; and never a traceback."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from cli.errors import handled, to_zoo_error
from specs import ZooError

SNAPSHOTS = {
    ("foo",): """\
error: `foo` is not a command of zoo

hint: the commands are list, show, plan, schema, prepare, train, average, sweep, decode, parse, score, evaluate, \
attend, compare, import, publish, verify, pull, remove, export, paper, doctor, clean, compile, benchmark decode, \
benchmark train
""",
    ("benchmark", "decoed", "tiny"): """\
error: `benchmark decoed` is not a command of zoo

hint: did you mean `zoo benchmark decode`?
""",
    ("sweep", "training.steps=3"): """\
error: no spec is named to sweep over (command line)

hint: name a folder of specs, such as `table3`, or specs one after another
""",
    ("sweep", "table3", "architecture.N=4"): """\
error: `table3/c-n2` has 1/3 of the `architecture.N` that it extends, and of 4 that is no whole number (command line: \
`architecture.N`)

hint: take a multiple of 3 for `architecture.N`, or leave it as it is
""",
    ("sweep", "tiny", "--table"): """\
error: no run of this sweep is done yet

hint: without `--table` it trains them
""",
    ("compare", "a.de", "b.de", "--references", "r.de", "--device", "cuda:99"): """\
error: `--device` is for models only

hint: leave `--device` out
""",
    ("evaluate", "--hypotheses", "a.de", "--references", "r.de", "--precision", "int8"): """\
error: `--precision` is for a model only

hint: leave `--precision` out
""",
    ("paper", "table3", "--measure"): """\
error: `--measure` is for Table 1 only

hint: leave `--measure` out, or ask for `table1`
""",
    ("train", "tiny", "--run", "mine.yaml"): """\
error: `mine.yaml` is a file, and a run is a folder

hint: name a folder with `--run DIR`
""",
    ("sweep", "tiny", "--list", "--json"): """\
error: `--list` prints command lines alone

hint: leave `--table` and `--json` out
""",
    ("compile",): """\
error: nothing says what is to be compiled

hint: say either SPEC, or `--model NAME|RUN` for trained weights
""",
    ("plan", "tiny", "--graph", "tiny.png"): """\
error: `tiny.png` does not end in .svg

hint: the drawing is SVG: call it `tiny.svg`
""",
    ("pubish", "tiny"): """\
error: `pubish` is not a command of zoo

hint: did you mean `zoo publish`?
""",
    ("--foo",): """\
error: `zoo` has no option `--foo`

hint: `zoo --help` shows how it is used
""",
    ("decode", "--beem", "3"): """\
error: `zoo decode` has no option `--beem`

hint: did you mean `--beam`? `zoo decode --help` shows how it is used
""",
    ("decode", "--spec", "tiny", "--beam"): """\
error: `--beam` needs a value

hint: `zoo decode --help` shows how it is used
""",
    ("import", "model.npz", "--languages", "en"): """\
error: `--languages` needs 2 values

hint: `zoo import --help` shows how it is used
""",
    ("train", "tiny", "--fresh=yes"): """\
error: `--fresh` takes no value

hint: `zoo train --help` shows how it is used
""",
    ("show",): """\
error: `zoo show` needs SPEC

hint: `zoo show --help` shows how it is used
""",
    ("verify", "one", "two"): """\
error: `zoo verify`: got unexpected extra argument(s) (two)

hint: `zoo verify --help` shows how it is used
""",
    ("show", "bgi"): """\
error: there is no spec `bgi`

hint: did you mean `big`? `zoo list` shows the shipped specs; a file, such as a model's spec.yaml, is named by its path
""",
    ("show", "mine.yaml"): """\
error: `architecture.d_modle` is not a field of this spec (mine.yaml:3)

hint: did you mean `d_model`?
""",
    ("train", "tiny", "training.steps=many"): """\
error: `training.steps` must be a whole number, not `many` (command line: `training.steps=many`)

hint: what it is: Training steps (5.2; Table 3): 100,000 for base, 300,000 for big; optimiser updates
""",
    ("decode",): """\
error: nothing says which model is meant

hint: say either `--spec SPEC` or `--model NAME|RUN`; `zoo list` shows what there is
""",
    ("decode", "--spec", "tiny", "--model", "x"): """\
error: `--spec` and `--model` are both given

hint: say either `--spec SPEC` or `--model NAME|RUN`; `zoo list` shows what there is
""",
    ("decode", "--spec", "base"): """\
error: there is no trained model of `base`: the run `runs/base` is not there, no other run in `runs` is of this spec, \
and `HOME/models/transformer-base-ende` is not there

hint: `zoo train base` trains it; then `zoo publish base` would put it on the shelf
""",
    ("decode", "--model", "../x"): """\
error: there is no model `../x`: looked for `../x`

hint: `zoo list` shows what there is; `zoo train SPEC` trains a model
""",
    ("average", "tiny"): """\
error: there is no run `tiny`: looked for `tiny` and `runs/tiny`

hint: `zoo list` shows what there is; `zoo train SPEC` begins one
""",
    ("decode", "--spec", "tiny", "compilation.bakend=native"): """\
error: `zoo decode`: got unexpected extra argument(s) (compilation.bakend=native)

hint: a model has the fields that it was trained with; `zoo decode --help` shows how it is used, and what may be chosen
""",
    ("plan", "tiny", "--code", "--graph", "x.svg"): """\
error: `--code` and `--graph` are given, and each shows something else

hint: ask for them one at a time
""",
    ("plan", "tiny", "--passes", "--graph", "x.svg"): """\
error: `--passes` and `--graph` are given, and each shows something else

hint: ask for them one at a time
""",
    ("verify", "../x"): """\
error: there is no published model `../x`: looked for `../x`

hint: `zoo list --published` shows what there is; `zoo publish RUN` puts a model there
""",
    ("verify", "nope"): """\
error: there is no published model `nope`: looked for `nope` and `HOME/models/nope`

hint: `zoo list --published` shows what there is; `zoo publish RUN` puts a model there
""",
    ("evaluate", "--references", "x"): """\
error: `--hypotheses` and `--references` go together

hint: give both files, or `--spec` or `--model` instead
""",
    ("evaluate", "--hypotheses", "x", "--references", "y", "--spec", "tiny"): """\
error: files are compared without a model

hint: leave `--spec` and `--model` out
""",
    ("evaluate", "--brackets", "x", "y", "--model", "tiny"): """\
error: files are compared without a model

hint: leave `--spec` and `--model` out
""",
    ("evaluate", "--brackets", "x", "y", "--lowercase"): """\
error: `--lowercase` is for translations only

hint: leave `--lowercase` out
""",
    ("evaluate", "--spec", "tiny", "--parameters", "x"): """\
error: `--parameters` is for `--brackets` only

hint: leave `--parameters` out
""",
    ("score", "--spec", "tiny", "--source", "x"): """\
error: `--source` is given and `--target` is not

hint: give both, or neither and pairs on stdin
""",
}


@pytest.mark.parametrize("arguments", SNAPSHOTS, ids=" ".join)
def test_an_error_reads_like_this(zoo: Callable[..., object], home: Path, arguments: tuple[str, ...]) -> None:
    Path("mine.yaml").write_text("extends: tiny\narchitecture:\n  d_modle: 3\n")
    done = zoo(*arguments)
    assert done.err.replace(str(home), "HOME") == SNAPSHOTS[arguments]  # type: ignore[attr-defined]
    assert done.out == ""  # type: ignore[attr-defined]
    assert done.status == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "tiny", "--length", "0"),
        ("plan", "tiny", "--length", "1000000000"),
        ("decode", "--beam", "three"),
        ("decode", "--beam", "9" * 300),
        ("decode", "--n-best", "10000000000"),
        ("decode", "--alpha", "1e300"),
        ("decode", "--top-k", str(2**62)),
        ("decode", "--seed", str(2**63)),
        ("decode", "--tokens", "9" * 300),
        ("average", "tiny", "--last", "1000000000"),
    ],
)
def test_a_value_that_is_none_is_named(zoo: Callable[..., object], arguments: tuple[str, ...]) -> None:
    """In the words of typer, which change."""
    done = zoo(*arguments)
    assert done.status == 2  # type: ignore[attr-defined]
    option = next(word for word in arguments if word.startswith("--"))
    assert done.err.startswith(f"error: `{option}`: ")  # type: ignore[attr-defined]
    assert done.err.endswith(f"\n\nhint: `zoo {arguments[0]} --help` shows how it is used\n")  # type: ignore[attr-defined]


def test_all_errors_of_a_spec_are_told(zoo: Callable[..., object]) -> None:
    done = zoo("show", "tiny", "architecture.h=x", "training.steps=0", "decoding.beem=4")
    assert done.status == 2  # type: ignore[attr-defined]
    paragraphs = done.err.removesuffix("\n").split("\n\n")  # type: ignore[attr-defined]
    assert [each.partition(":")[0] for each in paragraphs] == ["error", "hint"] * 3
    assert all(
        field in each for field, each in zip(("`architecture.h`", "steps", "beem"), paragraphs[::2], strict=True)
    )


def test_a_plan_says_what_fits_no_memory(zoo: Callable[..., object]) -> None:
    done = zoo("plan", "tiny", "architecture={N: 8, d_model: 65536, d_ff: 262144}")
    assert done.status == 0  # type: ignore[attr-defined]
    assert "warning: the weights of this spec need" in done.err  # type: ignore[attr-defined]
    assert "warning: to train it takes" in done.err  # type: ignore[attr-defined]
    assert "of memory, and this machine has" in done.err  # type: ignore[attr-defined]
    assert zoo("plan", "tiny").err == ""  # type: ignore[attr-defined]


def test_a_hostile_spec_of_a_run_stops_nobody(zoo: Callable[..., object]) -> None:
    import specs

    whole = specs.load("tiny").yaml()
    for name, text in {
        "many": whole.replace("N: 2\n", "N: 100000000\n"),
        "deep": "[" * 500_000,
        "long": whole.replace("beam: 4", f"beam: {'9' * 300}"),
        "large": whole + "#" * 5_000_000,
    }.items():
        Path(f"runs/{name}").mkdir(parents=True)
        Path(f"runs/{name}/spec.yaml").write_text(text)
        done = zoo("decode", "--model", f"runs/{name}")
        assert done.status in (1, 2)  # type: ignore[attr-defined]
        assert done.err.startswith("error: ")  # type: ignore[attr-defined]
    done = zoo("list")
    assert done.status == 0  # type: ignore[attr-defined]
    assert done.err.count("warning: ") == 4  # type: ignore[attr-defined]


def failing(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ZooError("a", where="b:1", hint="c"), 2, "error: a (b:1)\n\nhint: c\n"),
        (ZooError("a", exit_code=1), 1, "error: a\n"),
        (OSError(errno.ENOSPC, "No space left on device", "x/y"), 1, "error: `x/y`: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 1, "error: `x`: Permission denied\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (typer.Exit(3), 3, ""),
    ],
)
def test_what_the_world_does_is_told(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, words: str
) -> None:
    assert handled(failing(error)) == status
    assert capsys.readouterr().err == words


def test_a_fault_of_ours_is_called_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_TRACEBACK", raising=False)
    assert handled(failing(KeyError("x"))) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: this is a fault of zoo: KeyError: 'x'\n\nhint: ")
    assert "ZOO_TRACEBACK=1" in told
    assert "Traceback" not in told
    monkeypatch.setenv("ZOO_TRACEBACK", "1")
    assert handled(failing(KeyError("x"))) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: x")])
def test_too_little_memory_has_a_remedy(error: Exception) -> None:
    assert "--tokens" in str(to_zoo_error(error).hint)


def test_an_interrupt_anywhere_in_a_command(zoo: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    import specs

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(specs, "load", interrupted)
    done = zoo("show", "tiny")
    assert (done.status, done.err) == (130, "\ninterrupted\n")  # type: ignore[attr-defined]
