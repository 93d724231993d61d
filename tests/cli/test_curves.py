"""`zoo curves`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from tests.conftest import Zoo
from zoo.training.run import Run

SPEEDS = {"source_tokens_per_second": 100.0, "target_tokens_per_second": 2000.0, "utilisation": 0.5}


def write_log(run: Run, steps: range, rest: str = "", **more: object) -> None:
    entries = [
        {"step": step, "seconds": 2.0 * step, **SPEEDS, "loss": 9.0 / step, "perplexity": 90.0 / step, **more}
        for step in steps
    ]
    run.log.write_text("".join(f"{json.dumps(each)}\n" for each in entries) + rest, encoding="utf-8")


def test_curves_of_two_runs(zoo: Zoo, trained: Callable[..., Run]) -> None:
    write_log(trained("runs/one"), range(1, 80), rest='{"step": 80, "lo')
    write_log(trained("runs/<two>"), range(1, 5), dev_bleu=3.5)
    result = zoo("curves", "one", "runs/<two>")
    assert (result.status, result.out) == (0, ""), result.err
    page = Path("curves.html").read_text(encoding="utf-8")
    assert '<h2 id="dev_bleu">Dev BLEU</h2>' in page
    assert "&lt;two&gt;" in page
    assert "<two>" not in page
    assert not re.search(r"https?://(?!www\.w3\.org)|<script", page)
    assert page.count('<svg class="plot"') == 2 * 4
    assert zoo("curves", "one", "-o", "one.svg").status == 0
    svg = ElementTree.parse("one.svg").getroot()
    assert len([each for each in svg.iter() if each.tag.endswith("polyline")]) == 2 * 3
    assert "var(" not in Path("one.svg").read_text(encoding="utf-8")


def test_curves_errors_say_what_to_do(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained("runs/one")
    for arguments in (["one"], ["other"], ["one", "-o", "a.png"], []):
        result = zoo("curves", *arguments)
        assert (result.status, "hint: " in result.err) == (2, True), result.err
    assert not list(Path().glob("curves*"))
