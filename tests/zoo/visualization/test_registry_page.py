"""The page of a registry lists every model, escapes all text, and gives its script the keys to sort by."""

from __future__ import annotations

import re
from typing import Any

import pytest

from zoo.models.registries.revision import IndexEntry, Summary
from zoo.visualization.registry_page import registry_page

SUMMARY = Summary(
    task="translation",
    source="en",
    target="de",
    parameters=213_000_000,
    metric="BLEU",
    dev=26.1,
    test=28.41,
    description="The big model of Table 3.",
    licence="CC-BY-4.0",
    published="2026-11-20T10:00:00+00:00",
    zoo="0.1.0",
)
MODEL = IndexEntry(name="transformer-big-ende", revision=3, digest="a1" * 32, bytes=1, summary=SUMMARY)


def changed(name: str = MODEL.name, digest: str = MODEL.digest, **summary: Any) -> IndexEntry:
    """Return the model with other values, which are not validated."""
    update = {"name": name, "digest": digest, "summary": SUMMARY.model_copy(update=summary)}
    return MODEL.model_copy(update=update)


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&\"'\x00\u202eé"


def test_every_model_is_a_row_with_its_facts(html_page: Any) -> None:
    models = [MODEL, changed(name="b", test=None), changed(name="c", test=None, dev=None)]
    page = html_page(registry_page(models))
    rows = [attributes for attributes, _ in page.find("tr") if "id" in attributes]
    assert [row["id"] for row in rows] == ["transformer-big-ende", "b", "c"]
    assert rows[0].items() >= {"data-source": "en", "data-target": "de", "data-task": "translation"}.items()
    cells = page.find("td", role="cell")[:6]
    columns = ["Description", "Languages", "Task", "Parameters", "Score", "Published"]
    assert [attributes["data-column"] for attributes, _ in cells] == columns
    assert [text for _, text in cells][1:] == ["en → de", "translation", "213,000,000", "BLEU 28.41 test", "2026-11-20"]
    assert [attributes["data-key"] for attributes, _ in cells][3:] == ["213000000", "28.41", SUMMARY.published]
    assert f'zoo.load("{MODEL.name}@3")' in cells[0][1]
    scores = [(attributes["data-key"], text) for attributes, text in page.find("td", **{"data-column": "Score"})]
    assert scores[1:] == [("26.1", "BLEU 26.10 dev"), ("", "not scored")]


def test_a_multilingual_model_is_found_by_each_of_its_languages(html_page: Any) -> None:
    page = html_page(registry_page([MODEL, changed(name="many", languages=["en", "fr", "es"])]))
    row = page.find("tr", id="many")[0][0]
    assert (row["data-source"], row["data-target"]) == ("en fr es", "en fr es")
    assert page.find("td", **{"data-column": "Languages"})[1][1] == "en, fr, es"
    assert {text for _, text in page.find("option")} >= {"de", "en", "es", "fr"}


@pytest.mark.parametrize("field", ["name", "task", "metric", "description", "licence", "published", "zoo"])
def test_text_of_strangers_is_escaped(html_page: Any, field: str) -> None:
    models = [changed(**{field: HOSTILE}), changed(source=HOSTILE, target=HOSTILE)]
    page = html_page(registry_page(models, HOSTILE))
    assert len(page.find("script")) == 1
    assert not page.find("img")
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
    assert any(shown in text for text in page.texts)


def test_page_loads_nothing(html_page: Any) -> None:
    source = registry_page([MODEL])
    assert not re.search(r"https?:|src=|@import|url\(", source)
    links = [attributes["href"] for _, attributes in html_page(source).elements if "href" in attributes]
    assert all(link.startswith("#") for link in links)


def test_filters_are_offered_for_distinct_values_and_have_labels(html_page: Any) -> None:
    def filters(*models: IndexEntry) -> set[str]:
        return {attributes["name"] for attributes, _ in html_page(registry_page(models)).find("select")}

    assert filters(MODEL, MODEL) == set()
    assert filters(MODEL, changed(target="fr")) == {"target"}
    assert filters(MODEL, changed(source="fr", task="parsing")) == {"source", "task"}
    page = html_page(registry_page([MODEL, changed(source="fr", target="en")]))
    labels = page.find("label")
    assert len(labels) == len(page.find("select")) + len(page.find("input")) == 3
    assert all(text.strip() for _, text in labels)
    assert len(page.find("th", scope="col", role="columnheader")) == 7
    assert len(page.find("th", scope="row", role="rowheader")) == 2


def test_page_of_no_model_and_of_many() -> None:
    assert "contains no models yet" in registry_page([])
    many = registry_page([changed(name=f"model-{number}") for number in range(1_500)])
    assert many.count('<tr role="row" id=') == 1_500
    assert len(many) < 5_000_000
