"""The README is true: its commands exist, its files work, its Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

import specs
from cli.app import GROUPS, run
from specs import ZooError
from zoo.data.builtin import sentences

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
QUICK = ["training.steps=12", "training.checkpoint_steps=4", "training.warmup_steps=5", "training.average=2"]
SMALL = ["architecture={N: 1, d_model: 32, d_ff: 64, h: 2, d_k: 16, d_v: 16}", "vocabulary.size=200"]


def _block(mark: str) -> str:
    """The code block that follows a mark of the README."""
    found = re.search(rf"<!-- {re.escape(mark)} -->\s*```\w+\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no block marked {mark}"
    return found.group(1)


def _commands() -> list[list[str]]:
    """Every `zoo ...` of the shell blocks, of what is typed in the console's and of the text, without redirections."""
    typed = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    typed = typed.replace("\\\n", " ")  # a command that goes on in the next line
    typed += "\n".join(re.findall(r"^\$ (.*)$", README, re.MULTILINE))
    parts = [part for line in typed.splitlines() for part in re.split(r"&&|\||<|>|;", line.split("  #")[0])]
    named = [re.sub(r"[\[\]]", "", f"zoo {words}") for words in re.findall(r"`zoo ([a-z][^`]*)`", README)]
    found = {}
    for words in map(shlex.split, (*parts, *named)):
        at = [number for number, word in enumerate(words) if word.rpartition("/")[2] == "zoo"]
        if at and words[at[-1] + 1 :]:
            found[tuple(words[at[-1] + 1 :])] = None
    return [list(words) for words in found]


def test_there_are_two_commands_that_set_everything_up_themselves() -> None:
    for mark in ("start", "tests"):
        command = _block(mark).strip()
        assert len(command.splitlines()) == 1
        assert "-m venv" in command
        assert "pip install" in command


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_every_command_is_one_with_these_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments[: 2 if arguments[0] in GROUPS else 1], "--help"]) == 0
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    text = capsys.readouterr().out
    assert not [option for option in options if option not in text]


def test_every_spec_it_names_is_shipped_or_shown() -> None:
    """With its overrides, but for one that the README shows the error of."""
    takes = [words for words in _commands() if words[0] in ("train", "show", "plan", "prepare") and len(words) > 1]
    others = ("SPEC", "own.yaml", "runs/SPEC/spec.yaml", "FOLDER/spec.yaml")
    named = [words[1:] for words in takes if words[1] not in others]
    assert {spec for spec, *_ in named} == {
        "tiny",
        "base",
        "big",
        "multi30k-ende",
        "specs/big.yaml",
        "parsing/tiny",
        "variants/dilated",
        "t2t-v1",
    }
    for spec, *more in named:
        assert _error(spec, [word for word in more if "=" in word and not word.startswith("-")]) in README


def _error(spec: str, overrides: list[str]) -> str:
    """What is said of this spec; nothing where it is one."""
    try:
        specs.load(spec, overrides)
    except ZooError as error:
        return f"error: {error}\n"
    return ""


def test_your_own_two_text_files(capsys: pytest.CaptureFixture[str]) -> None:
    _write_own_files()
    Path("own.yaml").write_text(_block("own.yaml"), encoding="utf-8")
    assert run(["train", "own.yaml", *QUICK, *SMALL]) == 0
    assert run(["publish", "own"]) == 0
    assert run(["verify", yaml.safe_load(_block("own.yaml"))["name"]]) == 0
    assert "error" not in capsys.readouterr().err


def test_your_own_treebank(capsys: pytest.CaptureFixture[str]) -> None:
    trees = [f"{pair.tree}\n" for pair in sentences("train", 400)]
    for split, part in (("train", trees[:300]), ("dev", trees[300:350]), ("test", trees[350:])):
        Path(f"{split}.trees").write_text("".join(part), encoding="utf-8")
    Path("own-trees.yaml").write_text(_block("own-trees.yaml"), encoding="utf-8")
    assert run(["prepare", "own-trees.yaml", "vocabulary.size=200", *SMALL[:1]]) == 0
    told = capsys.readouterr().err
    assert "300 pairs read" in told
    assert "error" not in told


def test_the_python_runs() -> None:
    assert run(["train", "tiny", *QUICK, *SMALL, "corpus={train: [{grammar: 300}], dev: [{grammar: 5}]}"]) == 0
    assert run(["publish", "tiny"]) == 0
    for mark in ("load", "loop"):
        exec(compile(_block(mark), f"README.md, {mark}", "exec"), {})


def _write_own_files() -> None:
    pairs = list(sentences("train", 400))
    Path("my.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    Path("my.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
