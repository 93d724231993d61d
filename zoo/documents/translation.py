"""Translation of documents: the language of each paragraph, its translation, and the alignment that places markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.documents.document import Document
from zoo.documents.segments import PLACEHOLDER
from zoo.generation.alignment import AlignedToken
from zoo.generation.config import LanguageOptions
from zoo.generation.translation import Translation
from zoo.report import Progress, Report
from zoo.text.language_codes import UNKNOWN, LanguageCode, guess_languages
from zoo.text.languages import choose_direction
from zoo.text.sentences import excerpt

if TYPE_CHECKING:
    from specs.corpus import Direction
    from zoo.generation.translator import Translator


def translate_document(
    translator: Translator,
    path: str | PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    protect: bool = True,
) -> bytes:
    """Translate the text of a document, and copy everything else.

    The suffix of the path determines the format: `.txt`, `.md`, `.html`, `.htm`, `.srt`, `.docx`, `.odt` or `.epub`.
    Word alignment determines which translated words are bold or links. Code is not translated. If translated sentences
    have a low probability, a Python warning gives their number.

    Args:
        translator: A model that translates text.
        path: Path of the document.
        source: Language code of the document. If None and the model is multilingual, the language of each paragraph
            is detected.
        target: Language code of the translation. It can be omitted if the model translates into one language only.
        protect: Whether to keep amounts, dates, links, placeholders and the like (see `TranslationOptions`).

    Returns:
        The content of the translated document.

    Raises:
        ZooError: The format is unknown, the document is damaged or too large, a language is missing or unknown, or the
            document has markup and the model cannot align words (see `Translator.align`).

    Examples:
        >>> content = zoo.translate_document(zoo.load("everyday"), "letter.docx", target="de")
        >>> Path("brief.docx").write_bytes(content)
    """
    translator.spec.require_text("the translation of documents")
    direction = choose_direction(translator.spec, source, target, Report())  # the translator issues the warnings
    return translate(translator, Document.read(Path(path)), direction, translator.report, protect=protect)[0]


def translate(
    translator: Translator, document: Document, direction: Direction, report: Report, *, protect: bool
) -> tuple[bytes, list[str]]:
    """Translate a document (see `translate_document`).

    `report` receives the progress, and warnings that begin with the name of the document.

    Returns:
        The content of the translated document, and the sentences that were translated.
    """
    (source, target), report = direction, _DocumentReport(document, report)
    texts, known = [segment.text for segment in document.segments], translator.spec.languages
    if not texts:
        report.warn("nothing to translate was found; the document was copied")
    codes = [code for code in known.codes if code != target] if known and source == UNKNOWN else []
    sources = guess_languages(texts, codes, document.language) if codes else [source] * len(texts)
    found, alignments = dict[int, Translation](), dict[int, list[AlignedToken]]()
    for code in dict.fromkeys(sources):
        languages: LanguageOptions = {"source": code, "target": target}
        own = [index for index, each in enumerate(sources) if each == code]
        hypotheses = translator.hypotheses([texts[i] for i in own], report=report, protect=protect, **languages)
        found.update(zip(own, (best for best, *_ in hypotheses), strict=True))
        if marked := [index for index in own if document.segments[index].needs_alignment]:
            pairs = [texts[i] for i in marked], [found[i].text.strip() for i in marked]
            alignments.update(zip(marked, translator.align(*pairs, report=report, **languages), strict=True))
    translations = [found[index] for index in range(len(texts))]
    _warn_of_uncertain(translations, report)
    results = ((each.text.strip(), alignments.get(index, [])) for index, each in enumerate(translations))
    sentences = [part for text, each in zip(texts, translations, strict=True) for part, _ in each.parts or [(text, "")]]
    return document.render(results, str(LanguageCode.parse(target))), sentences


def _warn_of_uncertain(translations: Sequence[Translation], report: Report) -> None:
    """Warn about translations that have a low probability, if there are any."""
    if uncertain := [sentence for translation in translations for sentence in translation.uncertain]:
        problem = f"sentences whose translations have a low probability: {len(uncertain):,}"
        first = re.sub(rf"\b{PLACEHOLDER}\b", "…", uncertain[0])  # the placeholder of code
        report.warn(f"{problem} (the first is {excerpt(first)}); check these translations")


class _DocumentReport(Report):
    """Report that adds the name of a document to each warning."""

    def __init__(self, document: Document, report: Report) -> None:
        self._document, self._report = document, report

    def warn(self, text: str) -> None:
        self._report.warn(f"`{self._document.name}`: {text}")

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return self._report.progress(label, total, unit)
