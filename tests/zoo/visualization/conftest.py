"""An attention with known weights, and a reader of HTML pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.generation.attention import Attention

VOID_ELEMENTS = {"meta", "br", "input", "link", "img", "hr"}


class HtmlPage(HTMLParser):
    """The elements of a page with their text. Fails if the elements are not properly nested."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in VOID_ELEMENTS:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for index in self.open:
            self.texts[index] += data

    def find(self, tag: str, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        """Return attributes and text of all elements with this tag and these attributes."""
        return [
            (present, text)
            for (name, present), text in zip(self.elements, self.texts, strict=True)
            if name == tag and attributes.items() <= present.items()
        ]


@pytest.fixture
def html_page() -> type[HtmlPage]:
    return HtmlPage


@pytest.fixture
def make_attention() -> Callable[..., Attention]:
    """A function that makes an attention with random weights: words of several tokens, three heads."""

    def make(
        text: str = "the big dog",
        source: Sequence[str] = ("▁the", "▁b", "ig", "▁dog"),
        layers: int = 2,
        heads: int = 3,
    ) -> Attention:
        generator = torch.Generator().manual_seed(1)

        def weights(layers: int, rows: int, columns: int) -> Tensor:
            return (4 * torch.randn(layers, heads, rows, columns, generator=generator)).softmax(-1)

        fields: dict[str, Any] = {
            "target_input": ("<s>", "▁Hund"),
            "target": ("▁Hund", "</s>"),
            "source": (*source, "</s>"),
        }
        size = len(fields["source"])
        return Attention(
            text=text,
            translation="Hund",
            forced=True,
            log_probability=-1.25,
            encoder=weights(layers, size, size),
            decoder=weights(1, 2, 2),
            cross=weights(1, 2, size),
            backend="eager",
            precision="float32",
            **fields,
        )

    return make
