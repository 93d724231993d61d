"""Variants of sentence pairs, so that a model accepts input that its training text rarely has."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

Pair = tuple[str, str]
"""A sentence and its translation."""

INVENTED = 0.4
"""Share of the replaced names that are invented, such as "Wibruno"."""

QUOTATION_MARKS = {"en": '"\\1"', "de": "„\\1“", "fr": "« \\1 »", "es": "«\\1»"}
"""Usual quotation marks of each language, as a replacement for the first group of a pattern."""
_OTHER_MARKS = {"en": "“\\1”", "de": '"\\1"', "fr": '"\\1"', "es": "“\\1”"}
"""Other quotation marks that people type."""
_QUOTED = re.compile('"([^"]*)"|„([^„“]*)“|« ?([^«»]*?) ?»')
_ELISION = r"\b([Dd]|[Qq]u|[Ll]orsqu|[Pp]uisqu)(?:e |')"
_VOWELS_IN_FRENCH = "AEIOUÉÈÎÔaeiouéèîô"


def words(text: str) -> list[str]:
    """Return the words of a text that are separated by white space."""
    return text.split()


# The most frequent names and places of Tatoeba, in English|German|French|Spanish if they differ. Each is replaced by
# another one of its kind.
_MEN = words("Tom John Bill Ken Jim Mike")
_WOMEN = words("Mary|Maria|Marie|María Mary Jane Alice Nancy Emily")
_PLACES = words("Tokyo|Tokio|Tokyo|Tokio Boston London|London|Londres|Londres Paris|Paris|Paris|París Berlin|||Berlín")
_OTHER_MEN = words("""
    Ahmed Alejandro Alexander Andrew Anton Ben Carlo Chen Daniel David Deniz Diego Eduard Emil Erik Felix Finn Florian
    Frank Fred Georg George Giovanni Günther Hakan Harry Henry Hiroshi Hugo Igor Ivan Jack Jakob James Jan Jörg Juan
    Karl Kevin Lee Leon Liam Luca Luke Martin Max Michael Miguel Mohammed Noah Oleg Oliver Omar Oscar Otto Paul Pedro
    Peter Philip Pierre Rafael Ravi Richard Robert Sam Samir Sergei Stefan Steve Theo Tim Tobias Viktor Walter Wang
    William Wolfgang Yusuf Antoine Benoît François Guillaume Jérôme Laurent Mathieu Olivier Thierry Yves Álvaro Andrés
    Antonio Fernando Gonzalo Ignacio Javier Joaquín José Luis Manuel Ramón Sergio
""")
_OTHER_WOMEN = words("""
    Aisha Alina Amelie Amy Andrea Angela Anna Anne Anja Ayşe Barbara Beatrice Carmen Caroline Charlotte Chiara Clara
    Claudia Diana Elena Elif Elisabeth Ella Emma Erika Eva Fatima Hanna Heidi Helen Ingrid Irina Isabel Jasmin Jennifer
    Jessica Johanna Julia Karin Kate Katrin Laura Lea Lena Leyla Linda Lisa Lucy Magda Marta Mei Mia Mina Monika Nadia
    Natasha Nina Nora Olga Olivia Paula Petra Rachel Rosa Sabine Sandra Sarah Sofia Sonja Susan Tanja Ursula Valentina
    Wanda Yoko Zoe Amélie Brigitte Camille Chloé Élodie Françoise Hélène Manon Nathalie Sylvie Ana Belén Beatriz
    Consuelo Dolores Inés Lucía Mercedes Pilar Rocío Teresa Ximena
""")
_OTHER_PLACES = words("""
    Aachen|||Aquisgrán Amsterdam|||Ámsterdam Athens|Athen|Athènes|Atenas Barcelona||Barcelone Basel||Bâle|Basilea
    Berlin|||Berlín Bern||Berne|Berna Birmingham Bonn Bremen||Brême Budapest Cambridge Chicago Dallas Dortmund
    Dresden||Dresde|Dresde Dublin|||Dublín Düsseldorf Edinburgh||Édimbourg|Edimburgo Essen
    Florence|Florenz|Florence|Florencia Frankfurt||Francfort|Fráncfort Freiburg||Fribourg|Friburgo
    Geneva|Genf|Genève|Ginebra Glasgow Graz Hamburg||Hambourg|Hamburgo Hanover|Hannover|Hanovre Heidelberg Helsinki
    Istanbul|||Estambul Karlsruhe Kiel Cologne|Köln|Cologne|Colonia Copenhagen|Kopenhagen|Copenhague|Copenhague Leipzig
    Lisbon|Lissabon|Lisbonne|Lisboa Liverpool London||Londres|Londres Lyon Madrid Milan|Mailand|Milan|Milán
    Mainz||Mayence|Maguncia Manchester Melbourne Miami Moscow|Moskau|Moscou|Moscú Munich|München|Munich|Múnich Nairobi
    Naples|Neapel|Naples|Nápoles Nuremberg|Nürnberg|Nuremberg|Núremberg Oslo Oxford Paris|||París Potsdam
    Prague|Prag|Prague|Praga Rome|Rom|Rome|Roma Rotterdam Salzburg||Salzbourg|Salzburgo Seattle
    Seville|Sevilla|Séville|Sevilla Singapore|Singapur|Singapour|Singapur Stockholm|||Estocolmo
    Stuttgart Sydney|||Sídney Tokyo|Tokio|Tokyo|Tokio Toronto Turin||Turin|Turín Venice|Venedig|Venise|Venecia
    Warsaw|Warschau|Varsovie|Varsovia Weimar Vienna|Wien|Vienne|Viena Zurich|Zürich|Zurich|Zúrich Valencia||Valence
    Bilbao Granada||Grenade Marseille|||Marsella Toulouse Bordeaux|||Burdeos Nice|Nizza|Nice|Niza Lille Nantes
    Montreal||Montréal Málaga Lima Bogotá Santiago
""")
_ONSETS = words("b bl br d dr f fr g gr h j k kl kr l m n p pr r s sch sh st t tr v w z")
_VOWELS = words("a e i o u ai ei ia o a e")
_CODAS = ["", "", "", "n", "r", "l", "ck", "m", "rt", "nd", "tt"]
_LANGUAGES = ("en", "de", "fr", "es")
_NUMBER = re.compile(r"\d+")


def form(name: str, language: str) -> str:
    """Return a name of the tables in one of the four languages. The English form stands for those that are equal."""
    forms = name.split("|")
    number = _LANGUAGES.index(language)
    return (forms[number] if number < len(forms) else "") or forms[0]


def bare(sentence: str) -> str:
    """Return a sentence without its final full stop."""
    return sentence[:-1] if sentence.endswith(".") and not sentence.endswith("..") else sentence


def lower(source: str, target: str) -> Pair:
    """Return the source in lower case, and the target. Both lose their final full stop."""
    return bare(source).lower(), bare(target)


def typeset(source: str, target: str, language: str) -> Pair:
    """Return the source in this language with other quotation marks, apostrophes and dots, and the target."""
    marks = _OTHER_MARKS[language]
    changed = _QUOTED.sub(lambda match: marks.replace("\\1", match[match.lastindex or 1]), source)
    changed = changed.replace("'", "’").replace("...", "…")
    if language == "fr":
        changed = re.sub(r" (?=[?!;])", "", changed)
    return (changed.replace("¿", "").replace("¡", "") if language == "es" else changed), target


def invented_name(generator: random.Random) -> str:
    """Return a random name that no dictionary contains, such as "Trelando"."""
    syllables = [generator.choice(_ONSETS) + generator.choice(_VOWELS) for _ in range(generator.randint(2, 4))]
    return ("".join(syllables) + generator.choice(_CODAS)).title()


def random_person(generator: random.Random) -> str:
    """Return the first name of a person, invented or not."""
    known = generator.choice(generator.choice((_OTHER_MEN, _OTHER_WOMEN)))
    return invented_name(generator) if generator.random() < INVENTED else known


def random_place(generator: random.Random) -> str:
    """Return a place in the form of the tables, invented or not."""
    known = generator.choice(_OTHER_PLACES)
    return invented_name(generator) if generator.random() < INVENTED else known


def renamed(pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Return a pair with other names, places and numbers. Unchanged if it has none that are equal on both sides."""
    changed = pair
    for names, others in ((_MEN, _OTHER_MEN), (_WOMEN, _OTHER_WOMEN), (_PLACES, _OTHER_PLACES)):
        for name in names:
            if form(name, languages[0]) not in pair[0]:
                continue
            other = generator.choice(others)
            if generator.random() < INVENTED:
                other = invented_name(generator)
            changed = replaced(changed, languages, name, other)
    for number in sorted({*_NUMBER.findall(pair[0])} & {*_NUMBER.findall(pair[1])}):
        if 2 <= len(number) <= 5 and pair[0].count(number) == pair[1].count(number) == 1:
            digits = str(generator.randint(10 ** (len(number) - 1), 10 ** len(number) - 1))
            changed = (changed[0].replace(number, digits), changed[1].replace(number, digits))
    return changed


def replaced(pair: Pair, languages: Sequence[str], name: str, other: str) -> Pair:
    """Return a pair with a name replaced on both sides, including its genitive. Unchanged if the counts differ."""
    old, new = ([form(each, language) for language in languages] for each in (name, other))
    if old[0] not in pair[0] or old[1] not in pair[1]:
        return pair
    patterns = [
        re.compile(rf"\b{re.escape(each)}{'(s?)' if language == 'de' else '()'}\b")
        for each, language in zip(old, languages, strict=True)
    ]
    endings = [pattern.findall(side) for pattern, side in zip(patterns, pair, strict=True)]
    if len(endings[0]) != len(endings[1]) or ("s" in endings[0] + endings[1] and new[0][-1] in "sßxz"):
        return pair
    sides = []
    for side, pattern, language, before, after in zip(pair, patterns, languages, old, new, strict=True):
        side = adapted(side, language, before, after)
        sides.append(pattern.sub(rf"{after}\1", side))
    return sides[0], sides[1]


def adapted(side: str, language: str, old: str, new: str) -> str:
    """Return a sentence whose words before `old`, such as "de" and "y", have the form that they have before `new`."""
    name = rf"(?={re.escape(old)}(?!\w))"
    if language == "fr":
        return re.sub(_ELISION + name, "\\1'" if new[0] in _VOWELS_IN_FRENCH else "\\1e ", side)
    if language == "es" and re.match(r"H?[IÍ](?![aeo])", new):
        return re.sub(rf"\by {name}", "e ", side)
    if language == "es" and re.match("H?[OÓ]", new):
        return re.sub(rf"\bo {name}", "u ", side)
    return side
