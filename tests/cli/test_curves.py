"""`zoo curves` and `zoo watch`."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from cli import watch
from cli.watch import line_plot
from zoo.training.run import Run
from zoo.training.run_status import RunStatus

Zoo = Callable[..., Any]
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


def test_watch_prints_each_entry_once_until_the_training_ends(
    zoo: Zoo, trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(training={"steps": 9, "log_steps": 1})
    write_log(run, range(1, 3))
    looks: list[Callable[[], None]] = [
        lambda: write_log(run, range(1, 5), rest='{"step": 5'),
        lambda: write_log(run, range(1, 3)),  # the run has resumed from step 2
        lambda: write_log(run, range(1, 6), dev_bleu=1.25),
        lambda: stop.set(),
    ]
    stop, started = threading.Event(), threading.Event()

    def train() -> None:
        with run.locked():
            started.set()
            stop.wait(60)

    trainer = threading.Thread(target=train)
    trainer.start()
    started.wait(60)

    def next_look(seconds: float) -> None:
        looks.pop(0)()
        if stop.is_set():
            trainer.join()

    monkeypatch.setattr("cli.watch.time.sleep", next_look)
    try:
        result = zoo("watch", "runs/tiny")
    finally:
        stop.set()
        trainer.join()
    *entries, end = result.out.splitlines()
    assert [int(line.split()[1]) for line in entries] == [2, 3, 4, 1, 2, 3, 4, 5]
    assert "dev BLEU 1.25" in entries[-1]
    assert "left" in entries[0]
    assert "was stopped at step 5 of 9; `zoo train runs/tiny/spec.yaml` resumes it" in end


def test_watch_says_that_a_run_is_not_training(zoo: Zoo, trained: Callable[..., Run]) -> None:
    trained()
    result = zoo("watch", "tiny")
    assert (result.status, result.out.startswith("`tiny` is not training now")) == (0, True), result
    assert zoo("watch", "other").status == 2


def test_the_display_fits_the_terminal(trained: Callable[..., Run]) -> None:
    run = trained(training={"steps": 100})
    for steps in (range(0), range(1, 2), range(1, 60)):
        write_log(run, steps, loss=None) if len(steps) == 1 else write_log(run, steps)
        with run.locked():
            status = RunStatus.read(run.folder)
        for width in (30, 80, 200):
            console = Console(width=width, record=True, file=io.StringIO())
            console.print(watch._view(status, width))
            text = console.export_text()
            assert "tiny: training" in text
            assert max(map(len, text.splitlines())) <= width
    assert "59%" in text


def dots(lines: list[str]) -> int:
    return sum((ord(letter) - 0x2800).bit_count() for line in lines for letter in line if "⠀" <= letter <= "⣿")


def test_plots_go_through_their_points() -> None:
    nan = float("nan")
    falling = line_plot([(0, 8.0), (10, 2.0)], 30, 4, "step")
    assert falling[0].startswith("8 ┤⠉") or falling[0].startswith("8 ┤⠑") or falling[0].startswith("8 ┤⠁")
    assert falling[3].startswith("2 ┤⠀")
    assert falling[-1].split() == ["step", "0", "10"]
    assert dots(falling) >= 16
    assert dots(line_plot([(0, 1.0), (1, nan), (2, 2.0)], 30, 4, "step")) == 2, "a gap"
    assert dots(line_plot([(5, 3.0)], 30, 4, "step")) == 1
    assert line_plot([(5, nan)], 30, 4, "step") == []
    assert len(line_plot([(0, 1.0), (1, 1.0)], 3, 2, "step")) == 4, "too narrow, but no error"
