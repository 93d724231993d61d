"""`zoo list`, `zoo show`, `zoo schema` and `zoo plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import compiler
import specs
from specs.file_format import FORMAT
from tests.conftest import Trained, Zoo, missing


def test_list_has_specs_runs_and_models(zoo: Zoo, trained: Trained) -> None:
    trained("runs/tiny")
    zoo("publish", "tiny", "--name", "mine")
    result = zoo("list")
    assert result.err.startswith("public models: `zoo list --available` lists ")
    titles = ["Runs", "Published", "Specs"]
    assert [line for line in result.out.splitlines() if line in titles] == titles
    lines = {line.split()[0]: line for line in result.out.splitlines() if line}
    assert f"{compiler.parameters(specs.load('big')):,}" in lines["big"]
    assert all("12.3" in lines[name] for name in ("runs/tiny", "mine"))
    assert not [line for line in result.out.splitlines() if line != line.rstrip()]
    values = json.loads(zoo("list", "--json").out)
    assert len(values["specs"]) == len(specs.names())
    assert [model["name"] for model in values["models"]] == ["mine"]


def test_list_of_nothing(zoo: Zoo) -> None:
    assert zoo("list", "nothing") == (0, "", "nothing matches `nothing`\n")
    assert json.loads(zoo("list", "nothing", "--json").out) == {"specs": [], "runs": [], "models": []}


def test_list_has_a_column_for_each_metric(zoo: Zoo, trained: Trained) -> None:
    trained("runs/a")
    parser = trained("runs/b")
    task = {"kind": "parsing", "linearisation": "vinyals", "constrained": True}
    fields = {"vocabulary.shared": False, "architecture.tied_embeddings": "target", "corpus": {"target": "en"}}
    parser.spec_file.write_text(specs.load("tiny", {"task": task, **fields}).yaml())
    parser.scores.write_text('{"dev": {"f1": 91.256}}')
    lines = zoo("list", "runs/*").out.splitlines()
    columns = [column.strip() for column in lines[lines.index("Runs") + 1].split("  ") if column]
    scores = ["dev BLEU", "test BLEU", "dev F1", "test F1"]
    assert columns == ["run", "parameters", "step", "of", *scores, "weights", "name"]
    rows = {row.split()[0]: [row.split()[2], *row.split()[4:9]] for row in lines if row.startswith("runs/")}
    scores_of_a, scores_of_b = ["12.35", "-", "-", "-"], ["-", "-", "91.26", "-"]
    assert rows == {"runs/a": ["-", *scores_of_a, "trained"], "runs/b": ["-", *scores_of_b, "trained"]}


def test_show_prints_a_complete_spec(zoo: Zoo) -> None:
    Path("mine.yaml").write_text(zoo("show", "big", "architecture.h=4").out, encoding="utf-8")
    assert specs.load("mine.yaml") == specs.load("big", ["architecture.h=4"])
    values = yaml.safe_load(zoo("show", "big").out)
    assert values.pop("format") == FORMAT
    assert json.loads(zoo("show", "big", "--json").out) == values
    assert json.loads(zoo("schema").out) == specs.schema()


def test_show_difference_gives_the_comments_as_reasons(zoo: Zoo) -> None:
    lines = dict(line.split(": ", 1) for line in zoo("show", "table3/a-h4", "--difference").out.splitlines())
    assert [*lines] == ["name", "description", "architecture.h", "architecture.d_k", "architecture.d_v"]
    assert lines["architecture.h"] == "8 -> 4"
    values = json.loads(zoo("show", "table3/a-h4", "--difference", "--json").out)
    assert values["architecture.h"] == {"parent": 8, "spec": 4}
    assert zoo("show", "base", "--difference").err == "`base` changes nothing\n"
    assert zoo("show", "base", "decoding.beam=5", "--difference").out == "decoding.beam: 4 -> 5\n"
    reasons = specs.comments("t2t-v3")
    lines = zoo("show", "t2t-v3", "--difference").out.splitlines()
    assert f"training.beta2: 0.98 -> 0.997  # {reasons['training.beta2']}" in lines
    assert lines[-1] == f"# {reasons['']}"
    values = json.loads(zoo("show", "t2t-v3", "training.warmup_steps=5", "--difference", "--json").out)
    assert values["training.learning_rate_factor"]["why"] == reasons["training.learning_rate_factor"]
    assert values["training.warmup_steps"] == {"parent": 4000, "spec": 5}, "an override has no comment"


def test_plan_shows_layers_and_totals(zoo: Zoo) -> None:
    command = "plan", "tiny", "architecture.N=3", "--length", "10"
    parameters = compiler.parameters(specs.load("tiny", ["architecture.N=3"]))
    result = zoo(*command)
    lines = {line.split("  ")[0]: line for line in result.out.splitlines() if line}
    assert [name for name in lines if "." in name] == [f"{s}.{i}" for s in ("encoder", "decoder") for i in range(3)]
    assert f"{parameters:,}" in lines["parameters"]
    assert "[batch, target, 1,000]" in lines["logits"]
    assert "batch·source²" in lines["encoder.0"]
    assert "N = 3, d_model = 128, d_ff = 512, h = 4, d_k = 32, d_v = 32" in lines["architecture"]
    assert ("hoist_memory" in result.out, result.err) == (False, "")
    values = json.loads(zoo(*command, "--json").out)
    assert (values["parameters"], values["length"]) == (parameters, 10)


def test_plan_warns_of_a_long_warmup_and_of_little_memory(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    warning = "until step 400, so the model learns little: train longer, or set `training.warmup_steps=60`"
    assert warning in zoo("plan", "tiny", "training.steps=300").err
    assert zoo("plan", "tiny", "training.steps=400").err == ""
    monkeypatch.setattr("zoo.system.memory.machine_memory", lambda: 1_000_000)
    warnings = "warning: the weights need", "warning: training needs", "but this machine has 1.0 MB"
    result = zoo("plan", "tiny")
    assert (result.status, missing(result.err, *warnings)) == (0, [])


def test_plan_shows_what_each_pass_changes_and_python_code(zoo: Zoo) -> None:
    names = [each.name for each in compiler.PASSES]
    result = zoo("plan", "tiny", f"compilation.disabled_passes=[{names[0]}]", "--passes")
    lines = {line.split()[0]: line for line in result.out.splitlines() if line}
    assert [name for name in lines if name in names] == names[1:]
    assert missing(result.out, "→", "encoder.0") == ["encoder.0"]
    assert " approximate " in lines["int8"]
    compile(zoo("plan", "tiny", "--code").printed, "tiny.py", "exec")


def test_plan_writes_the_graph_for_graphviz(zoo: Zoo) -> None:
    Path("tiny.dot").symlink_to("figure")
    assert zoo("plan", "tiny", "--graph", "tiny.dot") == (0, "tiny.dot\n", "")
    assert Path("tiny.dot").is_symlink()
    assert Path("figure").read_text(encoding="utf-8").startswith("digraph ")
    assert "dot -Tsvg tiny.dot -o tiny.svg" in zoo("plan", "tiny", "--graph", "tiny.svg").refusal
    assert zoo("plan", "tiny", "--graph", "figures/tiny.gv").status == 2
    for option in ("--code",), ("--graph", "tiny.dot"):
        assert "combined with `--length`" in zoo("plan", "tiny", *option, "--length", "9").refusal
    assert not Path("figures").exists()
