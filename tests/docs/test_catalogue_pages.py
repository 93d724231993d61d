"""Every card of the catalogue has a page, and links between the pages lead somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from zoo.models.catalogue import packaged

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    """The module that MkDocs imports by path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        patch.delitem(sys.modules, "catalogue", raising=False)
        import catalogue

        return catalogue


def test_every_card_has_a_page_with_its_source_and_licence(catalogue: ModuleType) -> None:
    pages = catalogue.pages()
    assert len(pages) == len(packaged()) + 1
    for card in packaged():
        page = pages[catalogue.path_of(card)]
        assert catalogue.title_of(card) in pages["catalogue/index.md"]
        for fact in (card.source, card.licence, card.facts.date, *card.differences):
            assert fact in page


def test_links_between_the_pages_lead_somewhere(catalogue: ModuleType) -> None:
    pages = catalogue.pages()
    for page in pages.values():
        for link in re.findall(r"\]\(([\w.-]+\.md)[#)]", page):
            assert f"catalogue/{link}" in pages


def test_commands_of_a_page_name_a_model(catalogue: ModuleType) -> None:
    page = catalogue.pages()["catalogue/opus-mt.md"]
    assert "zoo pull opus-mt-en-de\nzoo decode --model opus-mt-en-de < input.txt" in page
    assert "| de | " in page
    page = catalogue.pages()["catalogue/nllb-200-3.3B.md"]
    assert "zoo decode --model nllb-200-3.3B --from eng_Latn --to deu_Latn < input.txt" in page
