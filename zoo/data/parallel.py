"""A corpus as sentence pairs: lines of local files, members of archives, sentences of the built-in grammar."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from specs import Archive, Files, Grammar, HeldOut, Parsing, Spec, Treebank, ZooError
from zoo.data import builtin
from zoo.data.presence import place
from zoo.data.sgml import is_sgml
from zoo.data.text_file import digest, kind, language_of, lines, reading
from zoo.files.archive import extract, extracted
from zoo.files.download import fetch, recorded_sha256
from zoo.report import Report
from zoo.text.lines import without_control
from zoo.text.trees.bracketed import plain, trees
from zoo.text.trees.tree import Tree, unescaped

Split = Literal["train", "dev", "test"]
Pair = tuple[str, str]
SPLITS: tuple[Split, Split, Split] = ("train", "dev", "test")

_READ = 1 << 20


class ParallelText:
    """The sentence pairs of a spec's corpus, read anew every time they are asked for. To be closed in the end."""

    def __init__(self, spec: Spec, report: Report, scratch: Path | None = None) -> None:
        """In the folder `scratch`, if there is one, what takes long to make is kept until the end."""
        self.corpus, self._scratch = spec.corpus, scratch
        self._trees = isinstance(spec.task, Parsing)
        self._report = report
        self._places: dict[Archive, tuple[Path, Path]] = {}
        self._made: dict[tuple[Split, Grammar], IO[bytes]] = {}
        for split in SPLITS:
            for number, part in enumerate(getattr(self.corpus, split)):
                if isinstance(part, (Files, Archive)):
                    self._check_sides(part, f"corpus.{split}[{number}]")

    def _check_sides(self, part: Files | Archive, name: str) -> None:
        """That a part has two sides, and that they are not called by the other's language."""
        if os.path.normpath(part.source) == os.path.normpath(part.target):
            hint = "name two files: line n of the one is the translation of line n of the other"
            raise ZooError(f"`{name}` has the same file for source and target: `{part.source}`", hint=hint)
        languages = self.corpus.source, self.corpus.target
        if languages[0] != languages[1] and (language_of(part.target), language_of(part.source)) == languages:
            self._report.warn(
                f"`{name}` seems to have its sides the wrong way round: its source, of the language "
                f"`{languages[0]}`, is `{part.source}`, and its target, of `{languages[1]}`, is `{part.target}`"
            )

    def close(self) -> None:
        """Gives up what was written down on the way."""
        for file in self._made.values():
            file.close()
        self._made.clear()

    def held_out(self, split: Split) -> int:
        """How many pairs `split` takes out of train."""
        return sum(part.held_out for part in getattr(self.corpus, split) if isinstance(part, HeldOut))

    def pairs(self, split: Split) -> Iterator[Pair]:
        """The pairs of a split in their order, as they are written, but for those it holds out of train.

        Fetches archives that are not here yet. Raises ZooError for a file that is missing, empty, damaged or
        not UTF-8, and for two that differ in the number of their lines.
        """
        for part in range(len(getattr(self.corpus, split))):
            yield from self.pairs_of(split, part)

    def pairs_of(self, split: Split, number: int) -> Iterator[Pair]:
        """Those of one part of the split. Raises ZooError as `pairs` does."""
        part = getattr(self.corpus, split)[number]
        if isinstance(part, Grammar):
            yield from self._made_of(split, part)
        elif isinstance(part, Treebank):
            for path in self._treebank(part):
                # As all text is taken: what was no space in a word is one, and is told with its line.
                yield from map(sentence, trees(map(without_control, lines(path)), str(path)))
        elif isinstance(part, (Files, Archive)):
            yield from _together(*self._places_of(part))

    def bytes(self) -> int:
        """About how much text there is, uncompressed. Fetches archives that are not here yet."""
        total = 0
        for part in (part for split in SPLITS for part in getattr(self.corpus, split)):
            if isinstance(part, Grammar):
                total += 150 * part.grammar
            elif not isinstance(part, HeldOut):
                for path in self._treebank(part) if isinstance(part, Treebank) else self._places_of(part):
                    with reading(path):
                        total += path.stat().st_size * (4 if path.suffix == ".gz" else 1)
        return total

    def identity(self) -> dict[str, Any]:
        """What the pairs follow from, by content: the same text in another place is the same.

        An archive is fetched only where its hash is known neither to the spec nor to `corpus.lock`.
        """
        return {split: [self._identity(part) for part in getattr(self.corpus, split)] for split in SPLITS}

    def _identity(self, part: Grammar | Files | Archive | Treebank | HeldOut) -> list[Any]:
        if isinstance(part, Grammar):
            return ["grammar's trees" if self._trees else "grammar", builtin.VERSION, part.grammar]
        if isinstance(part, Treebank):
            return ["trees", *map(digest, self._treebank(part))]
        if isinstance(part, HeldOut):
            return ["held out", part.held_out]
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive) or fetch(part.archive, None, self._report).sha256
            return ["archive", known, part.source, part.target]
        return ["files", *([kind(path), digest(path)] for path in self._places_of(part))]

    def _made_of(self, split: Split, part: Grammar) -> Iterator[Pair]:
        """The built-in sentences, written down: to make them takes longer than all else that is done with them."""
        if (split, part) in self._made:
            yield from _written_down(self._made[split, part])
            return
        if self._scratch is None:
            yield from own_pairs(split, part.grammar, trees=self._trees)
            return
        self._scratch.mkdir(parents=True, exist_ok=True)
        with ExitStack() as unless_whole:
            file = unless_whole.enter_context(TemporaryFile(dir=self._scratch))
            for source, target in own_pairs(split, part.grammar, trees=self._trees):
                file.write(f"{source}\t{target}\n".encode())
                yield source, target
            unless_whole.pop_all()
        self._made[split, part] = file

    def _places_of(self, part: Files | Archive) -> tuple[Path, Path]:
        if isinstance(part, Files):
            return self._local(part.source), self._local(part.target)
        if part not in self._places:
            self._places[part] = _fetched(part, self._report)
        return self._places[part]

    def _treebank(self, part: Treebank) -> list[Path]:
        """Its files in the order of their names."""
        folder = place(self.corpus, part.trees)
        if not os.path.isdir(folder):  # Path's raises for a name that none can have
            return [self._local(part.trees)]
        with reading(folder):
            files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        if not files:
            raise ZooError(f"there is no file in the folder of trees `{folder}`", hint="name another, or a file")
        return files

    def _local(self, written: str) -> Path:
        path = place(self.corpus, written)
        if not os.path.isfile(path):
            hint = "say where the corpus is with `corpus.folder=DIR`, from the current folder on; its paths start there"
            problem = "is a folder, not a file" if os.path.isdir(path) else "is not there"
            raise ZooError(f"the corpus file `{path}` {problem}", hint=hint)
        return path


def own_pairs(split: Split, count: int, *, trees: bool) -> Iterator[Pair]:
    """Of the built-in corpus: sentences and their translations, or their words and their trees."""
    for pair in builtin.sentences(split, count):
        yield sentence(plain(pair.tree)) if trees else (pair.source, pair.target)


def sentence(tree: Tree) -> Pair:
    """The words of a tree as a sentence has them, and the tree."""
    return " ".join(map(unescaped, tree.leaves())), str(tree)


def _written_down(file: IO[bytes]) -> Iterator[Pair]:
    """From its beginning; several may read it by turns."""
    offset = 0
    while True:
        file.seek(offset)
        some = file.readlines(_READ)
        offset = file.tell()
        if not some:
            return
        for line in some:
            source, _, target = line.decode().removesuffix("\n").partition("\t")
            yield source, target


def _together(source: Path, target: Path) -> Iterator[Pair]:
    left, right = lines(source), lines(target)
    count = 0
    for first, second in zip_longest(left, right):
        if first is None or second is None:
            longer = count + 1 + sum(1 for _ in (left if second is None else right))
            counts = (count, longer) if first is None else (longer, count)
            raise ZooError(
                f"`{source}` has {counts[0]:,} lines and `{target}` has {counts[1]:,}",
                hint="line n of the one must be the translation of line n of the other: both need as many lines",
            )
        yield first, second
        count += 1
    if not count:
        what = "no <seg> in it" if is_sgml(source) else "no line in it"
        raise ZooError(f"`{source}` has {what}", hint="name another file, or leave the part out")


def _fetched(part: Archive, report: Report) -> tuple[Path, Path]:
    names = (part.source, part.target)
    known = part.sha256 or recorded_sha256(part.archive)
    found = extracted(known, names) if known else None
    # A hash in the spec that the archive does not have is told by `fetch`.
    source, target = found or extract(fetch(part.archive, part.sha256, report), names)
    return source, target
