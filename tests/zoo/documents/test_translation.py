"""Each paragraph of a document is translated and aligned in its own language."""

from __future__ import annotations

import re

import zoo
from tests.zoo.text.test_languages import imported
from zoo.generation.translation import Translation

ENGLISH = "This is a long English sentence about a house and the weather, which everybody understands at once"
FRENCH = "Ceci est une longue phrase en français sur une maison et sur le temps, que tout le monde comprend"


class Multilingual:
    """Translator that writes the source language and the text in capitals, between spaces."""

    def __init__(self, report):
        self.report, self.aligned, self.spec = report, [], imported()

    def hypotheses(self, texts, *, source, target, protect, report):
        return [[Translation(f"  {source}: {text.upper()} ")] for text in texts]

    def align(self, sources, targets, *, source, target, report):
        self.aligned += [(source, target) for target in targets]
        return [[] for _ in targets]


def test_paragraphs_are_translated_and_aligned_in_their_languages(tmp_path, report):
    path, model = tmp_path / "a.html", Multilingual(report)
    path.write_text(f"<html lang='en'><p>{ENGLISH}<p>{FRENCH} <b>ici</b><p>{ENGLISH}, <i>here</i><p>short", "utf-8")
    content = zoo.translate_document(model, path, target="de").decode()
    assert re.findall("lang='..'|..: ", content) == ["lang='de'", "en: ", "fr: ", "en: ", "en: "]
    assert model.aligned == [("en", f"en: {ENGLISH.upper()}, HERE"), ("fr", f"fr: {FRENCH.upper()} ICI")]
