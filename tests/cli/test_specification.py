"""`zoo list`, `zoo show`, `zoo schema` and `zoo plan`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import compiler
import specs
from specs.file_format import FORMAT
from tests.conftest import Zoo
from zoo.training.run import Run


def test_list_has_specs_runs_and_models(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    zoo("publish", "tiny", "--name", "mine")
    result = zoo("list")
    assert result.err.startswith("public models: `zoo list --available` lists ")
    titles = ["Runs", "Published", "Specs"]
    assert [line for line in result.out.splitlines() if line in titles] == titles
    lines = {line.split()[0]: line for line in result.out.splitlines() if line}
    assert f"{compiler.parameters(specs.load('big')):,}" in lines["big"]
    assert "12.3" in lines["runs/tiny"]
    assert "12.3" in lines["mine"]
    assert not [line for line in result.out.splitlines() if line != line.rstrip()]
    values = json.loads(zoo("list", "--json").out)
    assert len(values["specs"]) == len(specs.names())
    assert [model["name"] for model in values["models"]] == ["mine"]


def test_list_of_nothing(zoo: Zoo) -> None:
    result = zoo("list", "nothing")
    assert (result.status, result.out, result.err) == (0, "", "nothing matches `nothing`\n")
    assert json.loads(zoo("list", "nothing", "--json").out) == {"specs": [], "runs": [], "models": []}


def test_list_has_a_column_for_each_metric(zoo: Zoo, trained: Callable[..., Run]) -> None:
    run, parser = trained("runs/a"), trained("runs/b")
    task = {"kind": "parsing", "linearisation": "vinyals", "constrained": True}
    fields = {"vocabulary.shared": False, "architecture.tied_embeddings": "target", "corpus": {"target": "en"}}
    parser.spec_file.write_text(specs.load("tiny", {"task": task, **fields}).yaml())
    parser.scores.write_text('{"dev": {"f1": 91.256}}')
    lines = zoo("list", "runs/*").out.splitlines()
    columns = [column.strip() for column in lines[lines.index("Runs") + 1].split("  ") if column]
    scores = ["dev BLEU", "test BLEU", "dev F1", "test F1"]
    assert columns == ["run", "parameters", "step", "of", *scores, "weights", "name"]
    rows = {row.split()[0]: [row.split()[2], *row.split()[4:9]] for row in lines if row.startswith("runs/")}
    assert rows == {
        str(run.folder): ["-", "12.35", "-", "-", "-", "trained"],
        str(parser.folder): ["-", "-", "-", "91.26", "-", "trained"],
    }


def test_show_prints_a_complete_spec(zoo: Zoo) -> None:
    Path("mine.yaml").write_text(zoo("show", "big", "architecture.h=4").out, encoding="utf-8")
    assert specs.load("mine.yaml") == specs.load("big", ["architecture.h=4"])
    values = yaml.safe_load(zoo("show", "big").out)
    assert values.pop("format") == FORMAT
    assert json.loads(zoo("show", "big", "--json").out) == values
    assert json.loads(zoo("schema").out) == specs.schema()


def test_show_difference(zoo: Zoo) -> None:
    lines = zoo("show", "table3/a-h4", "--difference").out.splitlines()
    changed = ["name", "description", "architecture.h", "architecture.d_k", "architecture.d_v"]
    assert [line.partition(": ")[0] for line in lines] == changed
    assert "architecture.h: 8 -> 4" in lines
    values = json.loads(zoo("show", "table3/a-h4", "--difference", "--json").out)
    assert values["architecture.h"] == {"parent": 8, "spec": 4}
    assert zoo("show", "base", "--difference").err == "`base` changes nothing\n"
    assert zoo("show", "base", "architecture.h=4", "--difference").out == "architecture.h: 8 -> 4\n"


def test_show_difference_gives_the_comments_as_reasons(zoo: Zoo) -> None:
    reasons = specs.comments("t2t-v3")
    lines = zoo("show", "t2t-v3", "--difference").out.splitlines()
    assert f"training.beta2: 0.98 -> 0.997  # {reasons['training.beta2']}" in lines
    assert lines[-1] == f"# {reasons['']}"
    values = json.loads(zoo("show", "t2t-v3", "training.warmup_steps=5", "--difference", "--json").out)
    assert values["training.learning_rate_factor"]["why"] == reasons["training.learning_rate_factor"]
    assert values["training.warmup_steps"] == {"parent": 4000, "spec": 5}, "an override has no comment"


def test_plan_shows_layers_and_totals(zoo: Zoo) -> None:
    result = zoo("plan", "tiny", "architecture.N=3", "--length", "10")
    lines = {line.split("  ")[0]: line for line in result.out.splitlines() if line}
    spec = specs.load("tiny", ["architecture.N=3"])
    assert [name for name in lines if "." in name] == [f"{s}.{i}" for s in ("encoder", "decoder") for i in range(3)]
    assert f"{compiler.parameters(spec):,}" in lines["parameters"]
    assert "[batch, target, 1,000]" in lines["logits"]
    assert "batch·source²" in lines["encoder.0"]
    assert "hoist_memory" not in result.out
    assert result.err == ""
    values = json.loads(zoo("plan", "tiny", "architecture.N=3", "--length", "10", "--json").out)
    assert (values["parameters"], values["length"]) == (compiler.parameters(spec), 10)


def test_plan_warns_if_training_ends_before_the_warmup(zoo: Zoo) -> None:
    assert "until step 400, so the model learns little: train longer, or set `training.warmup_steps=60`" in (
        zoo("plan", "tiny", "training.steps=300").err
    )
    assert zoo("plan", "tiny", "training.steps=400").err == ""


def test_plan_code_is_python(zoo: Zoo) -> None:
    result = zoo("plan", "tiny", "--code")
    compile(result.out, "tiny.py", "exec")
    assert result.err == ""


def test_plan_passes_shows_what_each_changes(zoo: Zoo) -> None:
    disabled = compiler.PASSES[0].name
    result = zoo("plan", "tiny", f"compilation.disabled_passes=[{disabled}]", "--passes")
    lines = {line.split()[0]: line for line in result.out.splitlines() if line}
    names = [each.name for each in compiler.PASSES if each.name != disabled]
    assert [name for name in lines if name in names] == names
    assert disabled not in lines
    assert "→" in result.out
    assert " approximate " in lines["int8"]
    assert "encoder.0" not in result.out
    values = json.loads(zoo("plan", "tiny", "--json").out)["passes"]
    assert min(each["after"]["flops"] for each in values) < values[0]["before"]["flops"]


def test_plan_graph_writes_a_drawing(zoo: Zoo) -> None:
    Path("tiny.svg").symlink_to("figure")
    result = zoo("plan", "tiny", "--graph", "tiny.svg")
    assert (result.status, result.out, result.err) == (0, "tiny.svg\n", "")
    assert Path("tiny.svg").is_symlink()
    assert Path("figure").read_text(encoding="utf-8").startswith("<svg ")
    result = zoo("plan", "tiny", "--graph", "figures/tiny.svg")
    assert (result.status, Path("figures").exists()) == (2, False)
    assert zoo("plan", "tiny", "--graph", "tiny.png").status == 2


def test_plan_warns_if_the_memory_is_too_small(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.system.memory.machine_memory", lambda: 1_000_000)
    result = zoo("plan", "tiny")
    assert result.status == 0
    assert "warning: the weights need" in result.err
    assert "warning: training needs" in result.err
    assert "but this machine has 1.0 MB" in result.err
