"""Every card of the catalogue has a page, and links between the pages lead somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import missing
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
        assert catalogue.title_of(card) in pages["catalogue/index.md"]
        facts = card.source, card.licence, card.facts.date, *card.differences
        assert not missing(pages[catalogue.path_of(card)], *facts)


def test_links_between_the_pages_lead_somewhere(catalogue: ModuleType) -> None:
    pages = catalogue.pages()
    for page in pages.values():
        for link in re.findall(r"\]\(([\w.-]+\.md)[#)]", page):
            assert f"catalogue/{link}" in pages


def test_commands_of_a_page_name_a_model(catalogue: ModuleType) -> None:
    pages, command = catalogue.pages(), "zoo pull opus-mt-en-de\nzoo decode --model opus-mt-en-de < input.txt"
    assert not missing(pages["catalogue/opus-mt.md"], command, "| de | ")
    command = "zoo decode --model nllb-200-3.3B --from eng_Latn --to deu_Latn < input.txt"
    assert command in pages["catalogue/nllb-200-3.3B.md"]
