"""The paper's numbers: what is derived of them is right, and turns where they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import specs
from compiler import Purpose, lower
from zoo.paper import network, recipe, table1, table2, table3, table4
from zoo.paper.claims import CheckedClaim, Finding, Status
from zoo.paper.evidence import Timing, evidence
from zoo.paper.ledger import ledger, summary
from zoo.paper.tables import of_table, tables
from zoo.report import Report

Made = Callable[..., Path]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[CheckedClaim, ...]:
    """Of a place without runs."""
    return ledger(evidence(tmp_path_factory.mktemp("nothing"), Report()))


def test_ten_small_counts_are_of_one_vocabulary_and_big_of_another() -> None:
    assert len(table3.SMALL) == 10
    assert table3.pieces_of_all() == range(41_004, 41_209)
    assert table3.pieces_printing(table3.BY_KEY["big"]) == range(35_368, 36_345)
    for row in table3.COUNTED:
        fit = table3.pieces_printing(row)
        counts = [round(table3.parameters(row.spec, tokens) / 1e6) for tokens in (fit[0], fit[-1])]
        assert counts == [int(row.parameters or 0)] * 2
        beyond = [round(table3.parameters(row.spec, tokens) / 1e6) for tokens in (fit[0] - 1, fit[-1] + 1)]
        assert int(row.parameters or 0) not in beyond


def test_a_wrong_count_turns_the_status(monkeypatch: pytest.MonkeyPatch, entries: tuple[CheckedClaim, ...]) -> None:
    def found(row: table3.VariationRow) -> Finding:
        rows = tuple(row if each.key == row.key else each for each in table3.ROWS)
        monkeypatch.setattr(table3, "ROWS", rows)
        claim = next(claim for claim in table3.claims() if claim.key == f"table3.{row.key}.parameters")
        return claim.check(claim, evidence(None, Report()))

    base = table3.BY_KEY["base"]
    assert found(base).status is Status.OPEN
    assert found(base).because.startswith("not 65: 63,045,632 with 37,000 tokens; 39,841 to 41,793 tokens")
    assert found(replace(base, parameters="63")).status is Status.DERIVED
    assert found(replace(base, parameters="63.05")).status is Status.DERIVED


def test_one_count_more_or_less_and_no_vocabulary_gives_all(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tuple(replace(row, parameters="67") if row.key == "base" else row for row in table3.SMALL)
    assert not table3.pieces_of_all(wrong)
    assert table3.pieces_of_all()


def test_the_papers_costs_are_time_by_devices_by_what_they_sustain(entries: tuple[CheckedClaim, ...]) -> None:
    found = {entry.claim.key: entry.finding for entry in entries}
    assert found["table2.transformer-base.en-de.flops"].value == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert found["table2.transformer-big.en-de.flops"].value == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    assert found["table2.transformer-base.en-de.flops"].status is Status.DERIVED
    assert found["table2.transformer-big.en-fr.flops"].status is Status.DERIVED
    # By the steps of 5.2 base takes 11.1 hours, and costs 3.04e18.
    assert (found["recipe.hours"].status, found["recipe.flops"].status) == (Status.OPEN, Status.OPEN)
    assert (found["recipe.days"].status, found["recipe.flops-big"].status) == (Status.DERIVED, Status.DERIVED)


def test_the_plans_flops_are_steps_of_full_batches() -> None:
    base = table2.planned_flops("base")
    assert base == pytest.approx(100_000 * 3 * 3_428_020_224 * (25_000 // 27), rel=1e-9)
    assert 0.2 < base / 3.3e18 < 0.4


def test_what_all_runs_of_table_3_have_in_common_is_told_once(made: Made) -> None:
    def shown() -> tuple[list[str], tuple[str, ...]]:
        found = evidence(None, Report())
        (table,) = tables("table3", ledger(found), found)
        return [row[-1] for row in table.rows if row[-1] != "-"], table.notes

    scores = {"dev": {"bleu": 20.0}}
    made("table3/base", "one", {"architecture": {"N": 2, "d_ff": 64}}, scores)
    (alone,), notes = shown()
    assert alone == "BLEU of runs/one: N=2, d_ff=64, on the built-in corpus (40), 30 steps"
    assert not any(note.startswith("Measured") for note in notes)
    made("table3/a-h1", "two", {"architecture": {"N": 2, "d_ff": 96}}, scores)
    several, notes = shown()
    assert several == ["BLEU of runs/one: d_ff=64", "BLEU of runs/two: d_ff=96"]
    assert notes[0].startswith("Measured at N=2, on the built-in corpus (40), 30 steps; ")


def test_where_the_paper_contradicts_itself_it_is_told(entries: tuple[CheckedClaim, ...]) -> None:
    wrong = {entry.claim.key for entry in entries if entry.finding.ours == "no"}
    assert wrong == {
        "network.longest-wave",
        "table2.big-cheap-german",
        "table2.ensembles",
        "table2.one-score",
        "table3.bigger-bleu",
        "table4.best",
    }
    true = {entry.claim.key for entry in entries if entry.finding.ours == "yes"}
    assert {"table2.by-two", "table2.quarter", "network.linear-offset", "network.multi-head"} < true


def test_sentences_turn_with_the_numbers_they_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table2._by_two()[0]
    monkeypatch.setattr(table2, "BIG", replace(table2.BIG, german=table2._pair("28.3")))
    assert not table2._by_two()[0]
    assert table4._berkeley()[0]
    rows = [replace(row, f1="90.0") if row.spec == "parsing/wsj" else row for row in table4.ROWS]
    monkeypatch.setattr(table4, "ROWS", rows)
    assert not table4._berkeley()[0]
    monkeypatch.setitem(table3.BY_KEY, "e-learned", replace(table3.BY_KEY["e-learned"], bleu="25.1"))
    assert not table3._learned()[0]


def test_a_network_that_is_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    smaller = network.graph("table3/c-n2")
    monkeypatch.setattr(network, "graph", lambda spec: smaller)
    claim = next(claim for claim in network.claims() if claim.key == "network.encoder")
    found = claim.check(claim, evidence(None, Report()))
    assert (found.status, found.value) == (Status.OPEN, 2)
    for key, override in (("d_k", "d_v=32"), ("h", "h=16")):
        other = lower(specs.load("base", [f"architecture.{override}"]), Purpose.TRAIN)
        monkeypatch.setattr(network, "graph", lambda spec, other=other: other)
        claim = next(claim for claim in network.claims() if claim.key == f"network.{key}")
        assert claim.check(claim, evidence(None, Report())).status is Status.OPEN, key
    monkeypatch.setattr(network, "encoding", lambda position, width: [0.1 * position] * width)
    assert not network._linear()[0]


def test_what_a_spec_sets_is_read_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    load = specs.load
    monkeypatch.setattr(specs, "load", lambda name, over=(): load(name, over or ["training.warmup_steps=8000"]))
    claims = {claim.key: claim for claim in recipe.claims()}
    found = {key: claims[key].check(claims[key], evidence(None, Report())) for key in ("recipe.warmup", "recipe.beta2")}
    assert {key: finding.status for key, finding in found.items()} == {
        "recipe.warmup": Status.OPEN,
        "recipe.beta2": Status.DERIVED,
    }


def test_table_1_is_what_the_graphs_say(entries: tuple[CheckedClaim, ...]) -> None:
    told = {entry.claim.key: entry.finding for entry in entries if entry.claim.key.startswith("table1.")}
    assert len(told) == 4 * len(table1.LAYERS) + 3
    derived = {key for key in told if not key.endswith(".time")}
    assert {key for key in derived if told[key].status is not Status.DERIVED} == set()
    assert all(told[f"table1.{kind.key}.time"].because.startswith("not timed") for kind in table1.LAYERS)


def test_a_kind_that_grows_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(table1.SELF_ATTENTION, sublayer=table1.RESTRICTED.sublayer)
    assert not table1._grows(wrong)()[0]
    assert not table1._reaches(wrong)()[0]
    assert not table1._waits(replace(wrong, sublayer=table1.LSTM.sublayer))()[0]


@pytest.mark.parametrize(("power", "status"), [(1.9, Status.MEASURED), (1.7, Status.OPEN)])
def test_times_are_held_against_the_formula(power: float, status: Status) -> None:
    timing = Timing("self-attention", ((1024, 0.1), (2048, 0.4)), power, 2.0)
    claim = next(claim for claim in table1.claims() if claim.key == "table1.self-attention.time")
    measured = replace(evidence(None, Report()), timings=(timing,))
    found = claim.check(claim, measured)
    assert (found.status, found.ours) == (status, f"n^{power:.2f}")
    counted, timed = tables("table1", ledger(measured), measured)
    assert len(counted.rows) == len(table1.LAYERS)
    assert timed.columns == ("layer", "n = 1,024>", "n = 2,048>", "grows as>", "the formula>")
    assert [row[1:] for row in timed.rows] == [("100.0", "400.0", f"n^{power:.2f}", "n^2.00")]


def test_table_3_stands_beside_what_was_measured(made: Made) -> None:
    made("table3/a-h1", "one", scores={"dev": {"bleu": 20.0, "perplexity": 7.5}})
    known = evidence(None, Report())
    (table,) = tables("table3", ledger(known), known)
    rows = {row[1]: row for row in table.rows}
    assert table.columns[2:9] == (
        *("M parameters>", "ours>", "as printed with tokens>"),
        *("perplexity>", "ours>", "BLEU>", "ours>"),
    )
    assert rows["h=1, d_k=d_v=512"][2:9] == ("-", "63.05", "-", "5.29", "7.500", "24.9", "20.00")
    assert "N=1, d_model=32" in rows["h=1, d_k=d_v=512"][9]
    assert rows["N=2"][2:] == ("36", "33.64", "40,624 to 42,577", "6.11", "-", "23.7", "-", "-")


def test_our_own_runs_have_their_cost_and_parsers_their_f1(made: Made) -> None:
    made("tiny", "mine", scores={"test": {"bleu": 93.5, "paper_bleu": 93.25}})
    made("parsing/tiny", "trees", scores={"test": {"f1": 88.125}})
    known = evidence(None, Report())
    found = ledger(known)
    _, costs = tables("table2", found, known)
    assert [row[:4] for row in costs.rows] == [("runs/mine", "93.25", "0:12", "2")]
    assert "(50%)" in costs.rows[0][6]
    _, parsers = tables("table4", found, known)
    assert [row[:3] for row in parsers.rows] == [("runs/trees", "-", "88.12")]


def test_every_claim_is_in_a_table_and_counted(entries: tuple[CheckedClaim, ...]) -> None:
    assert sum(summary(entries).values()) == len(entries)
    assert of_table("claims", entries) == entries
    assert {entry.claim.key.partition(".")[0] for entry in of_table("table2", entries)} == {"table2"}


def test_an_ensemble_costs_what_its_runs_do(made: Made) -> None:
    scores = {"test": {"bleu": 20.0, "signature": "s", "sentences": 5}}
    for seed in (1, 2):
        made("base", f"base.seed{seed}", scores=scores)
    file = Path("runs/base.seed1/ensembles.json")
    members = [{"run": f"../base.seed{seed}", "digest": None} for seed in (1, 2)]
    better = {"test": {**scores["test"], "bleu": 22.0}}
    file.write_text(json.dumps({"ensembles": [{"members": members, "scores": better}]}), encoding="utf-8")
    first, both, second = table2.own(evidence(None, Report()))
    assert (first.bleu, both.bleu, second.bleu) == (20.0, 22.0, 20.0)
    assert both.folder == "runs/base.seed1 + runs/base.seed2"
    for what in ("seconds", "priced", "flops"):
        assert getattr(both, what) == getattr(first, what) + getattr(second, what) > 0
    assert (both.devices, both.peak) == (first.devices, first.peak)
