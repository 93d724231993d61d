"""Functions that read a corpus as sentence pairs, from files, archives, treebanks or the built-in corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from specs import Archive, Corpus, Files, Grammar, HeldOut, Parsing, Part, Spec, Table, Treebank, ZooError
from zoo.data import builtin
from zoo.data.text_files import digest, file_errors, is_sgml, read_sentences
from zoo.files.archive import extract, extracted
from zoo.files.download import fetch, recorded_sha256
from zoo.report import Report
from zoo.text.lines import without_control
from zoo.text.trees.bracketed import read_treebank
from zoo.text.trees.tree import ROOT, Tree, unescape_brackets

Split = Literal["train", "dev", "test"]
Pair = tuple[str, str]
SPLITS: tuple[Split, Split, Split] = ("train", "dev", "test")

_BUILTIN_PAIR_BYTES = 150  # average size of a pair of the built-in corpus
_GZIP_RATIO = 4  # assumed size of a text relative to its compressed file


class MissingFileError(ZooError):
    """Error because a file of the corpus does not exist. `name` is the file's path as the spec gives it."""

    def __init__(self, problem: str, *, hint: str, name: str, where: str | None = None) -> None:
        super().__init__(problem, hint=hint, where=where)
        self.name = name


class ParallelCorpus:
    """Corpus of a spec as sentence pairs, which each call reads from the files again."""

    def __init__(self, spec: Spec, report: Report) -> None:
        """Prepare to read a corpus.

        Args:
            spec: Spec that describes the corpus.
            report: Receives warnings and the progress of downloads.

        Raises:
            ZooError: A part has one file or column for both sides, or more pairs than the built-in corpus.
        """
        self.corpus = spec.corpus
        self._trees = isinstance(spec.task, Parsing)
        self._report = report
        self._members: dict[Archive, tuple[Path, Path]] = {}
        for split in SPLITS:
            for number, part in enumerate(getattr(self.corpus, split)):
                if isinstance(part, (Files, Archive)):
                    self._check_sides(part, f"corpus.{split}[{number}]")
                elif isinstance(part, Table) and part.source_column == part.target_column:
                    problem = f"`corpus.{split}[{number}]` has the same column for source and target"
                    hint = "set `source_column` and `target_column` to different columns"
                    raise ZooError(f"{problem}: {part.source_column}", hint=hint)
                elif isinstance(part, Grammar):
                    builtin.sentences(split, part.grammar)

    def _check_sides(self, part: Files | Archive, name: str) -> None:
        """Raise ZooError if source and target of a part of the corpus are the same file."""
        if os.path.normpath(part.source) == os.path.normpath(part.target):
            hint = "give two files: line n of the target translates line n of the source"
            raise ZooError(f"`{name}` has the same file for source and target: `{part.source}`", hint=hint)

    def held_out(self, split: Split) -> int:
        """Return how many pairs of the training text are held out for `split` (dev or test)."""
        return sum(part.held_out for part in getattr(self.corpus, split) if isinstance(part, HeldOut))

    def pairs(self, split: Split) -> Iterator[Pair]:
        """Yield the pairs of a split, unchanged and in the order of the files.

        Pairs of `train` that are held out for dev or test are yielded for `train`. Archives that are not on this
        machine are downloaded.

        Raises:
            ZooError: A file is missing, empty, damaged or not UTF-8, or a source and its target file have different
                numbers of lines.
        """
        for part in range(len(getattr(self.corpus, split))):
            yield from self.part_pairs(split, part)

    def part_pairs(self, split: Split, number: int) -> Iterator[Pair]:
        """Yield the pairs of part `number` of a split. Raise the same errors as `pairs`."""
        part = getattr(self.corpus, split)[number]
        if isinstance(part, Grammar):
            pairs = builtin_pairs(split, part.grammar, trees=self._trees)
            yield from ((target, source) for source, target in pairs) if _is_turned(part, self.corpus) else pairs
        elif isinstance(part, Treebank):
            for path in self._treebank_files(part):
                # Clean lines before parsing, so that a control character in a word is an error with a line number.
                yield from map(tree_pair, read_treebank(map(without_control, read_sentences(path)), str(path)))
        elif isinstance(part, Table):
            yield from _table_pairs(self._existing_file(part.tsv), part, split)
        elif isinstance(part, (Files, Archive)):
            source, target = self._side_files(part)
            yield from _file_pairs(source, target)

    def bytes(self) -> int:
        """Return an estimate of the size of the uncompressed text in bytes. Download archives that are missing here."""
        total = 0
        for part in (part for split in SPLITS for part in getattr(self.corpus, split)):
            if isinstance(part, Grammar):
                total += _BUILTIN_PAIR_BYTES * part.grammar
            elif not isinstance(part, HeldOut):
                for path in self._treebank_files(part) if isinstance(part, Treebank) else self._side_files(part):
                    with file_errors(path):
                        total += path.stat().st_size * (_GZIP_RATIO if path.suffix == ".gz" else 1)
        return total

    def identity(self) -> dict[str, Any]:
        """Return JSON data that identifies the corpus by its content, such as the hashes of its files.

        The same text has the same identity in any folder. An archive is only downloaded if neither the spec nor
        `corpus.lock` contains its hash.
        """
        return {split: [self._part_identity(part) for part in getattr(self.corpus, split)] for split in SPLITS}

    def _part_identity(self, part: Part) -> list[Any]:
        if isinstance(part, Table):
            return ["table", part.source_column, part.target_column, *map(digest, self._side_files(part))]
        if isinstance(part, Grammar):
            turned = ["from German"] if _is_turned(part, self.corpus) else []
            return ["grammar's trees" if self._trees else "grammar", builtin.VERSION, part.grammar, *turned]
        if isinstance(part, Treebank):
            return ["trees", *map(digest, self._treebank_files(part))]
        if isinstance(part, HeldOut):
            return ["held out", part.held_out]
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive) or fetch(part.archive, None, self._report).sha256
            return ["archive", known, part.source, part.target]
        return ["files", *(["sgm" if is_sgml(path) else "lines", digest(path)] for path in self._side_files(part))]

    def _side_files(self, part: Files | Archive | Table) -> tuple[Path, ...]:
        if isinstance(part, Table):
            return (self._existing_file(part.tsv),)
        if isinstance(part, Files):
            return self._existing_file(part.source), self._existing_file(part.target)
        if part not in self._members:
            self._members[part] = _archive_members(part, self._report)
        return self._members[part]

    def _treebank_files(self, part: Treebank) -> list[Path]:
        """Return the files of a treebank, sorted by name."""
        folder = corpus_path(self.corpus, part.trees)
        if not os.path.isdir(folder):  # Path.is_dir raises an error for invalid file names
            return [self._existing_file(part.trees)]
        with file_errors(folder):
            files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        if not files:
            raise ZooError(f"the folder of trees `{folder}` contains no file", hint="give another folder, or a file")
        return files

    def _existing_file(self, name: str) -> Path:
        path = corpus_path(self.corpus, name)
        if not os.path.isfile(path):
            hint = "correct the path, or set `corpus.folder=DIR` to the folder that it is relative to"
            problem = "is a folder, not a file" if os.path.isdir(path) else "does not exist"
            raise MissingFileError(f"the corpus file `{path}` {problem}", hint=hint, name=name)
        return path


def corpus_path(corpus: Corpus, name: str) -> Path:
    """Return the path of a file whose name the spec's corpus gives. `~` is replaced by the user's home folder."""
    return Path(os.path.expanduser(corpus.folder)) / os.path.expanduser(name)


def missing_part(spec: Spec) -> str | None:
    """Describe the first part of a spec's corpus that is missing on this machine. Return None if none is missing.

    No file is downloaded or read.
    """
    if not spec.corpus.train:
        return "it has no training corpus"
    for part in spec.corpus.parts:
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive)
            if known is None or extracted(known, (part.source, part.target)) is None:
                return f"its corpus is missing: {os.path.basename(part.archive)} has not been downloaded"
        elif not isinstance(part, Grammar | HeldOut):
            names = [getattr(part, field) for field in ("source", "target", "tsv", "trees") if hasattr(part, field)]
            for path in (corpus_path(spec.corpus, name) for name in names):
                if not path.exists():
                    return f"its corpus is missing: `{path}` does not exist"
    return None


def corpus_name(corpus: Corpus) -> str:
    """Return a short name for the training text, such as its folder or the name of its first file."""
    if not corpus.train:
        return "no corpus"
    first, *rest = corpus.train
    if isinstance(first, Grammar):
        return f"the built-in corpus ({sum(part.grammar for part in corpus.train if isinstance(part, Grammar)):,})"
    folder = Path(corpus.folder).name
    if not isinstance(first, Archive) and folder:
        return folder
    assert not isinstance(first, HeldOut)
    field = {Archive: "archive", Files: "source", Table: "tsv", Treebank: "trees"}[type(first)]
    name = os.path.basename(getattr(first, field))
    return f"{name} and {len(rest)} more" if rest else name


def _is_turned(part: Grammar, corpus: Corpus) -> bool:
    """Return whether a part of a corpus uses the built-in English-German pairs with German as the source."""
    return corpus.direction(part)[0] == "de"


def builtin_pairs(split: Split, count: int, *, trees: bool) -> Iterator[Pair]:
    """Yield pairs of the built-in corpus: sentences with their translations or, if `trees`, with their trees."""
    for source, target, tree in builtin.sentences(split, count):
        yield (" ".join(builtin.words(tree)), f"({ROOT} {tree})") if trees else (source, target)


def tree_pair(tree: Tree) -> Pair:
    """Return the sentence of a tree as the source, and its bracketed notation as the target."""
    return " ".join(map(unescape_brackets, tree.leaves())), str(tree)


def _file_pairs(source: Path, target: Path) -> Iterator[Pair]:
    sources, targets = read_sentences(source), read_sentences(target)
    count = 0
    for first, second in zip_longest(sources, targets):
        if first is None or second is None:
            longer = count + 1 + sum(1 for _ in (sources if second is None else targets))
            counts = (count, longer) if first is None else (longer, count)
            raise ZooError(
                f"`{source}` has {counts[0]:,} lines, but `{target}` has {counts[1]:,}",
                hint="line n of the target must translate line n of the source: both need the same number of lines",
            )
        yield first, second
        count += 1
    if not count:
        unit = "<seg>" if is_sgml(source) else "line"
        raise ZooError(f"`{source}` contains no {unit}", hint="give another file, or remove this part of the corpus")


def _table_pairs(path: Path, part: Table, split: Split) -> Iterator[Pair]:
    """Yield the pairs of a TSV file. A missing cell of a training line is empty, so that cleaning drops the pair."""
    last = max(part.source_column, part.target_column)
    for number, line in enumerate(read_sentences(path), start=1):
        cells = line.split("\t")
        # If the first line is too short, the file probably has another separator.
        if len(cells) < last and (number == 1 or split != "train"):
            hint = "separate the columns with tabs, or correct `source_column` and `target_column`"
            raise ZooError(f"the line has no column {last}", where=f"{path}:{number}", hint=hint)
        cells += [""] * (last - len(cells))
        yield cells[part.source_column - 1], cells[part.target_column - 1]


def _archive_members(part: Archive, report: Report) -> tuple[Path, Path]:
    names = (part.source, part.target)
    known = part.sha256 or recorded_sha256(part.archive)
    members = extracted(known, names) if known else None
    # `fetch` raises an error if the archive does not have the hash in the spec.
    source, target = members or extract(fetch(part.archive, part.sha256, report), names)
    return source, target
