"""`zoo attend`."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.conftest import Zoo
from zoo.training.run import Run
from zoo.visualization.attention import FIGURES

TEXT = "the old dog sees"


@pytest.fixture(autouse=True)
def run(trained: Callable[..., Run]) -> Run:
    return trained()


def test_a_page_and_a_drawing_are_written(zoo: Zoo) -> None:
    Path("a.html").write_text("before")
    result = zoo("attend", "--model", "runs/tiny", TEXT, "-o", "a.html", "--svg", "a.svg", "--target", "der alte Hund")
    assert (result.status, result.out) == (0, "")
    assert "attention for the given output, `der alte Hund`, computed by eager in float32" in result.err
    page = Path("a.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert f"<bdi>{TEXT}</bdi>" in page
    ElementTree.parse("a.svg")
    result = zoo("attend", "--model", "runs/tiny", TEXT, "--output", "a.html")
    assert (result.status, "the model's own output" in result.err) == (0, True)


def test_figures_of_the_paper(zoo: Zoo, trained: Callable[..., Run]) -> None:
    assert zoo("attend", "--model", "runs/tiny", "--figure", "3", "--svg", "a.svg").status == 0
    assert "making" in Path("a.svg").read_text(encoding="utf-8")
    options = ("--figure", "4", "-o", "a.html")
    assert zoo("attend", "--model", "runs/tiny", *options, "--layer", "2", "--head", "1").status == 0
    page = Path("a.html").read_text(encoding="utf-8")
    assert re.search(r'"layer":2,"heads":\[0\],"word":\d', page), "the figure's word, in the selected layer"
    assert FIGURES[4].sentence in page
    assert zoo("attend", "--model", "runs/tiny", *options, "--attention", "decoder").status == 0
    assert '"word":null' in Path("a.html").read_text(encoding="utf-8")
    shape = {"N": {"encoder": 6, "decoder": 2}, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4}
    deep = trained("runs/deep", architecture=shape)
    result = zoo("attend", "--model", str(deep.folder), *options, "--attention", "encoder-decoder")
    assert (result.status, '"layer":1' in Path("a.html").read_text(encoding="utf-8")) == (0, True), result.err


def test_invalid_selections_write_nothing(zoo: Zoo) -> None:
    for arguments in (
        ["", "-o", "a.html"],
        ["a\nb", "-o", "a.html"],
        [TEXT, "-o", "."],
        [TEXT, "-o", "none/a.html"],
        [TEXT, "--svg", "a.png"],
        [TEXT, "-o", "a.html", "--layer", "3"],
        [TEXT, "-o", "a.html", "--head", "3"],
        [TEXT, "-o", "a.html", "--word", "cat"],
        [TEXT, "-o", "a.html", "--attention", "both"],
        [TEXT, "-o", "a.html", "--figure", "6"],
    ):
        assert "hint: " in zoo("attend", "--model", "runs/tiny", *arguments).refusal, arguments
        assert not list(Path().glob("*.html")) + list(Path().glob("*.svg")) + list(Path().glob("*partial*"))


def test_the_spectrogram_is_shown_with_the_attention_of_a_sound(zoo: Zoo, hearing: Callable[..., Run]) -> None:
    soundfile = pytest.importorskip("soundfile")
    hearing()
    soundfile.write("a.wav", np.sin(np.arange(48_000) / 3) * np.linspace(0, 1, 48_000), 16_000)
    result = zoo("attend", "--model", "runs/hearing", "a.wav", "--target", "wir lesen", "-o", "a.html")
    assert result.status == 0, result.err
    page = Path("a.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["first"]["kind"] == "encoder-decoder"
    assert {each["name"]: each["overSource"] for each in data["kinds"]}["encoder-decoder"] is True
    png = base64.b64decode(data["picture"].removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height, png[-8:-4]) == (298, 16, b"IEND"), "a column per frame, a row per filter"
    cross = data["kinds"][-1]
    assert len(cross["tokens"]["columns"]) == 75, "of 4 frames each"
    assert cross["words"]["columns"][:3] == ["0.00 s", "0.08 s", "0.16 s"]
    assert len(cross["words"]["columns"]) == 38
    Path("b.wav").write_bytes(b"no sound")
    assert zoo("attend", "--model", "runs/hearing", "b.wav", "-o", "a.html").status == 2
