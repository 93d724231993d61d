"""`zoo prepare`: convert the corpus of a spec to a vocabulary and token stores. Each corpus is prepared only once."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import compress, islice, starmap
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from specs import Spec, ZooError
from specs.corpus import Direction, Split
from specs.notation import dump
from zoo.data.cleaning import (
    REASONS,
    CleaningCounts,
    Status,
    Statuses,
    apply_filters,
    classify,
    other_language,
    reasons_to_drop,
)
from zoo.data.corpus import CorpusReader, Example, cleaned_example
from zoo.data.prefetch import prefetch
from zoo.data.prepared_corpus import COUNTS_FILE, DROPPED_FILE, PreparedCorpus
from zoo.data.store import Rows, StoreWriter
from zoo.features.modality import FeatureModality, modality_of
from zoo.files import manifest, storage
from zoo.files.atomic import FolderExistsError, atomic_folder, remove_folder, write_json
from zoo.files.reading import UnreadableError, read_json
from zoo.files.storage import require_space
from zoo.report import Report
from zoo.text.copying import copy_symbols, replace_in_pair
from zoo.text.languages import LanguagePair
from zoo.text.modality import Modality
from zoo.text.spans import never
from zoo.text.vocabulary import SIDES, Vocabulary, check_learnable, learning_examples

_FORMAT = 6  # increase this number whenever the same corpus leads to different prepared files
_PROGRESS_PAIRS = 256  # number of pairs after which the progress is shown
_LANGUAGE_EXAMPLES = 500  # number of examples from which the languages are detected
_CHUNK_CHARACTERS = 4_000_000  # encoding takes fifty bytes per character
_MAX_OVERLAP = 0.01  # warn if a larger fraction of dev or test is also in the training text
_SCORED_SPLITS: dict[Split, Status] = {"dev": Status.DEV, "test": Status.TEST}
_SECTIONS_FILE = "sections.yaml"
_EXAMPLES, _EXAMPLE_CHARACTERS = 3, 80

Value = TypeVar("Value")


def prepare(spec: Spec, report: Report, vocabulary: Vocabulary | None = None) -> PreparedCorpus:
    """Open the prepared corpus of a spec. If it does not exist yet, create it in `storage.prepared()`.

    Creating a prepared corpus downloads archives, learns the vocabulary from the training text, and writes token stores
    and cleaning counts. The folder is created atomically. If another process creates the folder first, that folder is
    used. A damaged folder is created again, with a warning.

    Args:
        spec: Spec with the `corpus`, `vocabulary` and `task` sections.
        report: Receives progress and warnings.
        vocabulary: Vocabulary of the model in `training.start_from`, if any. If None, learn a vocabulary.

    Raises:
        ZooError: The corpus or the vocabulary size is not suitable, a download fails, or the disk is full.
    """
    if not spec.corpus.train:
        raise ZooError(
            "there is nothing to train on: `corpus.train` is empty",
            hint="list the parts of the corpus in `corpus.train` and `corpus.dev`",
        )
    if vocabulary is not None and not vocabulary.source_suffix:
        raise ZooError(
            "the model in `training.start_from` was trained on sources without EOS, but training appends EOS to "
            "each source",
            hint="start from another model, or train without `training.start_from`",
        )
    if spec.training.start_from is None:
        vocabulary = None
    if vocabulary is None:
        check_learnable(spec.vocabulary, spec.task)
    corpus = CorpusReader(spec, report)
    for reader in corpus.readers:
        reader.check_suffixes()
    folder = storage.prepared() / fingerprint(spec, corpus, vocabulary)
    if prepared := _open_existing(folder, report):
        return prepared
    # Most words are one token of two bytes, and each line has 16 bytes of offsets. Features take half as many bytes as
    # uncompressed audio.
    require_space(folder, 2 * corpus.bytes() + (1 << 24), "the prepared corpus")
    # Another process may create the folder first.
    with suppress(FolderExistsError), atomic_folder(folder, replace=False) as partial:
        _Preparation(spec, corpus, vocabulary, partial, report).write()
        if fingerprint(spec, corpus, vocabulary) != folder.name:
            problem = "the files of the corpus changed while they were being read"
            raise ZooError(problem, hint="run the command again when the files are complete", exit_code=1)
    prepared = PreparedCorpus(folder)
    report.info(f"the prepared corpus is in {folder}; its folders dev and test also contain these sets as text")
    return prepared


def _open_existing(folder: Path, report: Report) -> PreparedCorpus | None:
    """Open the prepared corpus in a folder. Return None if the folder is missing.

    If the folder is damaged, remove it with a warning, and return None.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        identity = manifest.file_identity(folder)
        try:
            return PreparedCorpus(folder)
        except UnreadableError:  # the files may be intact, but unreadable for this user or at this moment
            raise
        except ZooError as error:
            if manifest.file_identity(folder) != identity:  # another process has created the folder again
                return _open_existing(folder, report)
            report.warn(f"{error.summary}; preparing the corpus again")
            remove_folder(folder)
    return None


def known_counts(spec: Spec) -> CleaningCounts | None:
    """Return the cleaning counts of a spec's prepared corpus, or None if the corpus is not prepared."""
    path = storage.prepared() / fingerprint(spec, CorpusReader(spec, Report())) / COUNTS_FILE
    return CleaningCounts(**read_json(path)) if path.is_file() else None


def fingerprint(spec: Spec, corpus: CorpusReader, vocabulary: Vocabulary | None = None) -> str:
    """Return a hash of all inputs that determine the content of a prepared corpus, as 16 hexadecimal digits."""
    section, tokens = spec.corpus, spec.vocabulary.model_dump(mode="json", exclude={"separate_models"})
    if not spec.vocabulary.copy_symbols:
        del tokens["copy_symbols"]  # keep the fingerprints of corpora that were prepared before this setting existed
    parts = {
        "format": _FORMAT,
        "streams": spec.task.streams,
        "text": corpus.identity(),
        "cleaning": [section.max_length, section.max_ratio, section.deduplicate, section.filters],
        # Without options, the list contains None, as in corpora that were prepared by earlier versions.
        "vocabulary": [tokens, *(spec.task.encoding.values() or [None])] if vocabulary is None else vocabulary.digest,
    }
    if section.filters or spec.languages is not None:
        languages = spec.languages and spec.languages.model_dump(mode="json")
        parts["languages"] = [languages, *(reader.direction for reader in corpus.readers)]
    if any(tags := [reader.tag for reader in corpus.readers_of("train")]):
        parts["tags"] = tags
    if modality := modality_of(spec.task):
        parts["features"] = modality.identity
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class _Preparation:
    """Builder that creates the files of one prepared corpus."""

    def __init__(
        self, spec: Spec, corpus: CorpusReader, vocabulary: Vocabulary | None, folder: Path, report: Report
    ) -> None:
        self.spec, self.corpus, self.given, self.folder, self.report = spec, corpus, vocabulary, folder, report
        self.vocabulary: Vocabulary
        """Vocabulary for all text: `given`, or the vocabulary that `write` learns if `given` is None."""
        self.modalities: dict[str, Modality | FeatureModality]
        """Modality of each stream. The tokens are those of the vocabulary."""
        self.symbols = vocabulary.copy_symbols if vocabulary else copy_symbols(spec.vocabulary.copy_symbols)
        self.is_rare = vocabulary.source.is_rare if vocabulary else never
        self.counts = CleaningCounts()
        self.statuses: Statuses = np.zeros(0, np.uint8)
        """Status of each training pair."""
        self.part_counts: list[int] = []
        """Number of training pairs that were read from each corpus part."""
        self._first_examples: dict[Direction, list[Example]] = {}
        """The first training examples of each direction from files and archives, to detect the languages."""
        self._scored: dict[Split, dict[tuple[str, ...], bool]] = {}
        """The examples of the dev and test sets, except the examples that are held out from the training text. The
        value is whether the training text contains the example."""
        self._dropped = defaultdict[str, list[str]](list)
        """Some of the examples that are dropped for each reason, as text."""

    def write(self) -> None:
        """Read and clean the corpus, learn the vocabulary, encode the text, and write all files."""
        # Read the small sets first, to report their errors before the long work.
        scored = {split: self.corpus.scored_examples(split) for split in _SCORED_SPLITS}
        self._scored = {split: {tuple(each.values()): False for each, _ in known} for split, known in scored.items()}
        self.statuses, self.counts = classify(
            self._with_progress("reading", self._read_train()),
            deduplicate=self.spec.corpus.deduplicate,
            dev=self.corpus.held_out("dev"),
            test=self.corpus.held_out("test"),
        )
        self._require_examples()
        self._sample_dropped()
        self._check_languages()
        self._check_overlap()
        self.vocabulary = self.given or self._learn_vocabulary()
        self.is_rare = self.vocabulary.source.is_rare
        self.modalities = {name: self.vocabulary.stream(name) for name in self.spec.task.streams}
        if features := modality_of(self.spec.task):
            self.modalities["source"] = features
        self.vocabulary.save(self.folder)
        for split, status in _SCORED_SPLITS.items():
            held_out = self._train_examples(self.statuses == status) if self.corpus.held_out(split) else ()
            self._write_scored(split, [*scored[split], *held_out])
        self._write_train()
        self._write_description()

    def _read_train(self) -> Iterator[tuple[Example, Status]]:
        """Yield each training example with the status from the filters.

        Count the examples of each corpus part, and record which dev and test examples are also in the training set.
        """
        filters = self.spec.corpus.filters
        for number, reader in enumerate(self.corpus.readers_of("train")):
            self.part_counts.append(0)
            for example in reader.examples():
                self.part_counts[number] += 1
                for known in self._scored.values():
                    if (values := tuple(example.values())) in known:
                        known[values] = True
                if reader.has_user_text:
                    first = self._first_examples.setdefault(reader.direction, [])
                    if len(first) < _LANGUAGE_EXAMPLES:
                        first.append(self._text_of(example))
                text = self._text_of(example)
                yield example, apply_filters(text, filters, reader.languages) if filters else Status.KEPT

    def _sample_dropped(self) -> None:
        """Collect the first examples that are dropped for each reason."""
        sampled = np.zeros(len(self.statuses), bool)
        for status in map(Status, np.unique(self.statuses)):
            if (reason := status.name.lower()) in REASONS:
                self._dropped[reason] = []
                sampled[np.flatnonzero(self.statuses == status)[:_EXAMPLES]] = True
        for status, (example, _) in zip(self.statuses[sampled], self._train_examples(sampled), strict=False):
            self._dropped[Status(status).name.lower()].append(_shortened(example.values()))

    def _text_of(self, example: Mapping[str, Value]) -> dict[str, Value]:
        """Return only the text streams of an example."""
        return {name: example[name] for name in self.spec.task.token_streams}

    def _check_overlap(self) -> None:
        """Warn if many examples of the dev or test set are also in the training text."""
        for split, known in self._scored.items():
            if (seen := sum(known.values())) > _MAX_OVERLAP * len(known):
                self.report.warn(
                    f"{seen:,} of {len(known):,} pairs of `corpus.{split}` are also in `corpus.train`, so the scores "
                    "will be too high"
                )

    def _check_languages(self) -> None:
        """Warn if the sources or the targets seem to be in a different language from the one in the spec."""
        for direction, examples in self._first_examples.items():
            for side, language in zip(SIDES, direction, strict=True):
                if seen := other_language([each[side] for each in examples if side in each], language):
                    self.report.warn(
                        f"the {side} text seems to be in `{seen}`, but `corpus.{side}` is `{language}`: set "
                        f"`corpus.{side}={seen}`, or correct the order of the files or columns"
                    )

    def _learn_vocabulary(self) -> Vocabulary:
        kept = self.counts.kept
        sample = learning_examples(kept)
        of_pairs = f"{sample:,} of {kept:,}" if sample < kept else f"{kept:,}"
        self.report.info(f"learning {self.spec.vocabulary.size:,} tokens from {of_pairs} pairs")
        languages = self.spec.languages
        tokens = [languages.token_of(code) for code in languages.codes] if languages else []
        tokens += filter(None, dict.fromkeys(reader.tag for reader in self.corpus.readers_of("train")))
        return Vocabulary.learn(self._kept_examples, self.spec.vocabulary, kept, self.spec.task, tokens)

    def _train_examples(self, selected: npt.NDArray[np.bool_]) -> Iterator[tuple[Example, Direction]]:
        """Yield the cleaned training examples for which `selected` is true, with their source and target language."""
        start = 0
        for reader, count in zip(self.corpus.readers_of("train"), self.part_counts, strict=True):
            for example in compress(reader.examples(), selected[start : start + count]):
                yield cleaned_example(example), reader.direction
            start += count

    def _kept_examples(self) -> Iterator[Example]:
        """Yield the cleaned training examples with the status KEPT. Spans such as numbers become copy symbols."""
        return starmap(self._with_copy_symbols, self._train_examples(self.statuses == Status.KEPT))

    def _with_copy_symbols(self, example: Example, direction: Direction) -> Example:
        """Replace spans such as numbers with copy symbols (placeholders), if the vocabulary has such symbols."""
        if not self.symbols:
            return example
        first = crc32(example["source"].encode())
        pair = example["source"], example["target"]
        texts = replace_in_pair(*pair, self.symbols, direction, self.is_rare, first)
        return dict(zip(SIDES, (each.text for each in texts), strict=True))

    def _write_train(self) -> None:
        languages = [
            LanguagePair.of(self.spec, self.vocabulary, reader.direction, reader.tag)
            for reader in self.corpus.readers_of("train")
        ]
        all_parts = np.repeat(np.arange(len(self.part_counts), dtype=np.uint16), self.part_counts)
        parts = all_parts[self.statuses == Status.KEPT]
        done = 0
        unusable: list[str] = []
        with self._store_writer("train", len(self.part_counts)) as writer:
            examples = self._with_progress("encoding", self._kept_examples(), self.counts.kept)
            # A background thread encodes the next chunk while this chunk is written.
            for values in prefetch(self._encode(examples, unusable.append)):
                reasons = reasons_to_drop(values, self.spec.corpus, features=self.spec.task.features is not None)
                self.counts = self.counts.dropped_for(reasons)
                for index, reason in enumerate(reasons):
                    if reason and len(so_far := self._dropped[reason]) < _EXAMPLES:
                        tokens = self._text_of(values).items()
                        texts = (self.vocabulary.stream(name).decode(rows[index]) for name, rows in tokens)
                        so_far.append(_shortened(texts))
                kept = [index for index, reason in enumerate(reasons) if not reason]
                kept_parts = parts[done : done + len(reasons)][kept]
                writer.add(_with_language_tokens(values, kept, [languages[part] for part in kept_parts]), kept_parts)
                done += len(reasons)
        if unusable:
            self._dropped["unusable"] = sorted(unusable)[:_EXAMPLES]
            self.report.warn(
                f"{len(unusable):,} of {done:,} pairs are left out of training, because their files cannot be used. "
                f"The first error: {min(unusable)}"
            )
        self._require_examples()

    def _write_scored(self, split: Split, scored: Sequence[tuple[Example, Direction]]) -> None:
        """Write the token IDs or features, cleaned lines and languages of all examples in the dev or test set."""
        languages = (LanguagePair.of(self.spec, self.vocabulary, direction) for _, direction in scored)
        with self._store_writer(split) as writer:
            examples = starmap(self._with_copy_symbols, scored)
            for values in prefetch(self._encode(examples)):
                rows = range(len(next(iter(values.values()))))
                writer.add(_with_language_tokens(values, rows, list(islice(languages, len(rows)))))
        lines = {name: [example[name] for example, _ in scored] for name in self.spec.task.streams}
        if self.spec.languages:
            lines["languages"] = [" ".join(direction) for _, direction in scored]
        for name, text in lines.items():
            content = "".join(f"{line}\n" for line in text)
            (self.folder / split / f"{name}.txt").write_text(content, encoding="utf-8", newline="\n")

    def _store_writer(self, split: Split, parts: int = 1) -> StoreWriter:
        (self.folder / split).mkdir()
        return StoreWriter(self.folder / split, {name: each.dtype for name, each in self.modalities.items()}, parts)

    def _write_description(self) -> None:
        sections = {key: getattr(self.spec, key).model_dump(mode="json") for key in ("corpus", "vocabulary")}
        (self.folder / _SECTIONS_FILE).write_text(dump(sections), encoding="utf-8")
        write_json(self.folder / COUNTS_FILE, asdict(self.counts))
        dropped = [f"{REASONS[reason]}: {text}\n" for reason, texts in self._dropped.items() for text in texts]
        (self.folder / DROPPED_FILE).write_text("".join(dropped), encoding="utf-8")
        manifest.write(self.folder)

    def _encode(self, examples: Iterable[Example], unusable: Callable[[str], None] | None = None) -> Iterator[Rows]:
        """Yield the token IDs or features of examples, chunk by chunk. A background thread reads the next chunk.

        Args:
            examples: The examples.
            unusable: Function that receives the error message for each unusable file. If None, raise the error.
        """
        size = min(each.chunk_examples for each in self.modalities.values())
        with closing(prefetch(_chunks(examples, size))) as chunks:
            for chunk in chunks:
                encoders = self.modalities.items()
                yield {name: each.encode_all([raw[name] for raw in chunk], unusable) for name, each in encoders}

    def _require_examples(self) -> None:
        if not self.counts.kept:
            hint = "check `corpus.train`, `corpus.max_length`, `corpus.max_ratio` and any `held_out`"
            raise ZooError(f"there is nothing to train on: {self.counts}", hint=hint)

    def _with_progress(self, label: str, pairs: Iterable[Value], total: int | None = None) -> Iterator[Value]:
        number = 0
        with self.report.progress(label, total, "pairs") as progress:
            for number, pair in enumerate(pairs, start=1):
                yield pair
                if number % _PROGRESS_PAIRS == 0:
                    progress.advance(_PROGRESS_PAIRS)
            progress.advance(number % _PROGRESS_PAIRS)


def _shortened(streams: Iterable[str]) -> str:
    """Join the first characters of each stream on one line, for display."""
    return " | ".join(raw[:_EXAMPLE_CHARACTERS] for raw in streams)


def _with_language_tokens(values: Rows, rows: Sequence[int], languages: Sequence[LanguagePair]) -> Rows:
    """Select rows of each stream, and insert the language tokens before each row.

    Args:
        values: Token IDs or features of each stream.
        rows: Indices of the rows to select.
        languages: Languages of each selected row.
    """
    return {
        name: [[*own.tokens_of(name), *column[row]] for own, row in zip(languages, rows, strict=True)]
        for name, column in values.items()
    }


def _chunks(examples: Iterable[Example], max_examples: int) -> Iterator[list[Example]]:
    """Yield the examples in chunks of at most `max_examples` examples and about `_CHUNK_CHARACTERS` characters."""
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += sum(map(len, example.values()))
        if len(chunk) == max_examples or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
