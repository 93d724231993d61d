"""Language codes (two or three letters, possibly with a script or region), and language detection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from specs import ZooError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNKNOWN = "und"
"""ISO 639 code of an undetermined language."""
_DETECTED_CHARACTERS = 1_000
"""Number of characters at the beginning of a text that are used to detect its language. More text does not help."""
_TABLE = [line.split() for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()]
"""Code, script, English name and three-letter codes (ISO 639-2 and 639-3) of each language.

The script of a language that is written in several scripts is "any".
"""
_THREE_LETTERS = {each: code for code, _, _, *codes in _TABLE for each in codes}
_SCRIPTS = {code: script for code, script, *_ in _TABLE}
CODES_OF_NAMES = {name.lower(): code for code, _, name, *_ in _TABLE}
"""Codes of languages, keyed by their English names in lower case."""
_LONG_TEXT = 80
"""Minimum length, in characters, of a text in a document whose language may differ from the main language."""
_VARIANTS = "zh-cn:zh-hans zh-sg:zh-hans zh-tw:zh-hant zh-hk:zh-hant zh-mo:zh-hant zt:zh-hant pb:pt-br iw:he no:nb"
_ALIASES = dict(pair.split(":") for pair in _VARIANTS.split())
"""Usual codes, keyed by other common codes."""


def base_language(code: str) -> str:
    """Return a language code without its script and region, as two letters if possible.

    For example, return `zh` for `zh_CN`, `zh-Hant` and `zho_Hans`. The result identifies the rules for a language, such
    as the rules for sentence splitting. For Cantonese (`yue`), return `zh`, because the rules for Chinese apply.
    """
    base = code.replace("_", "-").partition("-")[0].lower()
    return "zh" if base == "yue" else _THREE_LETTERS.get(base, base)


@dataclass(frozen=True, slots=True)
class LanguageCode:
    """Language code in its usual form, such as `zh-Hans` for `zho_Hans` and `zh-CN`, and `en-US` for `EN_us`.

    Attributes:
        base: Code of the language, with two letters if possible.
        script: Code of the script, or "".
        rest: Code of the region, and other subtags.
    """

    base: str
    script: str
    rest: tuple[str, ...]

    @classmethod
    @lru_cache(10_000)
    def parse(cls, code: str) -> LanguageCode:
        """Parse a language code, and convert it to its usual form."""
        base, *subtags = code.replace("_", "-").lower().split("-")
        base = _THREE_LETTERS.get(base, base)
        usual = "-".join((_ALIASES.get(base, base), *subtags))
        base, *subtags = _ALIASES.get(usual, usual).split("-")
        script = next((tag for tag in subtags if len(tag) == len("Hans")), "")
        rest = dict.fromkeys(tag.upper() for tag in subtags if tag != script)  # `pb-BR` would have its region twice
        return cls(base, script.title(), tuple(rest))

    def __str__(self) -> str:
        return "-".join(filter(None, (self.base, self.script, *self.rest)))


def best_match(code: str, codes: Iterable[str]) -> str | None:
    """Return the code in `codes` for the same language as `code`, or None if there is no such code.

    For example, return `de` for `DE`, `deu` and `de-AT`, and `zho_Hans` for `zh-CN` and `zh`. A code with a different
    region matches if there is no better match. A code with a different script does not match: `de-Cyrl` does not match
    `de`. If the code has no script, as in `zh`, simplified Chinese takes precedence over traditional Chinese.
    """
    wanted = LanguageCode.parse(code.strip())
    # A code without a script has the usual script of its language.
    scripts = {wanted.script, ""} if _SCRIPTS.get(wanted.base, "any") in ("any", wanted.script) else {wanted.script}
    parsed = {each: LanguageCode.parse(each) for each in codes}
    same = [(each, own.script) for each, own in parsed.items() if own.base == wanted.base]
    similar = [each for each, script in same if not wanted.script or script in scripts]

    def rank(each: str) -> tuple[bool, bool, bool, int]:
        own = parsed[each]
        return each != code, own != wanted, not wanted.script and own.script == "Hant", len(str(own))

    return min(similar, key=rank, default=None)


def are_languages(source: str, target: str) -> bool:
    """Return whether two codes belong to two different natural languages. The code `und` (undetermined) is allowed."""
    known = {UNKNOWN, *_SCRIPTS}
    return base_language(source) != base_language(target) and {base_language(source), base_language(target)} <= known


@cache
def detector() -> LanguageIdentifier:
    """Return the language detector. The first call takes about a second.

    Raises:
        ZooError: The detector cannot be decompressed, for instance because the disk for temporary files is full.
    """
    langid = import_module("py3langid.langid")  # imported late: most uses of this module do not detect languages
    try:
        identifier: LanguageIdentifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    except OSError as error:
        problem = f"the language detector cannot be loaded: {error.strerror or error}"
        hint = f"free some space in `{gettempdir()}`, or set TMPDIR to a folder on another disk"
        raise ZooError(problem, hint=hint, exit_code=1) from None
    return identifier


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Detect the language of a text. Return the base code and probability of each language, most probable first."""
    found: defaultdict[str, float] = defaultdict(float)
    for label, probability in detector().rank(text[:_DETECTED_CHARACTERS]):
        found[_ALIASES.get(str(label), str(label))] += float(probability)
    del found["zxx"]  # no linguistic content
    return sorted(found.items(), key=lambda pair: -pair[1])


def guess_language(text: str, codes: Collection[str], default: str) -> str:
    """Choose the most probable language of a text from `codes`, and return its code.

    Args:
        text: Text whose language is unknown.
        codes: Codes of the languages to choose from.
        default: Code to return if the detector knows none of the languages.
    """
    matches = (best_match(language, codes) for language, _ in rank_languages(text))
    return next(filter(None, matches), default)


def guess_languages(texts: Sequence[str], codes: Collection[str], given: str) -> list[str]:
    """For each text in a document, choose the most probable language from `codes`.

    Short texts get the main language of the document. The main language is `given` or, if `given` is not in `codes`,
    the language of most of the text.

    Args:
        texts: Texts in the document, such as paragraphs.
        codes: Codes of the languages to choose from.
        given: The language code that the document specifies, or "" if it specifies none.
    """
    pairs = [(text, guess_language(text, codes, UNKNOWN)) for text in texts]
    main = best_match(given, codes) or max(codes, key=lambda code: sum(len(text) for text, own in pairs if own == code))
    return [own if len(text) >= _LONG_TEXT else main for text, own in pairs]
