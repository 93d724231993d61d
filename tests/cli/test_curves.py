"""`zoo curves`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import Trained, Zoo, missing
from tests.zoo.training.test_run_status import entry, write_log


def test_curves_of_two_runs(zoo: Zoo, trained: Trained) -> None:
    write_log(trained("runs/one"), *map(entry, range(1, 80)), rest='{"step": 80, "lo')
    write_log(trained("runs/<two>"), *(entry(step, dev_bleu=3.5) for step in range(1, 5)))
    assert zoo("curves", "one", "runs/<two>").printed == ""
    page = Path("curves.html").read_text(encoding="utf-8")
    assert missing(page, '<h2 id="dev_bleu">Dev BLEU</h2>', "&lt;two&gt;", ">Speed (tokens/s)<", "<two>") == ["<two>"]
    assert not re.search(r"https?://(?!www\.w3\.org)|<script", page)
    assert page.count('<svg class="plot"') == 2 * 5
    assert zoo("curves", "one", "-o", "one.html").status == 0
    assert Path("one.html").read_text(encoding="utf-8").count("<polyline") == 2 * 4
