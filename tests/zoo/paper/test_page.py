"""The page is a single valid HTML file without references to others, and shows what the tables say."""

from __future__ import annotations

import re

import pytest

from tests.zoo.conftest import HtmlPage
from tests.zoo.paper.conftest import MakeRun
from zoo.paper.claims import check_claims
from zoo.paper.page import all_plots, paper_page
from zoo.paper.runs import read_measurements
from zoo.report import Report

pytestmark = pytest.mark.integration


def test_page_is_valid_and_self_contained(make_run: MakeRun) -> None:
    """Names of runs are escaped, and the plots of our runs show what Table 3 says."""
    for number, score in enumerate((20.0, 22.0)):
        scores = {"dev": {"bleu": 90.0, "paper_bleu": score, "perplexity": 7.5}}
        make_run("table3/a-h1", f"<b>&amp;'\"<script>{number}", scores=scores)
    make_run("table3/a-h1", "shorter", log=(), scores={"dev": {"bleu": 3.0}})
    measurements = read_measurements(None, Report())
    checked = check_claims(measurements)
    source = paper_page(checked, measurements)
    tags = HtmlPage(source).elements
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for tag, attributes in tags if tag == "a"} <= {f"#{id}" for id in ids}
    assert not re.search(r"https?:|@import|url\(|<script|<link|<img", source)
    assert "&lt;b&gt;&amp;amp;" in source
    rows = [tag for tag, attributes in tags if tag == "tr" and "claim" in (attributes.get("class") or "")]
    assert len(rows) == len(checked)
    drawings = [attributes for tag, attributes in tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) == 8, "two of them show our own runs"
    assert all(set((attributes["aria-labelledby"] or "").split()) <= set(ids) for attributes in drawings)
    assert checked["table3.a-h1.bleu"].value == 21.0
    ours = [plot for plot in all_plots(checked, measurements) if "our runs" in plot.title]
    assert [[y for series in plot.series for _, y in series.points] for plot in ours] == [[7.5], [21.0]]
