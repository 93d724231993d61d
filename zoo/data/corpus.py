"""Read the examples of a corpus from files, archives, treebanks or the built-in corpus."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from specs import Archive, Corpus, Digits, Files, Grammar, HeldOut, Spec, Synthetic, Table, Treebank, ZooError
from specs.corpus import SPLITS, CorpusPart, Direction, Split
from specs.corpus_paths import language_suffix
from zoo.data import builtin
from zoo.features.modality import FeatureModality, identify, modality_of
from zoo.files.archive import extract, extracted
from zoo.files.download import fetch, recorded_sha256
from zoo.files.manifest import sha256
from zoo.report import Report, amount, size
from zoo.text.lines import clean, file_errors, is_sgml, read_sentences
from zoo.text.trees.tree import unescape_brackets, words
from zoo.text.vocabulary import MODALITIES

Example = Mapping[str, str]
"""Raw data of each stream of an example, such as a sentence and its translation, in the order of the task."""
_Part = TypeVar("_Part", bound=CorpusPart)

_BUILTIN_PAIR_BYTES = 150  # average size of a pair of the built-in corpus
_DIGITS_BYTES = 50_000  # average size of the frames for a string of digits
_EXAMPLE_OVERHEAD = 200  # bytes of memory per example, in addition to its text
_MAX_SCORED_TEXT = 256_000_000
_GZIP_RATIO = 4  # assumed size of a text relative to its compressed file


class MissingFileError(ZooError):
    """Error for a corpus file that does not exist. `name` is the path of the file, as written in the spec."""

    def __init__(self, problem: str, *, hint: str, name: str) -> None:
        super().__init__(problem, hint=hint)
        self.name = name


class CorpusReader:
    """Reader for the corpus of a spec. Examples are not cached: each method call reads the files again."""

    def __init__(self, spec: Spec, report: Report) -> None:
        """Create a reader for the corpus of a spec.

        Args:
            spec: Spec that describes the corpus.
            report: Receives warnings and the progress of downloads.

        Raises:
            ZooError: The source and target of a corpus part are the same file or column, or the built-in corpus has too
                few pairs.
        """
        self.corpus = spec.corpus
        parts = [(part, split) for split in SPLITS for part in getattr(self.corpus, split)]
        self.readers = [_READERS[type(part)](part, split, spec, report) for part, split in parts]
        for reader in self.readers:
            reader.check()

    def readers_of(self, split: Split) -> list[PartReader[Any]]:
        """Return the readers of the corpus parts in a split."""
        return [reader for reader in self.readers if reader.split == split]

    def held_out(self, split: Split) -> int:
        """Return the number of training examples that are held out for `split` (dev or test)."""
        return sum(part.held_out for part in getattr(self.corpus, split) if isinstance(part, HeldOut))

    def missing_part(self) -> str | None:
        """Return a message about the first missing part of the corpus. Return None if the corpus is complete.

        A part counts as missing if its files are not on this machine, or if models generate its text before training.
        Even text that has already been generated counts as missing. No files are downloaded or read.
        """
        if not self.corpus.train:
            return "it has no training corpus"
        return next(filter(None, (reader.missing() for reader in self.readers)), None)

    @property
    def short_name(self) -> str:
        """Short name for the training text, such as the name of its folder or of its first file."""
        return self.readers[0].corpus_name() if self.corpus.train else "no corpus"

    def scored_examples(self, split: Split) -> list[tuple[Example, Direction]]:
        """Return the cleaned examples of the dev or test set, with their languages.

        Raises:
            ZooError: There is too much text, or `PartReader.examples` raises an error.
        """
        examples, memory = [], 0
        for reader in self.readers_of(split):
            for example in reader.examples():
                examples.append((cleaned_example(example), reader.direction))
                memory += sum(map(len, example.values())) + _EXAMPLE_OVERHEAD
                if memory > _MAX_SCORED_TEXT:
                    hint = "use a few thousand pairs, because every pair is translated and scored"
                    raise ZooError(f"`corpus.{split}` has more than {size(_MAX_SCORED_TEXT)} of text", hint=hint)
        return examples

    def bytes(self) -> int:
        """Estimate the size of the corpus in bytes, with .gz files unpacked. Download archives that are missing."""
        return sum(reader.bytes() for reader in self.readers)

    def identity(self) -> dict[str, Any]:
        """Return JSON data that identifies the corpus by its content, such as the hashes of its files.

        The same text has the same identity in any folder. An archive is only downloaded if its hash is neither in the
        spec nor in `corpus.lock`.
        """
        return {split: [reader.identity() for reader in self.readers_of(split)] for split in SPLITS}


class PartReader(ABC, Generic[_Part]):
    """Base class for readers of corpus parts. `_READERS` maps each kind of part to its subclass."""

    has_user_text: ClassVar[bool] = False
    """Whether users chose the files, so that their text may be in different languages from the ones in the spec."""

    def __init__(self, part: _Part, split: Split, spec: Spec, report: Report) -> None:
        """Create a reader for a part of the train, dev or test set."""
        self.part, self.split = part, split
        self.corpus, self.streams, self.report = spec.corpus, spec.task.streams, report
        self.features = cast(FeatureModality, modality_of(spec.task))
        self.modalities = {name: MODALITIES.get(kind, self.features) for name, kind in self.streams.items()}
        self.direction: Direction = spec.corpus.direction(part)
        self.languages = dict(zip(("source", "target"), self.direction, strict=True))
        self.tag: str | None = getattr(part, "tag", None)  # only parts with languages of their own have this field

    def check(self) -> None:
        """Raise ZooError if the settings for the corpus part are inconsistent, or request more examples than exist.

        No files are read.
        """

    def check_suffixes(self) -> None:
        """Warn about a file whose suffix is the language of the other side, such as `train.de` for English sources."""

    def examples(self) -> Iterator[Example]:
        """Yield the examples of the corpus part, unchanged and in file order. The base class yields nothing.

        The examples of `train` include those that are held out for dev or test. Archives that are not on this
        machine are downloaded.

        Raises:
            ZooError: A file is missing, empty, damaged or not UTF-8, or a source and its target file have different
                numbers of lines.
        """
        return iter(())

    def paths(self) -> Sequence[Path]:
        """Return the local files of the corpus part: one for each stream, a table, or the files in a treebank."""
        return [existing_file(self.corpus, name) for name in self.part.local_paths]

    def listed_paths(self) -> Iterator[str]:
        """Yield the paths of the audio or image files that the corpus part lists. A text part lists no files."""
        names = [name for name, modality in self.modalities.items() if modality.names_files]
        return (example[name] for example in self.examples() for name in names) if names else iter(())

    def identity_of_listed(self) -> list[str]:
        """Return a list with one hash of all listed audio or image files. The list is empty if the part is text."""
        return [identify(self.listed_paths())] if any(each.names_files for each in self.modalities.values()) else []

    def bytes(self) -> int:
        """Estimate the size of the corpus part in bytes, with .gz files unpacked."""
        total = 0
        for path in (*self.paths(), *map(Path, self.listed_paths())):
            with file_errors(path):
                total += path.stat().st_size * (_GZIP_RATIO if path.suffix == ".gz" else 1)
        return total

    @abstractmethod
    def identity(self) -> list[Any]:
        """Return JSON data that identifies the content of the corpus part, such as the hashes of its files."""

    def missing(self) -> str | None:
        """Return an error message if the corpus part is not on this machine, or None. Nothing is downloaded or read."""
        paths = (corpus_path(self.corpus, name) for name in self.part.local_paths)
        return next((f"its corpus is missing: `{path}` does not exist" for path in paths if not path.exists()), None)

    def corpus_name(self) -> str:
        """Return a short name for a training set whose first corpus part is this part."""
        return Path(self.corpus.folder).name or _and_others(self.part.local_paths[0], self.corpus)


class _GrammarReader(PartReader[Grammar]):
    def check(self) -> None:
        builtin.sentences(self.split, self.part.grammar)

    def examples(self) -> Iterator[Example]:
        return builtin.examples(self.split, self.part.grammar, self.streams, self.languages)

    def bytes(self) -> int:
        return _BUILTIN_PAIR_BYTES * self.part.grammar

    def identity(self) -> list[Any]:
        return ["grammar", builtin.VERSION, self.part.grammar, self.languages]

    def corpus_name(self) -> str:
        return f"the built-in corpus ({sum(part.grammar for part in self.corpus.train if isinstance(part, Grammar)):,})"


class _DigitsReader(PartReader[Digits]):
    def examples(self) -> Iterator[Example]:
        for example in self.features.digits().strings(self.split, self.part.digits, self.report):
            yield dict(zip(self.streams, example, strict=True))

    def bytes(self) -> int:
        return _DIGITS_BYTES * self.part.digits

    def identity(self) -> list[Any]:
        return ["digits", self.features.digits().VERSION, self.part.digits]

    def corpus_name(self) -> str:
        return f"digits ({self.part.digits:,} strings)"


class _HeldOutReader(PartReader[HeldOut]):
    def identity(self) -> list[Any]:
        return ["held out", self.part.held_out]


class _SyntheticReader(PartReader[Synthetic]):
    """Reader for a part whose text does not exist yet, because models generate it by translation before training.

    `zoo.training.synthetic` generates the text, and replaces the part with files.
    """

    def identity(self) -> list[Any]:
        hint = "run `zoo prepare SPEC`, which translates the text first"
        raise ZooError(f"`corpus.train` is incomplete: no model has translated `{self.part.text}` yet", hint=hint)

    def missing(self) -> str:
        return f"its corpus is incomplete: before training, {self.part.summary}"


class _TreebankReader(PartReader[Treebank]):
    def paths(self) -> Sequence[Path]:
        """Return the files in the treebank, sorted by name."""
        folder = corpus_path(self.corpus, self.part.trees)
        if not os.path.isdir(folder):  # Path.is_dir raises an error for invalid file names
            return super().paths()
        with file_errors(folder):
            files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        if not files:
            raise ZooError(f"the treebank folder `{folder}` contains no files", hint="use another folder, or a file")
        return files

    def examples(self) -> Iterator[Example]:
        for path in self.paths():
            yield from map(tree_example, MODALITIES["trees"].read(path))

    def identity(self) -> list[Any]:
        return ["trees", *map(sha256, self.paths())]


class _ParallelReader(PartReader[_Part]):
    """Base class for readers of parallel text, which has one file or one column per stream."""

    has_user_text = True
    unit, suffix = "file", ""

    def sides(self) -> dict[str, Any]:
        """Return the name of the file, or the number of the column, for each stream."""
        return {stream: getattr(self.part, f"{stream}{self.suffix}") for stream in self.streams}

    def check(self) -> None:
        sides = list(map(str, self.sides().values()))
        if len(set(map(os.path.normpath, sides))) < len(sides):
            problem = f"a part of `corpus.{self.split}` has the same {self.unit} for source and target: `{sides[0]}`"
            hint = f"set `source{self.suffix}` and `target{self.suffix}` to different {self.unit}s"
            raise ZooError(problem, where=", ".join(self.part.local_paths) or None, hint=hint)


class _FilesReader(_ParallelReader[_Part]):
    """Reader for parallel files: line n of each file belongs to example n."""

    def check_suffixes(self) -> None:
        for (side, own), other in zip(self.languages.items(), reversed(self.direction), strict=True):
            if own != other and language_suffix(file := self.sides().get(side, "")) == other:
                self.report.warn(
                    f"`{file}` is a {side} file in `corpus.{self.split}`, but its suffix is not the {side} language "
                    f"`{own}`: correct the languages, or the order of the files"
                )

    def examples(self) -> Iterator[Example]:
        paths = self.paths()
        streams = [modality.read(path) for modality, path in zip(self.modalities.values(), paths, strict=True)]
        for values in parallel_lines(paths, streams):
            yield dict(zip(self.streams, values, strict=True))

    def identity(self) -> list[Any]:
        files = (["sgm" if is_sgml(path) else "lines", sha256(path)] for path in self.paths())
        return ["files", *files, *self.identity_of_listed()]


class _ArchiveReader(_FilesReader[Archive]):
    def _known(self) -> str | None:
        """Return the SHA-256 of the archive from the spec or `corpus.lock`, or None if neither contains it."""
        return self.part.sha256 or recorded_sha256(self.part.archive)

    def _extracted(self) -> Sequence[Path] | None:
        return extracted(known, list(self.sides().values())) if (known := self._known()) else None

    def paths(self) -> Sequence[Path]:
        # `fetch` raises an error if the archive does not have the hash in the spec.
        archive = partial(fetch, self.part.archive, self.part.sha256, self.report)
        return self._extracted() or extract(archive(), list(self.sides().values()))

    def identity(self) -> list[Any]:
        known = self._known() or fetch(self.part.archive, None, self.report).sha256
        return ["archive", known, *self.sides().values()]

    def missing(self) -> str | None:
        name = os.path.basename(self.part.archive)
        return None if self._extracted() else f"its corpus is missing: {name} has not been downloaded"

    def corpus_name(self) -> str:
        return _and_others(self.part.archive, self.corpus)


class _TableReader(_ParallelReader[Table]):
    unit, suffix = "column", "_column"

    def examples(self) -> Iterator[Example]:
        """Yield the examples of a TSV file.

        Missing cells in a training line become empty cells, so that the line is dropped during cleaning.

        Raises:
            ZooError: The first line, or any line in the dev or test set, has too few columns, or any line has more
                columns than the first line.
        """
        (path,), columns = self.paths(), self.sides()
        last, width = max(columns.values()), 0
        for number, line in enumerate(read_sentences(path), start=1):
            cells = line.split("\t")
            width = width or len(cells)
            if len(cells) > width:
                problem = f"the line has {len(cells)} columns, but the first line has {width}"
                hint = "remove the tabs inside the cells, or give all lines the same number of columns"
                raise ZooError(problem, where=f"{path}:{number}", hint=hint)
            # If the first line is too short, the file probably has a different separator.
            if len(cells) < last and (number == 1 or self.split != "train"):
                hint = "separate the columns with tabs, or correct `source_column` and `target_column`"
                raise ZooError(f"the line has no column {last}", where=f"{path}:{number}", hint=hint)
            cells += [""] * (last - len(cells))
            values = ((name, cells[column - 1]) for name, column in columns.items())
            yield {name: self.modalities[name].raw_data(path, number, cell) for name, cell in values}

    def identity(self) -> list[Any]:
        return ["table", *self.sides().values(), *map(sha256, self.paths()), *self.identity_of_listed()]


_READERS: Mapping[type[CorpusPart], type[PartReader[Any]]] = {
    Grammar: _GrammarReader,
    Files: _FilesReader,
    Table: _TableReader,
    Archive: _ArchiveReader,
    Synthetic: _SyntheticReader,
    Treebank: _TreebankReader,
    Digits: _DigitsReader,
    HeldOut: _HeldOutReader,
}


def _and_others(path: str, corpus: Corpus) -> str:
    """Return a file's name and the number of other parts in the training set, if any, such as `a.de and 2 more`."""
    name, others = os.path.basename(path), len(corpus.train) - 1
    return f"{name} and {others} more" if others else name


def parallel_lines(paths: Sequence[Path], streams: Sequence[Iterator[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the corresponding lines of parallel files: for each line number, a tuple with one line per file.

    Args:
        paths: Paths of the files, for error messages.
        streams: Lines in each file.

    Raises:
        ZooError: The files are empty, or have different numbers of lines.
    """
    count = 0
    for values in zip_longest(*streams):
        if None in values:
            counts = [
                count if value is None else count + 1 + sum(1 for _ in stream)
                for value, stream in zip(values, streams, strict=True)
            ]
            raise ZooError(
                ", but ".join(f"`{path}` has {amount(n, 'lines')}" for path, n in zip(paths, counts, strict=True)),
                hint="correct the files, so that line n of the target translates line n of the source",
            )
        yield values
        count += 1
    if not count:
        unit = "<seg>" if is_sgml(paths[0]) else "lines"
        hint = "use another file, or remove this part of the corpus"
        raise ZooError(f"`{paths[0]}` contains no {unit}", hint=hint)


def corpus_path(corpus: Corpus, name: str) -> Path:
    """Return the path of a file, given its name in the spec's `corpus` section. `~` is the user's home folder."""
    return Path(os.path.expanduser(corpus.folder)) / os.path.expanduser(name)


def existing_file(corpus: Corpus, name: str) -> Path:
    """Return the path of a corpus file. Raise MissingFileError if the file does not exist."""
    path = corpus_path(corpus, name)
    if os.path.isfile(path):
        return path
    hint = "correct the path, or set `corpus.folder=DIR` to the folder that it is relative to"
    kind = "is a folder, not a file" if os.path.isdir(path) else "is not a regular file"
    problem = kind if os.path.exists(path) else "does not exist"
    raise MissingFileError(f"the corpus file `{path}` {problem}", hint=hint, name=name)


def cleaned_example(example: Example) -> Example:
    """Clean the raw data of each stream of an example (see `zoo.text.lines.clean`)."""
    return {name: clean(raw) for name, raw in example.items()}


def tree_example(tree: str) -> Example:
    """Convert a tree to an example. The source consists of the tree's words. The target is the tree."""
    return {"source": " ".join(map(unescape_brackets, words(tree))), "target": tree}
