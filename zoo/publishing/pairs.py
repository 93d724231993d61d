"""Which sentences a proof is of: four pairs of the dev set, or of the model's own translations."""

from __future__ import annotations

from collections.abc import Sequence

from zoo.generation.translator import Translator
from zoo.text.vocabulary import Side

_PAIRS, _LONGEST = 4, 100  # pairs, and tokens of a sentence
_SENTENCES = ("The old dog sees a small house.", "Today we read two books.", "1984, 2017!", "x y z")


def pairs(dev: tuple[Sequence[str], Sequence[str]], translator: Translator) -> list[tuple[str, str]]:
    """Of the dev set; where it has none that is short enough, sentences that the model itself translates."""
    short = [
        (source, target)
        for source, target in zip(*dev, strict=True)
        if _is_short(source, "source", translator) and _is_short(target, "target", translator)
    ]
    return short[:_PAIRS] or own_pairs(translator)


def own_pairs(translator: Translator) -> list[tuple[str, str]]:
    """Sentences, and how the model itself translates them."""
    sources = [sentence for sentence in _SENTENCES if _is_short(sentence, "source", translator)] or ["a"]
    targets = translator.translate(sources, search="beam", beam=1)
    # Of a model that does not end, to any text.
    short = (target if _is_short(target, "target", translator) else "a" for target in targets)
    return list(zip(sources, short, strict=True))


def _is_short(text: str, side: Side, translator: Translator) -> bool:
    """Whether the model has a position for each token, and a proof of it stays small."""
    return 0 < len(translator.vocabulary.encode(text, side)) <= min(_LONGEST, translator.spec.corpus.max_length)
