"""Stand-ins for a model: they copy, reverse or shuffle words, and know the alignment of each word."""

from __future__ import annotations

import io
import random
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from zoo.documents.document import Document, TextFile
from zoo.documents.fragments import Format
from zoo.generation.alignment import AlignedToken

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


class Shuffle:
    """Translator that writes the words in upper case, in an order that depends on the seed and the text.

    Without a seed, the order is reversed. With seed 0, the first two words change places. If `faithful` is False, some
    words are left out, and some are repeated. Punctuation follows the word before it without a space.
    """

    def __init__(self, seed: int | None = None, *, faithful: bool = True) -> None:
        self.seed, self.faithful = seed, faithful
        self.alignments: dict[tuple[str, str], list[AlignedToken]] = {}

    def translate(self, text: str) -> str:
        order = spans(text)
        if self.seed is None:
            order.reverse()
        elif self.seed == 0:
            order = order[1:2] + order[:1] + order[2:]
        else:
            generator = random.Random(f"{self.seed} {text}")
            generator.shuffle(order)
            if not self.faithful:
                order = [each for each in order if generator.random() < 0.8] + order[:1]
        target, tokens = "", []
        for start, end in order:
            word = text[start:end].upper()
            target += " " * bool(target and (word[0].isalnum() or self.seed is None)) + word
            tokens.append(AlignedToken((len(target) - len(word), len(target)), (start, end), 1.0))
        self.alignments[text, target] = tokens
        return target

    def translate_all(self, texts: list[str]) -> list[str]:
        return [self.translate(text) for text in texts]

    def align(self, sources: list[str], targets: list[str]) -> list[list[AlignedToken]]:
        return [self.alignments[pair] for pair in zip(sources, targets, strict=True)]


def texts(text: str, form: Format) -> list[str]:
    return [segment.text for segment in TextFile(text, form).segments]


def render(text: str, form: Format, model: Shuffle | None = None, language: str | None = None) -> str:
    """Return the translation of a text file. Without a model, every text is copied, and nothing is aligned."""
    result: str = _translate(TextFile(text, form), model, language)
    return result


def translate(content: bytes, name: str, model: Shuffle | None = None, language: str | None = None) -> bytes:
    """Return the translation of a document (see `render`)."""
    result: bytes = _translate(Document(content, name), model, language)
    return result


def _translate(document: Document | TextFile, model: Shuffle | None, language: str | None) -> Any:
    sources = [segment.text for segment in document.segments]
    if model is None:
        return document.render(((source, []) for source in sources), language)
    targets = model.translate_all(sources)
    return document.render(zip(targets, model.align(sources, targets), strict=True), language)


def random_markup(
    draw: random.Random, words: list[str], units: list[str], elements: list[tuple[str, str]], depth: int = 0
) -> str:
    """Return random words, units and nested elements. `elements` are start and end tags; `#` becomes a number."""
    parts = []
    for _ in range(draw.randint(1, 6)):
        kind = draw.random()
        if kind < 0.5:
            parts.append(" ".join(draw.choices(words, k=draw.randint(1, 4))))
        elif kind < 0.7 and depth < 4:
            start, end = draw.choice(elements)
            inner = random_markup(draw, words, units, elements, depth + 1)
            parts.append(start.replace("#", str(draw.randrange(10**6))) + inner + end)
        else:
            parts.append(draw.choice(units))
    return draw.choice(["", " "]).join(parts)


def with_ranges(text: str, draw: random.Random, gaps: list[int], marks: Iterable[tuple[str, str]]) -> str:
    """Put each start and end mark into gaps of the text. The ranges' starts and ends are in different orders."""
    for mark, end_mark in marks:
        start, end = sorted(draw.choices(gaps, k=2))
        gaps = [gap for gap in gaps if gap <= start]
        text = text[:start] + mark + text[start:end] + end_mark + text[end:]
    return text


def archive(*parts: tuple[str | zipfile.ZipInfo, str | bytes]) -> bytes:
    """Return a zip archive as office programs write it: the type is first and stored, other files are compressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as target, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if a name occurs twice
        for name, content in parts:
            target.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return written.getvalue()


def unpack(content: bytes) -> Mapping[str, bytes]:
    """Return the content of the files of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        return {name: source.read(name) for name in source.namelist()}
