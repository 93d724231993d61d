"""The paper's numbers: derivations from them are right, and change with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import specs
from compiler import Purpose, lower
from tests.zoo.paper.conftest import MakeRun
from zoo.paper import derived, table1
from zoo.paper.claims import CLAIMS, ROWS, CheckedClaim, Printed, Status, check, check_claims, power_of_ten
from zoo.paper.runs import read_measurements
from zoo.paper.tables import TABLES
from zoo.report import Report

pytestmark = pytest.mark.integration
Checked = dict[str, CheckedClaim]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckedClaim]:
    """All claims, checked without any runs."""
    return check_claims(read_measurements(tmp_path_factory.mktemp("nothing"), Report()))


def check_again(key: str) -> CheckedClaim:
    return check(CLAIMS[key], read_measurements(None, Report()))


def change(monkeypatch: pytest.MonkeyPatch, key: str, text: str) -> None:
    """Change the number that the paper prints for a claim."""
    monkeypatch.setitem(CLAIMS, key, replace(CLAIMS[key], printed=(Printed(text),)))
    part, row, *column = key.split(".", 2)
    if column and part in ROWS:
        monkeypatch.setitem(ROWS[part][row], column[0], text)


def test_one_vocabulary_explains_all_small_counts_but_not_that_of_big() -> None:
    assert derived.common_vocabulary_sizes() == range(41_004, 41_209)
    assert derived.vocabulary_sizes("big") == range(35_368, 36_345)
    counted = {key: int(row["parameters"]) for key, row in ROWS["table3"].items() if "parameters" in row}
    assert len(counted) == 11
    for key, count in counted.items():
        fit = derived.vocabulary_sizes(key)
        sizes = (fit[0] - 1, fit[0], fit[-1], fit[-1] + 1)
        millions = [round(derived.parameters(f"table3/{key}", tokens) / 1e6) for tokens in sizes]
        assert [number == count for number in millions] == [False, True, True, False]


def test_wrong_count_changes_the_status_and_leaves_no_common_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_again("table3.base.parameters")
    assert found.status is Status.DIFFERENT
    assert found.because.startswith("not 65: 63,045,632 with 37,000 tokens; 39,841 to 41,793 tokens")
    for text in ("63", "63.05"):
        change(monkeypatch, "table3.base.parameters", text)
        assert check_again("table3.base.parameters").status is Status.DERIVED
    change(monkeypatch, "table3.base.parameters", "67")
    assert not derived.common_vocabulary_sizes()
    assert not derived.one_vocabulary()[0]


def test_costs_of_the_paper_are_time_x_gpus_x_sustained_flops(checked: Checked) -> None:
    assert checked["table2.transformer-base.en-de.flops"].value == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert checked["table2.transformer-big.en-de.flops"].value == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    # With the steps of 5.2, base takes 11.1 hours and costs 3.04e18.
    assert {checked[key].status for key in ("recipe.hours", "recipe.flops")} == {Status.DIFFERENT}
    derived = ("transformer-base.en-de.flops", "transformer-big.en-fr.flops")
    keys = ("recipe.days", "recipe.flops-big", *(f"table2.{key}" for key in derived))
    assert {checked[key].status for key in keys} == {Status.DERIVED}


def test_table_2_has_flops_of_full_batches_and_public_models_of_others(checked: Checked) -> None:
    ours, public = TABLES["table2"](checked, read_measurements(None, Report()))
    (row,) = [row for row in ours.rows if row[0] == "Transformer (base)"]
    planned = 100_000 * 3 * 3_428_020_224 * (25_000 // 27)
    assert row[-1] == f"{power_of_ten(planned)} ({planned / 3.3e18:.0%})"
    assert ("transformer-big-ende", "29.3", "Facebook AI Research") in {(row[0], *row[3:]) for row in public.rows}
    assert checked["table2.transformer-big.en-de.bleu"].status is Status.OPEN


def test_contradictions_in_the_paper_are_found(checked: Checked) -> None:
    wrong = {key for key, found in checked.items() if found.ours == "no"}
    table2 = {"table2.big-cheap-german", "table2.ensembles", "table2.one-score"}
    assert wrong == {*table2, "table3.bigger-bleu-N", "table4.best"}
    true = {key for key, found in checked.items() if found.ours == "yes"}
    assert {"table2.base-best", "table2.quarter", "network.linear-offset", "network.multi-head"} < true


def test_sentences_change_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_again("table2.by-two").status is Status.DERIVED
    change(monkeypatch, "table2.transformer-big.en-de.bleu", "28.3")
    assert check_again("table2.by-two").ours == "1.94"
    assert check_again("table4.berkeley").ours == "yes"
    monkeypatch.setitem(ROWS["table4"]["transformer-4-layers-wsj-only"], "f1", "90.0")
    assert check_again("table4.berkeley").ours == "no"
    assert check_again("table3.learned-bleu").ours == "yes"
    change(monkeypatch, "table3.e-learned.bleu", "25.1")
    assert check_again("table3.learned-bleu").ours == "no"
    assert derived.time_of_steps("base", "steps", "days")[0] == pytest.approx(100_000 * 0.4 / 86400)
    change(monkeypatch, "recipe.step-base", "0.8")
    assert derived.time_of_steps("base", "steps", "days")[0] == pytest.approx(100_000 * 0.8 / 86400)


def test_different_network_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    smaller = derived.graph("table3/c-n2")
    monkeypatch.setattr(derived, "graph", lambda spec: smaller)
    found = check_again("network.encoder")
    assert (found.status, found.value) == (Status.DIFFERENT, 2)
    for key, override in (("d_k", "d_v=32"), ("h", "h=16")):
        other = lower(specs.load("base", [f"architecture.{override}"]), Purpose.TRAIN)
        monkeypatch.setattr(derived, "graph", lambda spec, other=other: other)
        assert check_again(f"network.{key}").status is Status.DIFFERENT, key
    monkeypatch.setattr(derived, "sinusoidal_encoding", lambda position, width: [0.1 * position] * width)
    assert not derived.linear_offset()[0]


def test_claims_about_settings_read_the_spec(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.status for found in checked.values() if found.claim.setting] == [Status.SET] * 27
    load = specs.load
    monkeypatch.setattr(specs, "load", lambda name, over=(): load(name, over or ["training.warmup_steps=8000"]))
    assert check_again("recipe.warmup").status is Status.DIFFERENT


def test_table_1_agrees_with_the_graphs(checked: Checked) -> None:
    found = {key: each for key, each in checked.items() if key.startswith("table1.")}
    assert len(found) == 3 * len(table1.LAYERS) + 3
    assert {key for key in found if found[key].status is not Status.DERIVED} == set()


def test_different_layer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for sublayer, differing in (("restricted", (table1.operations, table1.path)), ("lstm", (table1.steps,))):
        wrong = replace(table1.LAYERS["self-attention"], sublayer=table1.LAYERS[sublayer].sublayer)
        monkeypatch.setattr(table1, "LAYERS", {**table1.LAYERS, "self-attention": wrong})
        assert not [derive for derive in differing if derive("self-attention")[0]]


def test_table_3_contains_measured_numbers_and_commands_for_the_others(make_run: MakeRun) -> None:
    make_run("table3/a-h1", "one", scores={"dev": {"bleu": 20.0, "perplexity": 7.5}})
    make_run("table3/base", "unscored", scores={"test": {"bleu": 20.0}})
    measurements = read_measurements(None, Report())
    (table,) = TABLES["table3"](check_claims(measurements), measurements)
    rows = {row[1]: row for row in table.rows}
    ours = ("perplexity>", "ours>", "BLEU>", "ours>")
    assert table.columns[2:9] == ("M parameters>", "ours>", "fitting vocabulary>", *ours)
    assert rows["h=1, d_k=d_v=512"][2:9] == ("-", "63.05", "-", "5.29", "7.500", "24.9", "20.00")
    assert "N=1, d_model=32" in rows["h=1, d_k=d_v=512"][9]
    assert "`zoo evaluate --model runs/unscored --set dev`" in table.rows[0][-1]


def test_own_runs_have_a_cost_and_own_parsers_an_f1(make_run: MakeRun) -> None:
    make_run("tiny", "own", scores={"test": {"bleu": 93.5, "paper_bleu": 93.25}})
    make_run("parsing/tiny", "trees", scores={"test": {"f1": 88.125}})
    measurements = read_measurements(None, Report())
    checked = check_claims(measurements)
    _, costs, _ = TABLES["table2"](checked, measurements)
    assert [row[:4] for row in costs.rows] == [("runs/own", "93.25", "0:12", "2")]
    assert "(50%)" in costs.rows[0][6]
    _, parsers = TABLES["table4"](checked, measurements)
    assert [row[:3] for row in parsers.rows] == [("runs/trees", "-", "88.12")]
