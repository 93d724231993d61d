"""The pages that are files work in a browser: no errors, no other host, accessible, dark and narrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.zoo.serving.test_page import CHROMIUM, needs_chromium, serious
from zoo.visualization.attention import View, attention_page
from zoo.visualization.curves_page import CurveMetric, RunCurves, curves_page

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
pytestmark = [pytest.mark.integration, needs_chromium]
LOCAL = ("file:", "data:")
AXIS = tuple((float(step), float(step), 1.0 / step) for step in range(1, 6))


def test_pages_have_no_errors_and_are_accessible(make_attention: Callable[..., Any], tmp_path: Path) -> None:
    attention = make_attention()
    runs = [RunCurves(name, "It has ended.", {"loss": AXIS}) for name in ("one", "two")]
    sources = {
        "attention": attention_page(attention, View.of(attention), "a-model"),
        "curves": curves_page([CurveMetric("loss", "Training loss", "loss", higher_is_better=False)], runs),
    }
    problems: dict[str, list[str]] = {name: [] for name in sources}
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, source in sources.items():
            (tmp_path / f"{name}.html").write_text(source, "utf-8")
            # the pages forbid all other scripts, and axe is one; the console is read without this exception
            for audited, scheme in ((False, "light"), (True, "light"), (True, "dark")):
                context = browser.new_context(bypass_csp=audited, color_scheme=scheme)
                page, found = context.new_page(), problems[name]
                page.on("console", lambda each, found=found: each.type == "error" and found.append(each.text))
                page.on("pageerror", lambda each, found=found: found.append(str(each)))
                page.on("request", lambda each, found=found: each.url.startswith(LOCAL) or found.append(each.url))
                page.goto((tmp_path / f"{name}.html").as_uri())
                if audited:
                    found += serious(page)
                context.close()
        browser.close()
    assert not any(problems.values()), problems
