"""`zoo attend`."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.conftest import Trained, Zoo
from zoo.visualization.attention import FIGURES

TEXT = "the old dog sees"


@pytest.fixture(autouse=True)
def _trained(trained: Trained) -> None:
    trained()


def read_page() -> str:
    return Path("a.html").read_text(encoding="utf-8")


def test_a_page_and_a_drawing_are_written(zoo: Zoo) -> None:
    Path("a.html").write_text("before")
    result = zoo("attend", "--model", "runs/tiny", TEXT, "-o", "a.html", "--svg", "a.svg", "--target", "der alte Hund")
    assert (result.status, result.out) == (0, "")
    assert "attention for the given output, `der alte Hund`, computed by eager in float32" in result.err
    assert read_page().startswith("<!doctype html>")
    assert f"<bdi>{TEXT}</bdi>" in read_page()
    ElementTree.parse("a.svg")
    result = zoo("attend", "--model", "runs/tiny", TEXT, "--output", "a.html")
    assert (result.status, "the model's own output" in result.err) == (0, True)


def test_figures_of_the_paper(zoo: Zoo, trained: Trained) -> None:
    assert zoo("attend", "--model", "runs/tiny", "--figure", "3", "--svg", "a.svg").status == 0
    assert "making" in Path("a.svg").read_text(encoding="utf-8")
    options = ("--figure", "4", "-o", "a.html")
    assert zoo("attend", "--model", "runs/tiny", *options, "--layer", "2", "--head", "1").status == 0
    assert re.search(r'"layer":2,"heads":\[0\],"word":\d', read_page()), "the figure's word, in the selected layer"
    assert FIGURES[4].sentence in read_page()
    assert zoo("attend", "--model", "runs/tiny", *options, "--attention", "decoder").status == 0
    assert '"word":null' in read_page()
    trained("runs/deep", **{"architecture.N": {"encoder": 6, "decoder": 2}})
    result = zoo("attend", "--model", "runs/deep", *options, "--attention", "encoder-decoder")
    assert (result.status, '"layer":1' in read_page()) == (0, True), result.err


def test_invalid_selections_write_nothing(zoo: Zoo) -> None:
    texts = ["", "-o", "a.html"], ["a\nb", "-o", "a.html"]
    files = [TEXT, "-o", "."], [TEXT, "-o", "none/a.html"], [TEXT, "--svg", "a.png"]
    choices = ("--layer", "3"), ("--head", "3"), ("--word", "cat"), ("--attention", "both"), ("--figure", "6")
    for arguments in (*texts, *files, *([TEXT, "-o", "a.html", *choice] for choice in choices)):
        assert "hint: " in zoo("attend", "--model", "runs/tiny", *arguments).refusal, arguments
        assert not list(Path().glob("*.html")) + list(Path().glob("*.svg")) + list(Path().glob("*partial*"))


def test_the_spectrogram_is_shown_with_the_attention_of_a_sound(zoo: Zoo, hearing: Trained) -> None:
    soundfile = pytest.importorskip("soundfile")
    hearing()
    soundfile.write("a.wav", np.sin(np.arange(48_000) / 3) * np.linspace(0, 1, 48_000), 16_000)
    assert zoo("attend", "--model", "runs/hearing", "a.wav", "--target", "wir lesen", "-o", "a.html").printed == ""
    data = json.loads(re.search(r'id="data">(.*?)</script>', read_page())[1])
    cross = data["kinds"][-1]
    assert data["first"]["kind"] == cross["name"] == "encoder-decoder"
    assert cross["overSource"] is True
    png = base64.b64decode(data["picture"].removeprefix("data:image/png;base64,"))
    size = struct.unpack(">II", png[16:24])
    assert (size, png[-8:-4]) == ((298, 16), b"IEND"), "a column per frame, a row per filter"
    tokens, words = (cross[unit]["columns"] for unit in ("tokens", "words"))
    assert (len(tokens), len(words)) == (75, 38), "4 and 8 frames each"
    assert words[:3] == ["0.00 s", "0.08 s", "0.16 s"]
    Path("b.wav").write_bytes(b"no sound")
    assert zoo("attend", "--model", "runs/hearing", "b.wav", "-o", "a.html").status == 2
