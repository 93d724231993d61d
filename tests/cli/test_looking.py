"""`list`, `show`, `plan`, `schema`, `publish` and `verify` as a shell sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import compiler
import specs
from specs.history import FORMAT
from zoo.training.run import Run

Zoo = Callable[..., Any]


def test_list_has_specs_runs_and_models(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/tiny")
    zoo("publish", "tiny", "--name", "mine")
    done = zoo("list")
    assert done.err == ""
    assert [line for line in done.out.splitlines() if line in ("Specs", "Runs", "Published")] == [
        "Specs",
        "Runs",
        "Published",
    ]
    lines = {line.split()[0]: line for line in done.out.splitlines() if line}
    assert f"{compiler.parameters(specs.load('big')):,}" in lines["big"]
    assert "12.3" in lines["runs/tiny"]
    assert "12.3" in lines["mine"]
    assert not [line for line in done.out.splitlines() if line != line.rstrip()]
    told = json.loads(zoo("list", "--json").out)
    assert [entry["short"] for entry in told["specs"]] == list(specs.names())
    assert [entry["name"] for entry in told["models"]] == ["mine"]


def test_list_of_nothing_says_so(zoo: Zoo) -> None:
    done = zoo("list", "nothing")
    assert (done.status, done.out, done.err) == (0, "", "nothing matches `nothing`\n")
    assert json.loads(zoo("list", "nothing", "--json").out) == {"specs": [], "runs": [], "models": []}


def test_what_show_prints_is_the_spec(zoo: Zoo) -> None:
    Path("mine.yaml").write_text(zoo("show", "big", "architecture.h=4").out, encoding="utf-8")
    assert specs.load("mine.yaml") == specs.load("big", ["architecture.h=4"])
    written = yaml.safe_load(zoo("show", "big").out)
    assert written.pop("format") == FORMAT
    assert json.loads(zoo("show", "big", "--json").out) == written


def test_show_difference_is_as_short_as_the_row(zoo: Zoo) -> None:
    done = zoo("show", "table3/a-h4", "--difference")
    changed = [line.partition(": ")[0] for line in done.out.splitlines()]
    assert changed == ["name", "description", "architecture.h", "architecture.d_k", "architecture.d_v"]
    assert "architecture.h: 8 -> 4" in done.out.splitlines()
    told = json.loads(zoo("show", "table3/a-h4", "--difference", "--json").out)
    assert told["architecture.h"] == {"parent": 8, "spec": 4}


def test_show_difference_of_a_dialect_says_why_and_what_no_field_says(zoo: Zoo) -> None:
    lines = zoo("show", "t2t-v3", "--difference").out.splitlines()
    assert "training.beta2: 0.98 -> 0.997  # 5.3 has 0.98; transformer_base_v3: optimizer_adam_beta2" in lines
    assert lines[-1].startswith("# What tensor2tensor does by default")
    told = json.loads(zoo("show", "t2t-v3", "training.warmup_steps=5", "--difference", "--json").out)
    assert told["training.learning_rate"]["why"].startswith("5.3 has 1;")
    assert told["training.warmup_steps"] == {"parent": 4000, "spec": 5}


def test_show_difference_of_a_spec_without_parent_is_that_of_the_overrides(zoo: Zoo) -> None:
    assert zoo("show", "base", "--difference").err == "`base` changes nothing\n"
    assert zoo("show", "base", "architecture.h=4", "--difference").out == "architecture.h: 8 -> 4\n"


def test_plan_shows_every_layer_and_the_totals(zoo: Zoo) -> None:
    done = zoo("plan", "tiny", "architecture.N=3", "--length", "10")
    lines = {line.split("  ")[0]: line for line in done.out.splitlines() if line}
    spec = specs.load("tiny", ["architecture.N=3"])
    assert [name for name in lines if "." in name] == [f"{s}.{i}" for s in ("encoder", "decoder") for i in range(3)]
    assert f"{compiler.parameters(spec):,}" in lines["parameters"]
    assert "[batch, target, 1,000]" in lines["logits"]
    assert "batch·source²" in lines["encoder.0"]
    told = json.loads(zoo("plan", "tiny", "architecture.N=3", "--length", "10", "--json").out)
    assert told["parameters"] == compiler.parameters(spec)
    assert told["length"] == 10


def test_plan_code_is_a_program(zoo: Zoo) -> None:
    done = zoo("plan", "tiny", "--code")
    compile(done.out, "tiny.py", "exec")
    assert done.err == ""


def test_plan_passes_lists_each_with_what_it_changed(zoo: Zoo) -> None:
    done = zoo("plan", "tiny", "compilation.disabled_passes=[fuse_memory]", "--passes")
    lines = {line.split()[0]: line for line in done.out.splitlines() if line}
    names = [each.name for each in compiler.PASSES if each.name != "fuse_memory"]
    assert [name for name in lines if name in names] == names
    assert "fuse_memory" not in lines
    assert "→" in lines["hoist_memory"]
    assert " exact " in lines["hoist_memory"]
    assert " approximate " in lines["int8"]
    assert "encoder.0" not in done.out
    told = json.loads(zoo("plan", "tiny", "--json").out)["passes"]
    hoisted = next(each for each in told if each["name"] == "hoist_memory")
    assert hoisted["after"]["flops"] < hoisted["before"]["flops"]


def test_plan_without_a_wish_shows_no_passes(zoo: Zoo) -> None:
    done = zoo("plan", "tiny")
    assert "encoder.0" in done.out
    assert "hoist_memory" not in done.out


def test_plan_graph_is_drawn_into_a_file(zoo: Zoo) -> None:
    Path("tiny.svg").symlink_to("figure")
    done = zoo("plan", "tiny", "--graph", "tiny.svg")
    assert (done.status, done.out, done.err) == (0, "tiny.svg\n", "")
    assert Path("tiny.svg").is_symlink()
    assert Path("figure").read_text(encoding="utf-8").startswith("<svg ")
    done = zoo("plan", "tiny", "--graph", "figures/tiny.svg")
    assert (done.status, Path("figures").exists()) == (2, False)


def test_doctor_says_what_is_there_and_what_is_not(zoo: Zoo, home: Path) -> None:
    done = zoo("doctor")
    assert (done.status, done.err) == (0, "")
    told = json.loads(zoo("doctor", "--json").out)
    for backend in told["backends"]:
        (line,) = [line for line in done.out.splitlines() if line.split()[:1] == [backend["name"]]]
        assert (backend["problem"] or "present") in line
    assert str(home / "compiled") in done.out
    assert told["versions"]["torch"] in done.out


def test_list_has_a_column_for_each_metric_that_its_models_are_scored_by(zoo: Zoo, trained: Callable[..., Run]) -> None:
    def columns(title: str) -> list[str]:
        lines = zoo("list").out.splitlines()
        return lines[lines.index(title) + 1].split("  ")

    run = trained("runs/a")
    zoo("publish", "a", "--name", "translator")
    told = [column.strip() for column in columns("Runs") if column]
    assert told == ["run", "parameters", "step", "of", "dev BLEU", "test BLEU", "weights", "name"]
    parser = trained("runs/b")
    task = {"kind": "parsing", "linearisation": "vinyals", "constrained": True}
    own = {"vocabulary.shared": False, "architecture.tied_embeddings": "target", "corpus": {"target": "en"}}
    parser.spec_file.write_text(specs.load("tiny", {"task": task, **own}).yaml())
    parser.scores.write_text('{"dev": {"f1": 91.256}}')
    told = [column.strip() for column in columns("Runs") if column]
    assert told == ["run", *told[1:4], "dev BLEU", "test BLEU", "dev F1", "test F1", "weights", "name"]
    rows = {row.split()[0]: row.split()[4:8] for row in zoo("list").out.splitlines() if row.startswith("runs/")}
    assert rows == {str(run.folder): ["12.35", "-", "-", "-"], str(parser.folder): ["-", "-", "91.26", "-"]}
    assert "dev F1" not in "".join(columns("Published"))


def test_schema_is_that_of_the_specs(zoo: Zoo) -> None:
    assert json.loads(zoo("schema").out) == specs.schema()


def test_publish_and_verify(zoo: Zoo, trained: Callable[..., Run], home: Path) -> None:
    trained("runs/tiny")
    done = zoo("publish", "tiny")
    assert (done.status, done.out) == (0, f"{home / 'models' / 'transformer-tiny-ende'}\n")
    assert "zoo decode --model transformer-tiny-ende" in done.err
    done = zoo("verify", "transformer-tiny-ende")
    assert done.status == 0
    assert done.out.startswith("transformer-tiny-ende: 7 files are as published\n")
    assert "it has no sample of its test set, so that no score is reproduced" in done.out
    assert zoo("publish", "tiny", "--text", "--name", "told").status == 0
    assert re.search(r"\n4 sentences of test score BLEU .* when it was published; 4 outputs", zoo("verify", "told").out)
    assert "`nope` is not a backend" in zoo("verify", "told", "--backend", "nope").err
    file = home / "models" / "transformer-tiny-ende" / "scores.json"
    file.write_text("{}\n")
    done = zoo("verify", "transformer-tiny-ende")
    assert done.status == 1
    assert f"`{file}` is damaged" in done.err
    assert done.out == ""


def test_publish_refuses_a_name_that_leads_out(zoo: Zoo, trained: Callable[..., Run], home: Path) -> None:
    trained("runs/tiny")
    done = zoo("publish", "tiny", "--name", "../x")
    assert done.status == 2
    assert "`../x` cannot be the name of a model" in done.err
    assert not home.exists()


@pytest.mark.parametrize("last", ["0", "-1"])
def test_average_refuses_what_is_no_count(zoo: Zoo, trained: Callable[..., Run], last: str) -> None:
    trained("runs/tiny")
    done = zoo("average", "tiny", f"--last={last}")
    assert done.status == 2
    assert done.err.startswith("error: `--last`: ")
