"""The commands and their options, help texts, examples and shell completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer

import specs
from cli import options
from cli.app import COMMANDS, GROUPS, build_app
from specs import Decoding
from tests import forks
from tests.conftest import Trained, Zoo
from tests.paths import ROOT
from zoo.publishing.publish import publish

OPTIONS_OF_COMMANDS = """
list: PATTERN --published --available --json; show: SPEC KEY=VALUE --difference --json; schema:
plan: SPEC KEY=VALUE --passes --code --graph --length --json
prepare: SPEC KEY=VALUE; train: SPEC KEY=VALUE --run --fresh --yes --device; average: RUN --last --int8; shortlist: RUN
sweep: SPEC|KEY=VALUE --seeds --jobs --folder --list --table --json --device; curves: RUN --output
decode: MODEL --spec --model --from --to --input --prefix --output --part --search --beam --alpha --shortlist --n-best
  --no-split --no-protect --temperature --top-k --top-p --seed --json --max-batch-tokens --device --precision
  --backend
translate: FILE|FOLDER --output --yes --spec --model --from --to --no-protect --device --precision --backend
  --max-batch-tokens
transcribe: FILE|FOLDER --output --format --yes --spec --model --to --beam --device --precision --backend
  --max-batch-tokens
run: MODEL --from --to --device --precision --backend
parse: MODEL --spec --model --input --output --pretty --beam --alpha --n-best --tokenized --unconstrained --json
  --max-batch-tokens --device --precision --backend
score: MODEL --spec --model --from --to --source --target --output --json --device --precision --backend
  --max-batch-tokens
align: MODEL --spec --model --from --to --source --target --output --json --max-batch-tokens --device
evaluate: MODEL --spec --model --set --hypotheses --references --language --tokenize --lowercase --transcripts
  --brackets --json --device --precision --backend --max-batch-tokens
attend: SENTENCE|FILE --spec --model --from --to --target --figure --output --svg --attention --layer --head --word
  --device --precision --backend
compare: A B --set --references --language --transcripts --json --device --precision --backend --max-batch-tokens
serve: --model --host --port --keys --new-key --cors --allow-host --max-memory --idle-minutes --max-texts
  --max-characters --max-body-bytes --max-queue --max-wait --timeout --max-batch-tokens --device --precision --backend
import: SOURCE --name --format --languages --positions --tokenizer --bpe --replace
publish: RUN|NAME --name --replace --to --notes; export: NAME --to --output; verify: NAME|DIR --backend
pull: NAME --yes; remove: NAME --yes; clean: compiled|prepared|archives|pulls|synthetic|runs|RUN --yes
paper: TABLE --runs --html --json; doctor: --json
compile: SPEC KEY=VALUE --model --device --precision --backend
benchmark decode: SPEC KEY=VALUE --batch --sentences --rounds --json --device --precision --backend
benchmark train: SPEC KEY=VALUE --steps --rounds --json --device
"""
"""Public interface: scripts rely on these names."""
OPTIONS = {
    name: words.split()
    for name, words in (command.split(":") for command in re.split(r"; |\n(?! )", OPTIONS_OF_COMMANDS.strip()))
}


@cache
def app() -> Any:
    return typer.main.get_command(build_app())


def parameters(name: str) -> list[Any]:
    commands = app()
    for word in name.split():
        commands = commands.commands[word]
    return commands.params  # type: ignore[no-any-return]


def test_commands_and_options_are_stable_and_have_help_texts() -> None:
    expected = [["--version"], ["--install-completion"], ["--show-completion"]]
    assert [each.opts for each in app().params] == expected
    assert COMMANDS.keys() == OPTIONS.keys()
    for name, command in COMMANDS.items():
        names = [each.metavar if each.param_type_name == "argument" else each.opts[0] for each in parameters(name)]
        assert names == OPTIONS[name]
        assert (command.function.__doc__ or "").partition("\n")[0].endswith("."), name
        for parameter in parameters(name):
            assert len(parameter.help) > 4, (name, parameter.name)


def test_options_for_fields_of_a_spec_have_their_choices_and_descriptions() -> None:
    known = {parameter.name: parameter for parameter in parameters("decode")}
    beam = known["beam"]
    assert (beam.help, beam.show_default) == (Decoding.describe("beam"), "the spec's decoding.beam")
    assert known["search"].metavar == "beam|sample"
    assert "not in the paper" not in known["top_p"].help


def test_every_example_is_a_command_with_existing_options() -> None:
    for name, command in COMMANDS.items():
        for example in command.docstring[2].split("\n\n"):
            words = [re.split(r"\s*(?:[<>]|\|)\s*", part)[0] for part in re.findall(r"\bzoo [a-z].*", example)]
            assert words, example
            lines = [shlex.split(line) for word in words for line in word.split(" && ")]
            called = [(" ".join(line[1:3]) if line[1] in GROUPS else line[1], line) for line in lines]
            assert (name in [command for command, _ in called], "\\\\" in example) == (True, False)
            for command_name, arguments in called:
                assert {word for word in arguments if word.startswith("--")} <= set(OPTIONS[command_name])


def test_help_and_version(zoo: Zoo) -> None:
    for arguments in ([], ["--help"], ["-h"], ["benchmark"], ["decode", "--help"], ["benchmark", "train", "-h"]):
        assert "Usage: zoo" in zoo(*arguments).printed
    assert zoo("--help", "decode").out == zoo("--help").out
    assert re.fullmatch(r"zoo \d+\.\d+\.\d+\S*\n", zoo("--version").out)


@pytest.mark.integration
def test_shell_completion() -> None:
    for typed, completions in {
        "zoo ev": ["evaluate"],
        "zoo decode --prec": ["--precision"],
        "zoo train tiny training.check": ["training.checkpoint_steps="],
        "zoo decode --backend nat": ["native"],
        "zoo plan variants/": [name for name in specs.names() if name.startswith("variants/")],
    }.items():
        variables = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_ZOO_COMPLETE": "complete_bash"}
        process = forks.run("from zoo.entry_point import main; main()", environment={**os.environ, **variables})
        assert (process.wait(), process.stdout.split(), process.stderr) == (0, completions, "")


def test_models_and_runs_are_completed(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    trained("runs/tiny2")
    trained("runs/other")
    publish(trained("runs/tiny").folder)
    assert options.complete_model("t") == ["transformer-tiny-ende"]
    assert options.complete_run("t") == ["tiny", "tiny2"]
    assert options.complete_model_or_run("t") == ["transformer-tiny-ende", "tiny", "tiny2"]
    refuse = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("zoo.names", refuse)
    assert options.complete_model("t") == []
    monkeypatch.setattr("zoo.models.find.run_names", refuse)
    assert options.complete_model_or_run("t") == []
    assert options.complete_spec("bi") == ["big", "big-enfr"]


@pytest.mark.integration
def test_light_commands_import_no_heavy_package() -> None:
    commands = [["--help"], ["train", "--help"], ["list"], ["show", "tiny"], ["schema"], ["foo"], ["plan", "tiny"]]
    commands += [["plan", "tiny", option] for option in ("--passes", "--code", "--graph=/dev/null/x.dot")]
    code = f"import sys; from cli.app import run; [run(each) for each in {commands!r}]; print('modules', *sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    imported = set(process.stdout.rpartition("\nmodules ")[2].split())
    assert "cli.app" in imported
    assert not imported & {"torch", "sentencepiece", "sacrebleu", "soundfile", "soxr", "PIL", "sklearn"}


@pytest.mark.integration
def test_decoding_imports_no_compiler_of_torch(trained: Trained) -> None:
    """Importing torch's inductor and dynamo takes longer than translating a short text."""
    trained("runs/tiny")
    decode = "run(['decode', '--model', 'tiny', '--device', 'cpu'])"
    Path("text").write_text("we read\n")
    code = f"import sys; from cli.app import run; print({decode}); print(*sys.modules, file=sys.stderr)"
    process = forks.run(code, stdin="text")
    assert process.stdout.splitlines()[1:] == ["0"], process.stderr
    assert not {"torch._inductor", "torch._dynamo", "sacrebleu", "onnx", "ctranslate2"} & {*process.stderr.split()}
