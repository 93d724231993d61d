"""Read the examples of a corpus from files, archives, treebanks or the built-in corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from specs import Archive, Corpus, Digits, Files, Grammar, HeldOut, Part, Spec, Synthetic, Table, Treebank, ZooError
from specs.corpus import Direction
from zoo.data import builtin
from zoo.features import spoken_digits, written_digits
from zoo.features.modality import absolute_path, identify, listed_files
from zoo.files.archive import extract, extracted
from zoo.files.download import fetch, recorded_sha256
from zoo.files.manifest import sha256
from zoo.report import Report, size
from zoo.text.lines import clean, file_errors, is_sgml, read_sentences
from zoo.text.trees.tree import unescape_brackets, words
from zoo.text.vocabulary import MODALITIES

Split = Literal["train", "dev", "test"]
Example = Mapping[str, str]
"""Raw data of each stream of an example, such as a sentence and its translation, in the order of the task."""
SPLITS: tuple[Split, Split, Split] = ("train", "dev", "test")

_BUILTIN_PAIR_BYTES = 150  # average size of a pair of the built-in corpus
_DIGITS_BYTES = 50_000  # average size of the frames for a string of digits
_DIGITS: Mapping[str, ModuleType] = {"audio": spoken_digits, "image": written_digits}
"""The module that generates strings of digits, for each modality."""
_EXAMPLE_OVERHEAD = 200  # bytes of memory per example, in addition to its text
_MAX_SCORED_TEXT = 256_000_000
_GZIP_RATIO = 4  # assumed size of a text relative to its compressed file


class MissingFileError(ZooError):
    """Error for a corpus file that does not exist. `name` is the path of the file, as in the spec."""

    def __init__(self, problem: str, *, hint: str, name: str) -> None:
        super().__init__(problem, hint=hint)
        self.name = name


class CorpusReader:
    """Reader for the corpus of a spec. Examples are not cached: each method call reads the files again."""

    def __init__(self, spec: Spec, report: Report) -> None:
        """Prepare to read a corpus.

        Args:
            spec: Spec that describes the corpus.
            report: Receives warnings and the progress of downloads.

        Raises:
            ZooError: The source and target of a corpus part are the same file or column, or the built-in corpus has too
                few pairs.
        """
        self.corpus = spec.corpus
        self._streams, self._token_streams = spec.task.streams, spec.task.token_streams
        self._listed_streams = [name for name in self._streams if name not in self._token_streams]
        self._report = report
        self._members: dict[Archive, Sequence[Path]] = {}
        for name, part in self.corpus.named_parts:
            if isinstance(part, (Files, Archive, Table)):
                self._check_sides(part, f"corpus.{name}")
            elif isinstance(part, Grammar):
                builtin.sentences(name.partition("[")[0], part.grammar)

    def _check_sides(self, part: Files | Archive | Table, name: str) -> None:
        """Raise ZooError if two streams of a corpus part are the same file or column."""
        kind, suffix = ("column", "_column") if isinstance(part, Table) else ("file", "")
        sides = [str(getattr(part, f"{stream}{suffix}")) for stream in self._streams]
        if len(set(map(os.path.normpath, sides))) < len(sides):
            problem = f"`{name}` has the same {kind} for source and target: `{sides[0]}`"
            raise ZooError(problem, hint=f"set `source{suffix}` and `target{suffix}` to different {kind}s")

    def held_out(self, split: Split) -> int:
        """Return the number of training examples that are held out for `split` (dev or test)."""
        return sum(part.held_out for part in getattr(self.corpus, split) if isinstance(part, HeldOut))

    def part_examples(self, split: Split, number: int) -> Iterator[Example]:
        """Yield the examples of the corpus part at index `number` in a split, unchanged and in the order of the files.

        The examples of `train` include those that are held out for dev or test. Archives that are not on this
        machine are downloaded.

        Raises:
            ZooError: A file is missing, empty, damaged or not UTF-8, or a source and its target file have different
                numbers of lines.
        """
        part = getattr(self.corpus, split)[number]
        if isinstance(part, Grammar):
            yield from builtin.examples(split, part.grammar, self._streams, languages_of(self.corpus, part))
        elif isinstance(part, Digits):
            found = _DIGITS[self._streams["source"]].strings(split, part.digits, self._report)
            yield from (dict(zip(self._streams, example, strict=True)) for example in found)
        elif isinstance(part, Treebank):
            for path in self._paths(part):
                yield from map(tree_example, MODALITIES["trees"].read(path))
        elif isinstance(part, Table):
            yield from self._table_examples(part, split)
        elif isinstance(part, (Files, Archive)):
            yield from self._file_examples(self._paths(part))

    def scored_examples(self, split: Split) -> list[tuple[Example, Direction]]:
        """Return the cleaned examples of the dev or test set, with their languages.

        Raises:
            ZooError: There is too much text, or `part_examples` raises an error.
        """
        examples, memory = [], 0
        for number, part in enumerate(getattr(self.corpus, split)):
            for example in self.part_examples(split, number):
                examples.append((cleaned_example(example), self.corpus.direction(part)))
                memory += sum(map(len, example.values())) + _EXAMPLE_OVERHEAD
                if memory > _MAX_SCORED_TEXT:
                    hint = "use a few thousand pairs, because every pair is translated and scored"
                    raise ZooError(f"`corpus.{split}` has more than {size(_MAX_SCORED_TEXT)} of text", hint=hint)
        return examples

    def bytes(self) -> int:
        """Estimate the size of the uncompressed text in bytes. Archives that are not on this machine are downloaded."""
        total = 0
        for part in self.corpus.parts:
            if isinstance(part, Grammar):
                total += _BUILTIN_PAIR_BYTES * part.grammar
            elif isinstance(part, Digits):
                total += _DIGITS_BYTES * part.digits
            elif not isinstance(part, HeldOut | Synthetic):
                for path in (*self._paths(part), *map(Path, self._listed(part))):
                    with file_errors(path):
                        total += path.stat().st_size * (_GZIP_RATIO if path.suffix == ".gz" else 1)
        return total

    def identity(self) -> dict[str, Any]:
        """Return JSON data that identifies the corpus by its content, such as the hashes of its files.

        The same text has the same identity in any folder. An archive is only downloaded if its hash is neither in the
        spec nor in `corpus.lock`.
        """
        return {split: [self._part_identity(part) for part in getattr(self.corpus, split)] for split in SPLITS}

    def _part_identity(self, part: Part) -> list[Any]:
        assert not isinstance(part, Synthetic), "`zoo.training.synthetic` replaces these parts with their files"
        if isinstance(part, Table):
            columns = [getattr(part, f"{stream}_column") for stream in self._streams]
            return ["table", *columns, *map(sha256, self._paths(part)), *self._identity_of_listed(part)]
        if isinstance(part, Grammar):
            return ["grammar", builtin.VERSION, part.grammar, languages_of(self.corpus, part)]
        if isinstance(part, Digits):
            return ["digits", _DIGITS[self._streams["source"]].VERSION, part.digits]
        if isinstance(part, Treebank):
            return ["trees", *map(sha256, self._paths(part))]
        if isinstance(part, HeldOut):
            return ["held out", part.held_out]
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive) or fetch(part.archive, None, self._report).sha256
            return ["archive", known, *(getattr(part, stream) for stream in self._streams)]
        files = (["sgm" if is_sgml(path) else "lines", sha256(path)] for path in self._paths(part))
        return ["files", *files, *self._identity_of_listed(part)]

    def _listed(self, part: Part) -> Iterator[str]:
        """Yield the paths of the audio or image files that a corpus part lists. A text part lists no files."""
        for name in self._listed_streams:
            if isinstance(part, Files):
                yield from listed_files(existing_file(self.corpus, getattr(part, name)))
            elif isinstance(part, Table):
                yield from (example[name] for example in self._table_examples(part, "dev"))

    def _identity_of_listed(self, part: Part) -> list[str]:
        """Return a list with one hash for all files that a part lists (see `_listed`), or an empty list for text."""
        return [identify(self._listed(part))] if self._listed_streams else []

    def _paths(self, part: Files | Archive | Table | Treebank) -> Sequence[Path]:
        """Return the files of a part: one for each stream, a table, or the files of a treebank."""
        if isinstance(part, Treebank):
            return self._treebank_files(part)
        if isinstance(part, Table):
            return [existing_file(self.corpus, part.tsv)]
        names = tuple(getattr(part, stream) for stream in self._streams)
        if isinstance(part, Files):
            return [existing_file(self.corpus, name) for name in names]
        if part not in self._members:
            known = part.sha256 or recorded_sha256(part.archive)
            members = extracted(known, names) if known else None
            # `fetch` raises an error if the archive does not have the hash in the spec.
            self._members[part] = members or extract(fetch(part.archive, part.sha256, self._report), names)
        return self._members[part]

    def _file_examples(self, paths: Sequence[Path]) -> Iterator[Example]:
        """Yield the examples of parallel files: line n of each file belongs to example n."""
        streams = [
            MODALITIES[modality].read(path) if name in self._token_streams else listed_files(path)
            for (name, modality), path in zip(self._streams.items(), paths, strict=True)
        ]
        for values in parallel_lines(paths, streams):
            yield dict(zip(self._streams, values, strict=True))

    def _table_examples(self, part: Table, split: Split) -> Iterator[Example]:
        """Yield the examples of a TSV file.

        Missing cells in a training line become empty cells, so that the line is dropped during cleaning.

        Raises:
            ZooError: The first line, or any line of the dev or test set, has too few columns, or any line has more
                columns than the first line.
        """
        path = existing_file(self.corpus, part.tsv)
        columns = {name: getattr(part, f"{name}_column") for name in self._streams}
        last, width = max(columns.values()), 0
        for number, line in enumerate(read_sentences(path), start=1):
            cells = line.split("\t")
            width = width or len(cells)
            if len(cells) > width:
                problem = f"the line has {len(cells)} columns, but the first line has {width}"
                hint = "remove the tabs inside the cells, or give all lines the same columns"
                raise ZooError(problem, where=f"{path}:{number}", hint=hint)
            # If the first line is too short, the file probably has a different separator.
            if len(cells) < last and (number == 1 or split != "train"):
                hint = "separate the columns with tabs, or correct `source_column` and `target_column`"
                raise ZooError(f"the line has no column {last}", where=f"{path}:{number}", hint=hint)
            cells += [""] * (last - len(cells))
            yield {
                name: cell if name in self._token_streams else absolute_path(path, number, cell)
                for name, cell in ((name, cells[column - 1]) for name, column in columns.items())
            }

    def _treebank_files(self, part: Treebank) -> list[Path]:
        """Return the files of a treebank, sorted by name."""
        folder = corpus_path(self.corpus, part.trees)
        if not os.path.isdir(folder):  # Path.is_dir raises an error for invalid file names
            return [existing_file(self.corpus, part.trees)]
        with file_errors(folder):
            files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        if not files:
            raise ZooError(f"the treebank folder `{folder}` contains no files", hint="give another folder, or a file")
        return files


def parallel_lines(paths: Sequence[Path], streams: Sequence[Iterator[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the corresponding lines of parallel files: for each line number, a tuple with one line per file.

    Args:
        paths: Paths of the files, for error messages.
        streams: Lines of each file.

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
                ", but ".join(f"`{path}` has {lines:,} lines" for path, lines in zip(paths, counts, strict=True)),
                hint="the numbers of lines must be equal: line n of the target must translate line n of the source",
            )
        yield values
        count += 1
    if not count:
        unit = "<seg>" if is_sgml(paths[0]) else "lines"
        hint = "give another file, or remove this part of the corpus"
        raise ZooError(f"`{paths[0]}` contains no {unit}", hint=hint)


def corpus_path(corpus: Corpus, name: str) -> Path:
    """Return the path of a file, given its name in the spec's `corpus` section. `~` is the user's home folder."""
    return Path(os.path.expanduser(corpus.folder)) / os.path.expanduser(name)


def existing_file(corpus: Corpus, name: str) -> Path:
    """Return the path of a corpus file. Raise MissingFileError if there is no such file."""
    path = corpus_path(corpus, name)
    if not os.path.isfile(path):
        hint = "correct the path, or set `corpus.folder=DIR` to the folder that it is relative to"
        problem = "is a folder, not a file" if os.path.isdir(path) else "does not exist"
        raise MissingFileError(f"the corpus file `{path}` {problem}", hint=hint, name=name)
    return path


def missing_part(spec: Spec) -> str | None:
    """Return a message about the first missing part of a spec's corpus. Return None if the corpus is complete.

    A part counts as missing if its files are not on this machine, or if models generate its text. This function does
    not download or read any files.
    """
    if not spec.corpus.train:
        return "it has no training corpus"
    for part in spec.corpus.parts:
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive)
            if known is None or extracted(known, tuple(getattr(part, name) for name in spec.task.streams)) is None:
                return f"its corpus is missing: {os.path.basename(part.archive)} has not been downloaded"
        elif isinstance(part, Synthetic):
            return f"a part of its corpus is generated by models: {part.summary}"
        else:
            names = filter(None, (getattr(part, field, None) for field in (*spec.task.streams, "tsv", "trees")))
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
    if isinstance(first, Digits):
        return f"digits ({first.digits:,} strings)"
    folder = Path(corpus.folder).name
    if not isinstance(first, Archive) and folder:
        return folder
    assert not isinstance(first, HeldOut)
    paths = (getattr(first, field, None) for field in ("archive", "source", "target", "tsv", "trees"))
    name = os.path.basename(next(filter(None, paths)))
    return f"{name} and {len(rest)} more" if rest else name


def languages_of(corpus: Corpus, part: Part) -> dict[str, str]:
    """Return the source and target language of a corpus part."""
    return dict(zip(("source", "target"), corpus.direction(part), strict=True))


def cleaned_example(example: Example) -> Example:
    """Clean the raw data of each stream of an example (see `zoo.text.lines.clean`)."""
    return {name: clean(raw) for name, raw in example.items()}


def tree_example(tree: str) -> Example:
    """Convert a tree to an example. The source is the words, and the target is the tree in bracketed notation."""
    return {"source": " ".join(map(unescape_brackets, words(tree))), "target": tree}
