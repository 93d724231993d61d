"""The page of an attention holds every weight, in order, and words that are only words."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import torch

from zoo.generation.attention import Attention
from zoo.visualization.attention import STEPS, attention_page
from zoo.visualization.view import KINDS, View

Made = Callable[..., Attention]


class Page(HTMLParser):
    """The elements of a page, and what its scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts[self.script] = ""

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[self.script] += data
        self.words += data

    @property
    def script(self) -> str:
        """The last script that began, by its id."""
        return self.elements[-1][1].get("id") or "own"

    @property
    def data(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.scripts["data"])
        return read


def of(found: Attention, **asked: Any) -> Page:
    return Page(attention_page(found, View.of(found, **asked), "a-model"))


def test_every_weight_is_there(attended: Made) -> None:
    found = attended()
    page = of(found)
    weights = torch.frombuffer(bytearray(zlib.decompress(b64decode(page.scripts["weights"]))), dtype=torch.uint8)
    assert [each["name"] for each in page.data["kinds"]] == list(KINDS)
    seen = 0
    for each in page.data["kinds"]:
        for unit, units in (("words", found.by_words()), ("tokens", found)):
            expected, rows, columns = KINDS[each["name"]].of(units)
            told = each[unit]
            assert (told["rows"], told["columns"]) == (list(rows), list(columns))
            assert (each["layers"], each["heads"]) == expected.shape[:2]
            mine = weights[told["at"] : told["at"] + expected.numel()].view(expected.shape) / STEPS
            assert (mine - expected).abs().max() <= 0.5 / STEPS + 1e-6
            seen += expected.numel()
    assert seen == len(weights)


def test_what_is_asked_for_is_chosen_first(attended: Made) -> None:
    first = of(attended(), kind="encoder", layer=2, heads=[3, 1], word="dog").data["first"]
    assert first == {"kind": "encoder", "layer": 2, "heads": [2, 0], "word": 2}


def test_its_script_finds_what_it_looks_for(attended: Made) -> None:
    page = of(attended())
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r'byId\("([^"]+)"\)', page.scripts["own"]))
    assert wanted | {"data", "rows", "columns"} <= set(ids)
    named = {given.get("name") for tag, given in page.elements if tag == "input"}
    assert named == {"kind", "head", "unit"}
    assert [given["value"] for tag, given in page.elements if given.get("name") == "kind"] == list(KINDS)


def test_who_hears_it_is_told_as_much(attended: Made) -> None:
    page = of(attended())
    lists = [given for _, given in page.elements if given.get("role") == "listbox"]
    assert [(given["id"], given["tabindex"]) for given in lists] == [("rows", "0"), ("columns", "0")]
    assert [given["aria-label"] for _, given in page.elements if given.get("name") == "head"] == [
        "head 1",
        "head 2",
        "head 3",
    ]
    assert any(given.get("role") == "status" for _, given in page.elements)
    assert sum(tag == "legend" for tag, _ in page.elements) == sum(tag == "fieldset" for tag, _ in page.elements) == 3
    assert [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)] == ["h1", "h2", "h2"]


def test_it_says_which_translation_was_attended_and_what_computed_it(attended: Made) -> None:
    words = of(attended()).words
    assert "the translation that was given, whose log-probability is -1.25" in words
    assert "by the backend eager in float32" in words
    assert "Attention of a-model" in words


def test_words_of_html_are_words(attended: Made) -> None:
    evil = "</script><script>alert(1)</script>"
    page = of(attended(evil, [f"▁{evil}", "▁<!--", "▁\u202edog"]))
    assert sum(tag == "script" for tag, _ in page.elements) == 3
    assert page.data["kinds"][0]["words"]["rows"] == [evil, "<!--", "\ufffddog", "</s>"]


def test_a_model_without_some_attention_has_no_choice_of_it(attended: Made) -> None:
    page = of(attended(layers=0))
    assert [each["name"] for each in page.data["kinds"]] == ["decoder", "encoder-decoder"]
