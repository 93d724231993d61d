"""Measure how often tags go to the right words, on sentences of the built-in grammar, whose words have one translation.

    python -m tests.benchmarks.markup_positions MODEL [--toy]

In each sentence, a noun or an adjective is bold. It is right if exactly its translation is bold.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import chain, islice

import zoo
from tests.benchmarks.arguments import TOY_HELP, TOY_SENTENCES
from tests.grammar.lexicon import LEXICON
from zoo.data.builtin import sentences
from zoo.documents.document import TextFile, align_segments
from zoo.generation.translator import Translator

COUNT = 1_000
_WORD = re.compile(r"[^\W\d_]+")
_BOLD = re.compile(r"<b>(.*?)</b>")


def dictionary() -> dict[str, re.Pattern[str]]:
    """Return a pattern for the translation of each noun and adjective."""
    found = {}
    for noun in chain.from_iterable(LEXICON.nouns.values()):
        forms = {noun.german.nominative, noun.german.genitive, noun.german.plural, f"{noun.german.plural}n"}
        for word in (noun.singular, noun.plural):
            found[word] = re.compile("|".join(sorted(map(re.escape, forms), key=len, reverse=True)))
    for adjective in chain.from_iterable(LEXICON.adjectives.values()):
        found[adjective.english] = re.compile(rf"(?:{adjective.german}|{adjective.stem}e[mnrs]?)")
    return found


def marked_sentences() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield sentences of the test set with a bold word, and the pattern of its translation."""
    words = dictionary()
    for pair in sentences("test", 2_000):
        known = [match for match in _WORD.finditer(pair.source) if match[0] in words]
        for match in known[len(pair.source) % max(len(known), 1) :][:1]:
            pattern = words[match[0]]
            if len([word for word in _WORD.findall(pair.target) if pattern.fullmatch(word)]) == 1:
                yield f"{pair.source[: match.start()]}<b>{match[0]}</b>{pair.source[match.end() :]}", pattern


def print_right_tags(translator: Translator, count: int) -> None:
    """Print in how many sentences exactly the translation of the bold word is bold.

    Sentences whose translation does not have exactly one translation of the word are left out.
    """
    right = total = 0
    marked = list(islice(marked_sentences(), count))
    markups = [TextFile(text) for text, _ in marked]
    segments = [segment for markup in markups for segment in markup.segments]
    translations = list(translator.translate([segment.text for segment in segments]))
    alignments = align_segments(segments, translations, translator.align)
    for markup, translated, (_, pattern) in zip(
        markups, zip(translations, alignments, strict=True), marked, strict=True
    ):
        rendered, translation = markup.render([translated[0]], [translated[1]]), translated[0]
        if len([word for word in _WORD.findall(translation) if pattern.fullmatch(word)]) == 1:
            bold = _BOLD.findall(rendered)
            right += len(bold) == 1 and pattern.fullmatch(bold[0]) is not None
            total += 1
    print(f"{right:,} of {total:,} tags are right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--toy", action="store_true", help=TOY_HELP)
    given = parser.parse_args()
    print_right_tags(zoo.load(given.model), TOY_SENTENCES if given.toy else COUNT)


if __name__ == "__main__":
    main()
