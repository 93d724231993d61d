"""Prepare the sentence pairs of the included model `everyday` for English, German, French and Spanish.

    python -m tests.benchmarks.everyday_data TATOEBA LIBREOFFICE OUT

The script writes the files that `specs/everyday.yaml` lists to the folder OUT. TATOEBA and LIBREOFFICE are folders.
For each language other than English, such as `de`, both contain the sentence pairs `en-de/train.en` and
`en-de/train.de`. TATOEBA also contains a test set for each language, `en-de/dev.en` and `en-de/dev.de`. LIBREOFFICE
contains one test set for all languages: `dev.en`, `dev.de`, `dev.fr` and `dev.es`. Files that are not in `en-de` are
read from its parent folder. `en-de/removed.txt` may list the numbers of training lines to skip. The folder
`everyday_tables` contains sentences that were written for this model. `docs/benchmarks/everyday.md` describes the
sources and the files.
"""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from tests.benchmarks.everyday_spans import filled, pairs_with_spans
from tests.benchmarks.everyday_variants import QUOTATION_MARKS, Pair, bare, lower, renamed, typeset
from tests.benchmarks.everyday_words import dictionary, far_lines

LANGUAGES = ("en", "de", "fr", "es")
PAIRS = tuple(combinations(LANGUAGES, 2))
"""All pairs of languages. The files of a pair are used in both translation directions."""
DEV_PAIRS, OFFICE_DEV = 500, 150
"""Number of pairs for the dev set from Tatoeba, and number of sentences from LibreOffice in all four languages."""
MAX_RATIO = 3.0
MAX_TRANSLATIONS = 2
"""Maximum number of pairs with the same sentence on one side, if pairs are joined through shared English sentences."""
BARE, LOWER, UPPER, TYPESET, NAMES = 0.25, 0.25, 0.02, 0.15, 0.5
"""Shares of the pairs from which variants are written."""
FRAMED = 5000
FILLED = 60
"""Number of pairs with spans that are written for each template."""
MAX_LABEL_WORDS = 4
PART = 25
"""Minimum number of letters and digits of a test sentence that no training sentence may contain."""

Texts = dict[str, list[Pair]]
"""Pairs from each source of data, such as `tatoeba`, or for each language."""

_SPACES, _NUMBER, _WORD = re.compile(r"\s+"), re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
_QUOTED = re.compile('"\\s?([^"]*?)\\s?"')
_CODE = re.compile(r'[=(;,&+]"|"\s?[&+;)=]|[=<>&+]\s"')
_REPLACED = dict.fromkeys("’‘`´", "'") | dict.fromkeys("“”„«»‟", '"') | {"—": "–"}
_INVISIBLE = "\u00ad\u200b\ufeff"
"""Soft hyphen, zero-width space and byte order mark."""
_CHARACTERS = str.maketrans(_REPLACED | dict.fromkeys(_INVISIBLE, ""))
_TABLES = Path(__file__).parent / "everyday_tables"


def normalized(sentence: str) -> str:
    """Return the letters and digits of a sentence in lower case, to compare it with other sentences."""
    return "".join(re.findall(r"[^\W_]", sentence.lower()))


def tidy(sentence: str, language: str) -> str:
    """Return a sentence with single spaces, straight apostrophes and the usual quotation marks of its language.

    Strings in spreadsheet formulas keep straight quotation marks. In French, a space precedes "?", "!", ";" and ":".
    """
    plain = _SPACES.sub(" ", unicodedata.normalize("NFC", sentence).translate(_CHARACTERS)).strip()
    if not _CODE.search(plain):
        plain = _QUOTED.sub(QUOTATION_MARKS[language], plain)
    if language == "fr":
        plain = re.sub(r"(?<=[\w»\")])([?!;:]+)(?=\s|$)", r" \1", plain)
    return plain.strip()


def is_clean(pair: Pair) -> bool:
    """Return whether both sentences have only Latin letters, similar lengths, and the same long numbers."""
    words = _WORD.findall(" ".join(pair))
    numbers = [Counter(number for number in _NUMBER.findall(side) if len(number) > 2) for side in pair]
    shorter, longer = sorted(map(len, pair))
    return (
        all(map(normalized, pair))
        and all(unicodedata.name(letter, "").startswith("LATIN") for letter in {*"".join(words)})
        and longer <= MAX_RATIO * (shorter + 8)
        and numbers[0] == numbers[1]
    )


def cleaned(pairs: Iterable[Pair], languages: Sequence[str]) -> list[Pair]:
    """Apply `tidy` to both sentences of each pair. Return the pairs that are clean, without duplicates."""
    tidied = ((tidy(first, languages[0]), tidy(second, languages[1])) for first, second in pairs)
    return list(dict.fromkeys(filter(is_clean, tidied)))


def without_sentences_of(pairs: Iterable[Pair], test: Iterable[Sequence[str]]) -> list[Pair]:
    """Remove pairs that contain a test sentence, and duplicate pairs.

    A pair is removed if one of its sentences equals a test sentence, or contains a test sentence that has at least PART
    letters and digits.
    """
    tested = {normalized(side) for row in test for side in row}
    beginnings = {sentence[:PART] for sentence in tested if len(sentence) >= PART}

    def is_new(side: str) -> bool:
        text = normalized(side)
        starts = (start for start in range(len(text) - PART + 1) if text[start : start + PART] in beginnings)
        return text not in tested and not any(
            text[start:end] in tested for start in starts for end in range(start + PART, len(text) + 1)
        )

    return [pair for pair in dict.fromkeys(pairs) if all(map(is_new, pair))]


def joined(first: Iterable[Pair], second: Iterable[Pair]) -> list[Pair]:
    """Pair sentences of two languages that have the same English translation.

    Each sentence is in at most MAX_TRANSLATIONS pairs for one English sentence.

    Args:
        first: Pairs of English and the first language.
        second: Pairs of English and the second language.
    """
    translations: tuple[dict[str, list[str]], ...] = defaultdict(list), defaultdict(list)
    for side, pairs in enumerate((first, second)):
        for english, other in pairs:
            translations[side][english].append(other)
    found: dict[Pair, None] = {}
    for english in translations[0].keys() & translations[1].keys():
        one, two = (each[english] for each in translations)
        for number in range(min(max(len(one), len(two)), MAX_TRANSLATIONS * min(len(one), len(two)))):
            found[one[number % len(one)], two[number % len(two)]] = None
    return sorted(found)


def read_pairs(english: str | Path, other: str | Path) -> list[Pair]:
    """Read sentence pairs from two text files. Line n of one file is the translation of line n of the other file."""
    return list(zip(*(Path(path).read_text("utf-8").split("\n")[:-1] for path in (english, other)), strict=True))


def read_folder(folder: Path, name: str, language: str) -> list[Pair]:
    """Read pairs of English and another language from a folder, without the lines that `removed.txt` lists."""
    own = folder / f"en-{language}"
    place = own if (own / f"{name}.en").exists() else folder
    removed = own / "removed.txt"
    lines = removed.read_text("utf-8").split() if removed.exists() and name == "train" else []
    pairs = read_pairs(place / f"{name}.en", place / f"{name}.{language}")
    left_out = set(map(int, lines))
    return [pair for line, pair in enumerate(pairs, 1) if line not in left_out]


def read_tables(pattern: str) -> list[list[str]]:
    """Return the rows of all tables in `everyday_tables` whose names match a pattern, with one cell per language."""
    lines = [line for path in sorted(_TABLES.glob(f"{pattern}.tsv")) for line in path.read_text("utf-8").splitlines()]
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def write(folder: Path, name: str, rows: Iterable[Sequence[str]], languages: Sequence[str] = ("en", "de")) -> None:
    """Write each column of a table to the file `NAME.LANGUAGE`, one sentence per line."""
    rows = list(rows)
    for side, language in enumerate(languages):
        (folder / f"{name}.{language}").write_text("".join(f"{row[side]}\n" for row in rows), "utf-8")
    print(f"{name}: {len(rows):,} pairs")


def prepare(tatoeba: Path, libreoffice: Path, folder: Path) -> None:
    """Write the training and dev files of the spec and the test sets, after cleaning the sentence pairs.

    No training file contains a sentence of a dev or test set. For each test file, another file lists the numbers of the
    lines that are far from the training text (see `everyday_words.far_lines`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    everyday = {code: cleaned(read_folder(tatoeba, "train", code), ("en", code)) for code in LANGUAGES[1:]}
    office = {code: cleaned(read_folder(libreoffice, "train", code), ("en", code)) for code in LANGUAGES[1:]}
    test: list[Sequence[str]] = list(zip(*(_lines(libreoffice / f"dev.{code}") for code in LANGUAGES), strict=True))
    write(folder, "office-test", test, LANGUAGES)
    for code in LANGUAGES[1:]:
        pairs = read_folder(tatoeba, "dev", code)
        write(folder, f"tatoeba-test.en-{code}", pairs, ("en", code))
        test += pairs
    dev = _dev_sets(everyday, office, test, generator)
    for languages, rows in dev.items():
        write(folder, f"dev.{'-'.join(languages)}", rows, languages)
    written = read_tables("sentences/*")
    for name in ("ordinary-test", "phrases-test"):
        test += (held_out := read_tables(name))
        write(folder, name, held_out, LANGUAGES)
    forbidden = [*test, *(row for rows in dev.values() for row in rows)]
    sentences: dict[str, set[str]] = defaultdict(set)
    for languages in PAIRS:
        own: Texts = {}
        for name, data in (("tatoeba", everyday), ("office", office)):
            first, second = languages
            pairs = data[second] if first == "en" else joined(data[first], data[second])
            own[name] = without_sentences_of(filter(is_clean, pairs), forbidden)
        own["sentences"] = without_sentences_of(cleaned(_columns(written, languages), languages), forbidden)
        for side, language in enumerate(languages):
            sentences[language].update(pair[side] for pairs in own.values() for pair in pairs)
        own["spans"] = list(_spans(own, languages, generator))
        own["phrases"] = list(_phrases(own, languages))
        for name, pairs in own.items():
            write(folder, f"{name}.{'-'.join(languages)}", without_sentences_of(pairs, forbidden), languages)
        both = [*own["tatoeba"], *own["office"], *own["sentences"]]
        for source, target in ((0, 1), (1, 0)):
            direction = languages[source], languages[target]
            variants = _variants([(pair[source], pair[target]) for pair in both], direction, generator)
            write(folder, f"variants.{'-'.join(direction)}", without_sentences_of(variants, forbidden), direction)
    for file in sorted(folder.glob("*-test*.*")):
        lines = far_lines(_lines(file), sorted(sentences[file.suffix[1:]]))
        (folder / f"far.{file.name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        print(f"{file.name}: {len(lines):,} lines far from the training text")


def _columns(rows: Iterable[Sequence[str]], languages: Sequence[str]) -> Iterator[Pair]:
    """Yield the sentences in two languages from each row of a table."""
    first, second = map(LANGUAGES.index, languages)
    for row in rows:
        yield row[first], row[second]


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def _dev_sets(
    everyday: Texts, office: Texts, test: Iterable[Sequence[str]], generator: random.Random
) -> dict[tuple[str, str], list[Sequence[str]]]:
    """Return a dev set for each pair of languages, with pairs from Tatoeba and LibreOffice that are not in `test`."""
    dev: dict[tuple[str, str], list[Sequence[str]]] = {languages: [] for languages in PAIRS}
    counts = Counter(normalized(side) for data in everyday.values() for pair in data for side in pair)
    for code, pairs in everyday.items():
        new = without_sentences_of(pairs, test)
        single = [pair for pair in new if all(counts[normalized(side)] == 1 for side in pair)]
        dev["en", code] += generator.sample(single, DEV_PAIRS)
    translations = [dict(without_sentences_of(pairs, test)) for pairs in office.values()]
    shared = sorted(set.intersection(*map(set, translations)))
    for english in generator.sample([each for each in shared if " " in each], OFFICE_DEV):
        row = dict(zip(LANGUAGES, (english, *(each[english] for each in translations)), strict=True))
        for first, second in PAIRS:
            dev[first, second].append((row[first], row[second]))
    return dev


def _variants(pairs: Sequence[Pair], languages: Sequence[str], generator: random.Random) -> Iterator[Pair]:
    """Yield variants of random pairs, for example in lower case. The first sentence of a pair is the source."""
    for pair in pairs:
        if pair[0].endswith(".") and pair[1].endswith(".") and generator.random() < BARE:
            yield bare(pair[0]), bare(pair[1])
        if generator.random() < LOWER:
            yield lower(*pair)
        if generator.random() < UPPER:
            yield pair[0].upper(), pair[1].upper()
        if generator.random() < TYPESET and (changed := typeset(*pair, languages[0])) != pair:
            yield changed
        if generator.random() < NAMES and (changed := renamed(pair, languages, generator)) != pair:
            yield changed


def _spans(own: Texts, languages: Sequence[str], generator: random.Random) -> Iterator[Pair]:
    """Yield pairs that contain random numbers, dates, links and names, made from `own` and from templates."""
    for template in _columns(read_tables("templates"), languages):
        for _ in range(FILLED):
            first, second = filled(template, languages, generator)
            yield first, second
    for pairs in own.values():
        yield from pairs_with_spans(pairs, languages, min(FRAMED, len(pairs)), generator)


def _phrases(own: Texts, languages: Sequence[str]) -> Iterator[Pair]:
    """Yield pairs of short texts: phrases from the tables, short labels from LibreOffice in capitals, and words."""
    for pair in _columns(read_tables("phrases"), languages):
        yield pair
        if pair[0][-1].isalpha():
            colon = [" :" if language == "fr" else ":" for language in languages]
            yield pair[0] + colon[0], pair[1] + colon[1]
            yield pair[0].upper(), pair[1].upper()
    for pair in own["office"]:
        is_short = max(len(side.split()) for side in pair) <= MAX_LABEL_WORDS and not re.search(r"[\d_(=]", pair[0])
        if is_short and not any(side.isupper() for side in pair):
            yield pair[0].upper(), pair[1].upper()
    texts = [*own["tatoeba"], *own["office"], *own["sentences"]]
    sentences = [pair for pair in texts if pair[0].endswith((".", "?", "!"))]
    for pair in dictionary(sentences):
        yield pair
        yield pair[0][0].upper() + pair[0][1:], pair[1][0].upper() + pair[1][1:]


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    prepare(*map(Path, sys.argv[1:]))


if __name__ == "__main__":
    main()
