"""Language codes that clients use, and language detection."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from babel import Locale

from specs import Spec
from specs.corpus import Direction
from specs.notation import quote
from zoo.models.catalogue import recommended
from zoo.serving.answer import ServingError
from zoo.text.language_codes import LanguageCode, best_match, detector, rank_languages

AUTO = "auto"
"""The value of `source` that requests language detection."""
_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}")
_MAX_MODELS = 1_000
"""Number of models whose language pairs stay in memory."""
_CERTAIN = 0.5
"""Minimum probability of the detected language for rejecting a text because no model translates from this language.

Short texts rarely reach this probability.
"""
_DOUBTFUL = 0.1
"""Minimum probability of the target language for returning a text unchanged."""


def load_language_data() -> None:
    """Load the data that the functions in this module use, which takes about a second.

    Raises:
        ZooError: The language detector cannot be loaded.
    """
    detector()
    language_name("en")
    recommended("en", "de")


def _parse(code: str) -> LanguageCode:
    """Parse a language code. Raise ServingError if it is not valid."""
    if not _CODE.fullmatch(code):
        raise ServingError(400, f"{quote(code[:40])} is not a language code; `GET /languages` lists the languages")
    return LanguageCode.parse(code)


def standard_code(code: str) -> str:
    """Return a language code in its usual form (see `LanguageCode`).

    Raises:
        ServingError: `code` is not a language code.
    """
    return str(_parse(code))


def base_code(code: str) -> str:
    """Return a language code without script and region, such as `zh` for `zh-Hans`."""
    return _parse(code).base


def match_code(code: str, codes: Iterable[str]) -> str | None:
    """Return the code in `codes` for the same language as `code` (see `best_match`), or None if there is none.

    Raises:
        ServingError: `code` is not a language code.
    """
    return best_match(standard_code(code), codes)


def differ_in_region(one: str, other: str) -> bool:
    """Return whether two codes differ only in the region, such as `pt-PT` and `pt-BR`, or `pt` and `pt-BR`."""
    first, second = _parse(one), _parse(other)
    return (first.base, first.script) == (second.base, second.script) and first.rest != second.rest


def public_codes(codes: Iterable[str]) -> dict[str, str]:
    """Map each of a model's language codes to the code that clients see.

    Clients see the base code, such as `zh`. If several of the model's codes have the same base, such as `zh-Hans` and
    `zh-Hant`, clients see the full code in its usual form (see `standard_code`).
    """
    bases = {code: base_code(code) for code in codes}
    counts = Counter(bases.values())
    return {code: base if counts[base] == 1 else standard_code(code) for code, base in bases.items()}


@dataclass(frozen=True, eq=False)
class Directions:
    """Language pairs that a model translates, as the model's own language codes."""

    pairs: Sequence[Direction]

    @classmethod
    @lru_cache(_MAX_MODELS)
    def of(cls, spec: Spec) -> Directions:
        """Return the language pairs of the model with this spec. A multilingual model can have 100,000 pairs."""
        corpus, languages = spec.corpus, spec.languages
        if languages is None:
            return cls([(corpus.source, corpus.target)])
        learned = list(dict.fromkeys(corpus.direction(part) for part in corpus.train))
        return cls(learned or [(one, two) for one in languages.codes for two in languages.codes if one != two])

    @cached_property
    def targets(self) -> Mapping[str, Sequence[str]]:
        """The target languages of each source language."""
        targets: dict[str, list[str]] = {}
        for source, target in self.pairs:
            targets.setdefault(source, []).append(target)
        return targets

    @cached_property
    def public(self) -> Sequence[Direction]:
        """The language pairs, as the codes that clients see."""
        codes = public_codes({code: None for pair in self.pairs for code in pair})
        return [(codes[source], codes[target]) for source, target in self.pairs]

    def match(self, source: str, target: str) -> Direction | None:
        """Return the pair that matches the language codes of a client, or None.

        Raises:
            ServingError: A code is invalid.
        """
        own_source = match_code(source, self.targets)
        own_target = match_code(target, self.targets.get(own_source or "", ()))
        return None if own_source is None or own_target is None else (own_source, own_target)

    def sources(self, target: str) -> set[str]:
        """Return the base codes of the languages from which the model translates into `target`."""
        own = {code for code in set[str]().union(*self.targets.values()) if match_code(target, [code])}
        return {base_code(source) for source, targets in self.targets.items() if not own.isdisjoint(targets)}


@lru_cache
def public_targets(models: tuple[Directions, ...]) -> Mapping[str, Sequence[str]]:
    """Return the target languages of each source language for all models together, as the codes that clients see."""
    targets: dict[str, set[str]] = {}
    for source, target in chain.from_iterable(model.public for model in models):
        targets.setdefault(source, set()).add(target)
    return {source: sorted(targets[source]) for source in sorted(targets)}


def language_name(code: str) -> str:
    """Return the English name of a language, such as "German" for `de`. If it has no name, return the code."""
    english = Locale("en")
    base, *subtags = standard_code(code).split("-")
    names = [english.scripts.get(tag) or english.territories.get(tag) or tag for tag in subtags]
    name = str(english.languages.get(base, base))
    return f"{name} ({', '.join(map(str, names))})" if names else name


def no_model_error(source: str, target: str) -> ServingError:
    """Return the error for a language pair without a model. The message names a public model for the pair, if any."""
    pair = f"from {quote(standard_code(source))} to {quote(standard_code(target))}"
    public = _describe_public_model(source, target)
    return ServingError(400, f"no model translates {pair}; `GET /languages` lists the pairs{public}")


def _describe_public_model(source: str, target: str) -> str:
    """Return the end of an error message: the command that serves a public model for a language pair.

    If there is no such model, return an empty string.
    """
    card = recommended(base_code(source), base_code(target))
    return "" if card is None else f"; `zoo serve --model {card.name}` serves {card.summary}"


def detect_source(text: str, languages: Collection[str], target: str) -> tuple[str, float]:
    """Choose the most probable language of a text from `languages`. Return its code and its probability.

    The probability is computed over all languages that the detector knows, not only over `languages`.

    The target language is chosen only if its probability is at least 10%. Without this minimum, a word such as "Hi"
    could be mistaken for a word in the target language, and stay untranslated.

    Args:
        text: The text.
        languages: Base codes of the languages to choose from, at least one.
        target: The target language.

    Raises:
        ServingError: The text is probably in another language.
    """
    found = rank_languages(text)
    best, probability = found[0]
    if best not in languages and probability >= _CERTAIN:
        raise ServingError(
            400,
            f"the text seems to be {language_name(best)} (`{best}`), and no model translates it into "
            f"{language_name(target)}; set the source language if this is wrong; `GET /languages` lists the pairs"
            f"{_describe_public_model(best, target)}",
        )
    own = base_code(target)
    known = (pair for pair in found if pair[0] in languages and (pair[0] != own or pair[1] >= _DOUBTFUL))
    return next(known, (min({*languages} - {own} or languages), 0.0))
