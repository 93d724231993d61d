"""Regular verbs of both languages by rule, irregular ones from their principal parts."""

import re

from zoo.data.builtin.conjugation import EnglishVerb, Forms, GermanVerb

# After these a -t could not be heard: arbeit-e-t, öffn-e-t, zeichn-e-t, but wohn-t.
_NEEDS_E = re.compile(r"([td]|chn|[^aeiouäöühlrmn][mn])$")
_WITHOUT_GE = re.compile(r"^(be|er|ge|ver)|ieren$")


def english_verb(written: str, auxiliary: bool = False) -> EnglishVerb:
    """`visit`, or `see sees saw seen`, or with three forms of a tense `be am/is/are was/was/were been`.

    A verb whose participle is `-` is a modal: an auxiliary with no dependent forms.
    """
    base, *irregular = written.split()
    third, past, participle = irregular or _regular_english(base)
    present = _three(third, (base, third, base))
    return EnglishVerb(base, present, _three(past, (past,) * 3), participle.strip("-"), auxiliary)


def german_verb(written: str) -> GermanVerb:
    """`besuchen`, or `sehen sieht sah gesehen`, or `wissen weiß/weiß/wissen wusste gewusst`.

    A plus follows a separable prefix: `auf+heben hebt hob gehoben`.
    """
    infinitive, *irregular = written.split()
    prefix, _, infinitive = infinitive.rpartition("+")
    third, past, participle = irregular or _regular_german(infinitive)
    present = _three(third, (_german_stem(infinitive) + "e", third, infinitive))
    plural_past = past + ("n" if past.endswith("e") else "en")
    return GermanVerb(infinitive, present, _three(past, (past, past, plural_past)), participle, prefix)


def _three(written: str, otherwise: Forms) -> Forms:
    """The forms with I, it and they, where all three are written."""
    first, *others = written.split("/")
    return (first, others[0], others[1]) if others else otherwise


def _regular_english(base: str) -> tuple[str, str, str]:
    if re.search(r"[^aeiou]y$", base):
        return f"{base[:-1]}ies", f"{base[:-1]}ied", f"{base[:-1]}ied"
    third = base + ("es" if re.search(r"(s|sh|ch)$", base) else "s")
    past = base + ("d" if base.endswith("e") else "ed")
    return third, past, past


def _regular_german(infinitive: str) -> tuple[str, str, str]:
    stem = _german_stem(infinitive)
    stem += "e" if _NEEDS_E.search(stem) else ""
    return f"{stem}t", f"{stem}te", ("" if _WITHOUT_GE.search(infinitive) else "ge") + f"{stem}t"


def _german_stem(infinitive: str) -> str:
    return infinitive.removesuffix("n").removesuffix("e")
