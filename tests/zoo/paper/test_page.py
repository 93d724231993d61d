"""The report is one file that any browser reads: whole, escaped, with nothing to fetch."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

from zoo.paper.evidence import evidence
from zoo.paper.ledger import ledger
from zoo.paper.page import paper_page
from zoo.paper.plots import all_plots
from zoo.report import Report

Made = Callable[..., Path]
VOID = {"meta", "input"}


class Reader(HTMLParser):
    """What is open must be closed in turn."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_refers_to_nothing_outside(made: Made) -> None:
    made("table3/a-h1", "one", scores={"dev": {"bleu": 20.0, "perplexity": 7.5}})
    known = evidence(None, Report())
    entries = ledger(known)
    source = paper_page(entries, known)
    tags = Reader(source).tags
    ids = [given["id"] for _, given in tags if "id" in given]
    assert len(ids) == len(set(ids))
    links = [given["href"] or "" for tag, given in tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"https?:|@import|url\(|<script|<link|<img", source)
    assert len([tag for tag, given in tags if tag == "tr" and "claim" in (given.get("class") or "")]) == len(entries)
    titles = [given for tag, given in tags if tag == "svg"]
    assert len(titles) == 8  # two of them of our own run
    assert all(set((given["aria-labelledby"] or "").split()) <= set(ids) for given in titles)


def test_without_runs_nothing_of_ours_is_drawn() -> None:
    known = evidence(None, Report())
    assert "our runs" not in paper_page(ledger(known), known)


def test_what_runs_say_of_themselves_is_only_words(made: Made) -> None:
    made("table3/a-h1", "<b>&amp;'\"<script>", scores={"dev": {"bleu": 20.0}})
    known = evidence(None, Report())
    source = paper_page(ledger(known), known)
    Reader(source)
    assert "<script" not in source
    assert "&lt;b&gt;&amp;amp;" in source


def test_the_plots_of_our_runs_are_of_what_the_table_says(made: Made) -> None:
    for number, score in enumerate((20.0, 22.0)):
        scores = {"dev": {"bleu": 90.0, "paper_bleu": score, "perplexity": 7.5}}
        made("table3/a-h1", f"{number}", scores=scores)
    made("table3/a-h1", "shorter", log=(), scores={"dev": {"bleu": 3.0}})
    known = evidence(None, Report())
    entries = ledger(known)
    found = next(entry.finding for entry in entries if entry.claim.key == "table3.a-h1.bleu")
    ours = [plot for plot in all_plots(entries, known) if "our runs" in plot.title]
    assert [[y for series in plot.series for _, y in series.points] for plot in ours] == [[7.5], [found.value]]
    assert found.value == 21.0
