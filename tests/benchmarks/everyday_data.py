"""Prepare Tatoeba's English-German sentence pairs for `specs/everyday.yaml`.

    python -m tests.benchmarks.everyday_data DOWNLOADS OUT
    python -m tests.benchmarks.everyday_data PAIRS.en PAIRS.de TEST.en TEST.de OUT

DOWNLOADS is a folder with three files of <https://tatoeba.org/en/downloads>: `eng_sentences.tsv.bz2`,
`deu_sentences.tsv.bz2` and `eng-deu_links.tsv.bz2`. 1,000 of their pairs become the test set. The second form reads
pairs and a test set from text files with one sentence per line. `docs/benchmarks/everyday.md` describes the files that
are written to OUT.
"""

from __future__ import annotations

import bz2
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

Pair = tuple[str, str]
"""An English sentence and its German translation."""

DEV_PAIRS = 500
TEST_PAIRS = 1000
MAX_RATIO = 3.0
INVENTED = 0.4
"""Share of the replaced names that are invented, such as "Wibruno"."""

_SPACES, _NUMBER, _WORD = re.compile(r"\s+"), re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
_QUOTED = re.compile('"([^"]*)"')
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("’‘`´", "'"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("\u00ad\u200b\ufeff"),  # soft hyphen, zero-width space and byte order mark are removed
        "…": "...",
        "—": "–",
    }
)


def _words(text: str) -> list[str]:
    return text.split()


# The most frequent names and places of Tatoeba, as (English, German). Each is replaced by another one of its kind.
_MEN = [(name, name) for name in _words("Tom John Bill Ken Jim Mike")]
_WOMEN = [("Mary", "Maria"), *((name, name) for name in _words("Jane Alice Nancy Emily"))]
_PLACES = [("Tokyo", "Tokio"), *((name, name) for name in _words("Boston London Paris Berlin"))]
_OTHER_MEN = _words("""
    Ahmed Alejandro Alexander Andrew Anton Ben Carlo Chen Daniel David Deniz Diego Eduard Emil Erik Felix Finn Florian
    Frank Fred Georg George Giovanni Günther Hakan Harry Henry Hiroshi Hugo Igor Ivan Jack Jakob James Jan Jörg Juan
    Karl Kevin Lee Leon Liam Luca Luke Martin Max Michael Miguel Mohammed Noah Oleg Oliver Omar Oscar Otto Paul Pedro
    Peter Philip Pierre Rafael Ravi Richard Robert Sam Samir Sergei Stefan Steve Theo Tim Tobias Viktor Walter Wang
    William Wolfgang Yusuf
""")
_OTHER_WOMEN = _words("""
    Aisha Alina Amelie Amy Andrea Angela Anna Anne Anja Ayşe Barbara Beatrice Carmen Caroline Charlotte Chiara Clara
    Claudia Diana Elena Elif Elisabeth Ella Emma Erika Eva Fatima Hanna Heidi Helen Ingrid Irina Isabel Jasmin Jennifer
    Jessica Johanna Julia Karin Kate Katrin Laura Lea Lena Leyla Linda Lisa Lucy Magda Marta Mei Mia Mina Monika Nadia
    Natasha Nina Nora Olga Olivia Paula Petra Rachel Rosa Sabine Sandra Sarah Sofia Sonja Susan Tanja Ursula Valentina
    Wanda Yoko Zoe
""")
_OTHER_PLACES = _words("""
    Aachen Amsterdam Athens|Athen Barcelona Basel Berlin Bern Birmingham Bonn Bremen Budapest Cambridge Chicago Dallas
    Dortmund Dresden Dublin Düsseldorf Edinburgh Essen Florence|Florenz Frankfurt Freiburg Geneva|Genf Glasgow Graz
    Hamburg Hanover|Hannover Heidelberg Helsinki Istanbul Cairo|Kairo Karlsruhe Kiel Cologne|Köln Copenhagen|Kopenhagen
    Leipzig Lisbon|Lissabon Liverpool London Lyon Madrid Milan|Mailand Mainz Manchester Melbourne Miami Moscow|Moskau
    Munich|München Nairobi Naples|Neapel Nuremberg|Nürnberg Oslo Oxford Paris Potsdam Prague|Prag Rome|Rom Rotterdam
    Salzburg Seattle Seville|Sevilla Singapore|Singapur Stockholm Stuttgart Sydney Tokyo|Tokio Toronto Turin
    Venice|Venedig Warsaw|Warschau Weimar Vienna|Wien Zurich|Zürich
""")
_ONSETS = _words("b bl br d dr f fr g gr h j k kl kr l m n p pr r s sch sh st t tr v w z")
_VOWELS = _words("a e i o u ai ei ia o a e")
_CODAS = ["", "", "", "n", "r", "l", "ck", "m", "rt", "nd", "tt"]


def normalized(sentence: str) -> str:
    """Return the letters and digits of a sentence in lower case. Sentences with the same result count as equal."""
    return "".join(re.findall(r"[^\W_]", sentence.lower()))


def tidy(pair: Pair) -> Pair:
    """Return a pair with single spaces, plain apostrophes and each language's usual quotation marks ("" and „“)."""
    english, german = (_SPACES.sub(" ", unicodedata.normalize("NFC", side).translate(_CHARACTERS)) for side in pair)
    return english.strip(), _QUOTED.sub("„\\1“", german).strip()


def is_clean(pair: Pair) -> bool:
    """Return whether both sides have Latin letters only, similar lengths, and the same long numbers."""
    words = _WORD.findall(" ".join(pair))
    numbers = [Counter(number for number in _NUMBER.findall(side) if len(number) > 2) for side in pair]
    shorter, longer = sorted(map(len, pair))
    return (
        all(map(normalized, pair))
        and all(unicodedata.name(letter, "").startswith("LATIN") for word in words for letter in word)
        and longer <= MAX_RATIO * (shorter + 8)
        and numbers[0] == numbers[1]
    )


def bare(sentence: str) -> str:
    """Return a sentence without its final full stop."""
    return sentence[:-1] if sentence.endswith(".") and not sentence.endswith("..") else sentence


def lower(source: str, target: str) -> Pair:
    """Return the source in lower case, and the target. Both lose their final full stop."""
    return bare(source).lower(), bare(target)


def typeset(source: str, target: str) -> Pair:
    """Return the source with other quotation marks and apostrophes, and the target."""
    if "„" in source:
        return re.sub("[„“]", '"', source), target
    return _QUOTED.sub("“\\1”", source.replace("'", "’")), target


def invented_name(generator: random.Random) -> str:
    """Return a random name that no dictionary contains, such as "Trelando"."""
    syllables = [generator.choice(_ONSETS) + generator.choice(_VOWELS) for _ in range(generator.randint(2, 4))]
    return ("".join(syllables) + generator.choice(_CODAS)).title()


def renamed(pair: Pair, generator: random.Random) -> Pair:
    """Return a pair with other names, places and numbers. Unchanged if it has none that are equal on both sides."""
    changed = pair
    for names, others in ((_MEN, _OTHER_MEN), (_WOMEN, _OTHER_WOMEN), (_PLACES, _OTHER_PLACES)):
        for name in names:
            english, _, german = generator.choice(others).partition("|")
            if generator.random() < INVENTED:
                english, german = invented_name(generator), ""
            changed = _replaced(changed, name, (english, german or english))
    for number in sorted({*_NUMBER.findall(pair[0])} & {*_NUMBER.findall(pair[1])}):
        if 2 <= len(number) <= 5 and pair[0].count(number) == pair[1].count(number) == 1:
            other = str(generator.randint(10 ** (len(number) - 1), 10 ** len(number) - 1))
            changed = (changed[0].replace(number, other), changed[1].replace(number, other))
    return changed


def _replaced(pair: Pair, name: Pair, other: Pair) -> Pair:
    """Return a pair with a name replaced on both sides, also in the genitive. Unchanged if the counts differ."""
    plain = [len(re.findall(rf"\b{form}\b(?!')", side)) for form, side in zip(name, pair, strict=True)]
    genitive = [len(re.findall(rf"\b{name[0]}'s\b", pair[0])), len(re.findall(rf"\b{name[1]}s\b", pair[1]))]
    if plain[0] != plain[1] or genitive[0] != genitive[1] or (genitive[0] and other[1][-1] in "sßxz"):
        return pair
    return re.sub(rf"\b{name[0]}\b", other[0], pair[0]), re.sub(rf"\b{name[1]}(s?)\b", rf"{other[1]}\1", pair[1])


def held_out(pairs: list[Pair], count: int, generator: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs that remain, and `count` random pairs whose sentences occur in no other pair."""
    counts = Counter(normalized(side) for pair in pairs for side in pair)
    chosen = generator.sample([pair for pair in pairs if all(counts[normalized(side)] == 1 for side in pair)], count)
    taken = set(chosen)
    return [pair for pair in pairs if pair not in taken], chosen


def without_sentences_of(pairs: Iterable[Pair], test: Iterable[Pair]) -> list[Pair]:
    """Return the pairs, without repetitions, of which neither side is a sentence of the test pairs."""
    tested = {normalized(side) for pair in test for side in pair}
    return [pair for pair in dict.fromkeys(pairs) if not any(normalized(side) in tested for side in pair)]


def read_downloads(folder: Path) -> list[Pair]:
    """Return the pairs in three files of Tatoeba's downloads."""
    sentences: list[dict[str, str]] = []
    for code in ("eng", "deu"):
        with bz2.open(folder / f"{code}_sentences.tsv.bz2", "rt", encoding="utf-8") as file:
            sentences.append({number: text for number, _, text in (line.rstrip("\n").split("\t") for line in file)})
    with bz2.open(folder / "eng-deu_links.tsv.bz2", "rt", encoding="utf-8") as file:
        links = [line.split() for line in file]
    return [(sentences[0][first], sentences[1][second]) for first, second in links
            if first in sentences[0] and second in sentences[1]]  # fmt: skip


def read_pairs(english: str, german: str) -> list[Pair]:
    """Return the pairs of two text files. Line n of one is the translation of line n of the other."""
    return list(zip(*(Path(path).read_text("utf-8").splitlines() for path in (english, german)), strict=True))


def write(folder: Path, name: str, pairs: Iterable[Pair]) -> None:
    """Write pairs to the files `NAME.en` and `NAME.de`."""
    pairs = list(pairs)
    for side, language in enumerate(("en", "de")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    print(f"{name}: {len(pairs):,} pairs")


def prepare(pairs: list[Pair], test: list[Pair] | None, folder: Path) -> None:
    """Clean the pairs and write all files of the spec. If `test` is None, take a test set out of the pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    train = list(dict.fromkeys(filter(is_clean, map(tidy, pairs))))
    if test is None:
        train, test = held_out(train, TEST_PAIRS, generator)
    train, dev = held_out(without_sentences_of(train, test), DEV_PAIRS, generator)
    write(folder, "train", train)
    write(folder, "dev", dev)
    write(folder, "test", test)
    write(folder, "bare", ((bare(english), bare(german)) for english, german in train if english.endswith(".")))
    write(folder, "names", (new for pair in train if (new := renamed(pair, generator)) != pair))
    for name, variant in (("lower", lower), ("typeset", typeset)):
        changed = [(variant(*pair), pair) for pair in train]
        write(folder, f"{name}-en", (new for new, pair in changed if new[0] != pair[0]))
        changed = [(variant(*pair[::-1])[::-1], pair) for pair in train]
        write(folder, f"{name}-de", (new for new, pair in changed if new[1] != pair[1]))


def main() -> None:
    match sys.argv[1:]:
        case [downloads, out]:
            prepare(read_downloads(Path(downloads)), None, Path(out))
        case [english, german, test_english, test_german, out]:
            prepare(read_pairs(english, german), read_pairs(test_english, test_german), Path(out))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
