"""The page of a registry: every model once, words that are only words, keys that the page's script sorts by."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from zoo.visualization.index import Listed, index_page

ONE = Listed(
    name="transformer-big-ende",
    revision=3,
    digest="a1" * 32,
    task="translation",
    languages=("en", "de"),
    parameters=213_000_000,
    metric="BLEU",
    dev=26.1,
    test=28.41,
    description="The big model of Table 3.",
    licence="CC-BY-4.0",
    when="2026-11-20T10:00:00+00:00",
    by="0.1.0",
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&\"'\x00\u202eé"
VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """Elements with what each says, and every one that is opened closed in turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.words.append("")
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.words[place] += data

    def of(self, tag: str, **wanted: str) -> list[tuple[dict[str, str | None], str]]:
        """The elements of a kind with these attributes, and the words in each."""
        return [
            (given, said)
            for (kind, given), said in zip(self.elements, self.words, strict=True)
            if kind == tag and wanted.items() <= given.items()
        ]


def rows(page: Page) -> list[dict[str, str | None]]:
    return [given for given, _ in page.of("tr") if "id" in given]


def test_every_model_is_a_row_with_all_that_is_told_of_it() -> None:
    page = Page(index_page([ONE, replace(ONE, name="b", test=None), replace(ONE, name="c", test=None, dev=None)]))
    assert [row["id"] for row in rows(page)] == ["transformer-big-ende", "b", "c"]
    assert rows(page)[0] == {
        "role": "row",
        "id": ONE.name,
        "data-source": "en",
        "data-target": "de",
        "data-task": "translation",
    }
    cells = page.of("td", role="cell")[:6]
    assert [cell["data-called"] for cell, _ in cells] == [
        *("What it is", "Languages", "Task", "Parameters", "Score", "Published")
    ]
    assert [said for _, said in cells][1:] == ["en → de", "translation", "213,000,000", "BLEU 28.41 test", "2026-11-20"]
    assert [cell["data-key"] for cell, _ in cells][3:] == ["213000000", "28.41", ONE.when]
    assert f'zoo.load("{ONE.name}@3")' in cells[0][1]
    assert f'zoo.load("{ONE.name}@sha256:{ONE.digest}")' in cells[0][1]
    scores = page.of("td", **{"data-called": "Score"})
    assert [(cell["data-key"], said) for cell, said in scores[1:]] == [("26.1", "BLEU 26.10 dev"), ("", "not scored")]


@pytest.mark.parametrize("field", ["name", "digest", "task", "metric", "description", "licence", "when", "by"])
def test_a_strangers_words_are_only_words(field: str) -> None:
    page = Page(index_page([replace(ONE, **{field: HOSTILE}), replace(ONE, languages=(HOSTILE, HOSTILE))], HOSTILE))
    assert len(page.of("script")) == 1, "the page's own"
    assert not page.of("img")
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
    assert any(shown in said for said in page.words)


def test_it_is_one_file_that_asks_for_no_other() -> None:
    made = index_page([ONE])
    assert not re.search(r"https?:|src=|@import|url\(", made)
    assert not [href for _, given in Page(made).elements if (href := given.get("href")) and not href.startswith("#")]


def test_a_choice_is_offered_where_there_is_one() -> None:
    def offered(*models: Listed) -> dict[str | None, int]:
        page = Page(index_page(models))
        return {select["name"]: said.count("all") for select, said in page.of("select")}

    assert offered(ONE, ONE) == {}
    assert offered(ONE, replace(ONE, languages=("en", "fr"))) == {"target": 1}
    assert set(offered(ONE, replace(ONE, languages=("fr",), task="parsing"))) == {"source", "task"}


def test_each_control_has_a_name_and_the_table_its_roles() -> None:
    page = Page(index_page([ONE, replace(ONE, languages=("fr", "en"))]))
    labels = page.of("label")
    controls = [tag for tag, _ in page.elements if tag in ("select", "input")]
    assert len(labels) == len(controls) == 3
    assert all(said.strip() for _, said in labels)
    assert len(page.of("th", scope="col", role="columnheader")) == 7
    assert len(page.of("th", scope="row", role="rowheader")) == 2
    assert len(page.of("p", role="status")) == 1


def test_a_registry_without_models_says_so() -> None:
    assert "Nothing has been published here yet" in index_page([])


def test_many_models_are_one_page() -> None:
    models = [replace(ONE, name=f"model-{number}") for number in range(1_500)]
    made = index_page(models)
    assert made.count('<tr role="row" id=') == 1_500
    assert len(made) < 5_000_000
