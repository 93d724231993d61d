"""`zoo prepare`: from a spec's corpus to a vocabulary and token stores, once for every corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from specs import EOS, Parsing, Spec, ZooError
from specs.notation import dump
from zoo.data.ahead import ahead
from zoo.data.cleaning import Counts, Fate, Fates, Limits, judge, with_fate
from zoo.data.parallel import Pair, ParallelText, Split
from zoo.data.store import Store, StoreWriter
from zoo.files import hashes, manifest, storage
from zoo.files.atomic import FolderExistsError, atomic_folder, remove_folder, write_json
from zoo.files.locks import hold_while_alive
from zoo.files.reading import UnreadableError, read_json
from zoo.files.storage import require_space
from zoo.report import Report, size
from zoo.text.lines import clean, read_lines
from zoo.text.vocabulary import Vocabulary, learned_from, require_to_learn

_FORMAT = 2  # what is prepared from the same corpus changes with it
_CHUNK = 8192
_CHUNK_TEXT = 4_000_000  # characters; to encode one takes fifty bytes
_SCORED_TEXT = 256_000_000
_AROUND = 200  # bytes that a pair takes beside its text
_SCORED: dict[Split, Fate] = {"dev": Fate.DEV, "test": Fate.TEST}
_COUNTS, _SECTIONS = "counts.json", "sections.yaml"
_HASHED_BYTES = 1 << 30  # of more than this, opening looks at the sizes alone; training verifies it as it goes


class Prepared:
    """A corpus ready to train on: a folder with its vocabulary, and a token store for each split."""

    def __init__(self, folder: Path) -> None:
        """Opens what `prepare` wrote. Raises ZooError where it is damaged."""
        self.folder = folder
        self.fingerprint = folder.name
        self._verified = manifest.check(folder, hashed_bytes=_HASHED_BYTES)
        hold_while_alive(self, folder)

    def verify(self) -> None:
        """Looks at what opening took on trust. Raises ZooError, naming the file, where it is not as it was written."""
        if not self._verified:
            try:
                self._verified = manifest.check(self.folder)
            except UnreadableError:
                raise
            except ZooError as error:
                hint = f"remove the folder `{self.folder}`: `zoo prepare` makes it anew"
                raise ZooError(error.summary, hint=hint, exit_code=1) from error

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of both languages."""
        return Vocabulary.load(self.folder)

    @cached_property
    def counts(self) -> Counts:
        """What cleaning left of the training text, and why not more."""
        return Counts(**read_json(self.folder / _COUNTS))

    def store(self, split: Split) -> Store:
        """The tokens of a split."""
        return Store(self.folder / split)

    def texts(self, split: Split) -> tuple[list[str], list[str]]:
        """Sources and targets of dev or test, as they are written but for control characters; nothing of train."""
        if split == "train":
            raise ValueError("the text of train is not kept")
        source, target = (read_lines(self.folder / split / f"{side}.txt") for side in ("source", "target"))
        return source, target


def prepare(spec: Spec, report: Report, vocabulary: Vocabulary | None = None) -> Prepared:
    """The prepared corpus of a spec: found in `storage.prepared()`, or made there.

    `vocabulary` is that of the model which the training starts from, where it starts from one; else one is learned.

    Made are: fetched archives, the vocabulary (learned from the training text), the stores, the counts of what
    was left out. The folder appears whole at the end; where another process was faster, its folder is used. A
    damaged one is made anew, with a warning. Raises ZooError where the corpus or the vocabulary's size cannot be
    used, where the network or the disk fails.
    """
    if not spec.corpus.train:
        raise ZooError(
            "there is nothing to train on: `corpus.train` is empty",
            hint="write the parts of the corpus: `corpus.train`, `corpus.dev`",
        )
    if vocabulary is not None and vocabulary.source_end != EOS:
        raise ZooError(
            "the model to start from reads no EOS behind a source, and a training puts one there",
            hint="start from another model, or train without `training.start_from`",
        )
    if spec.training.start_from is None:
        vocabulary = None
    if vocabulary is None:
        require_to_learn(spec.vocabulary, spec.task)
    with closing(ParallelText(spec, report, storage.prepared())) as text:
        folder = storage.prepared() / fingerprint(spec, text, vocabulary)
        if found := _found(folder, report):
            return found
        # Tokens take two bytes each, most words one token; a line takes 16 bytes of offsets. The sentences of the
        # grammar are written down there, too, for as long as it lasts.
        require_space(folder, 2 * text.bytes() + (1 << 24), "the prepared corpus")
        with suppress(FolderExistsError), atomic_folder(folder, replace=False) as partial:  # another process may have been faster
            _Preparation(spec, text, vocabulary, partial, report).write()
            if fingerprint(spec, text, vocabulary) != folder.name:
                problem = "the files of the corpus have changed while they were read"
                raise ZooError(problem, hint="start again when they are whole", exit_code=1)
    prepared = Prepared(folder)
    report.say(f"prepared in {folder}")
    return prepared


def _found(folder: Path, report: Report) -> Prepared | None:
    """What was prepared before; None where nothing was, or what is damaged, which is removed then."""
    with suppress(FileNotFoundError, NotADirectoryError):
        judged = hashes.file_identity(folder)
        try:
            return Prepared(folder)
        except UnreadableError:  # by this user, or just now: it may be whole
            raise
        except ZooError as error:
            if hashes.file_identity(folder) != judged:  # another process was quicker to make it anew
                return _found(folder, report)
            report.warn(f"{error.summary}; preparing the corpus anew")
            remove_folder(folder)
    return None


def known_counts(spec: Spec) -> Counts | None:
    """What cleaning left of a corpus whose files are here; None where it has not been prepared."""
    with closing(ParallelText(spec, Report())) as text:
        folder = storage.prepared() / fingerprint(spec, text)
    return Counts(**read_json(folder / _COUNTS)) if (folder / _COUNTS).is_file() else None


def fingerprint(spec: Spec, text: ParallelText, vocabulary: Vocabulary | None = None) -> str:
    """16 hexadecimal digits that change with anything the prepared corpus follows from, and with nothing else."""
    corpus, tokens = spec.corpus, spec.vocabulary.model_dump(mode="json", exclude={"separate_models"})
    if not tokens["byte_fallback"]:
        del tokens["byte_fallback"]  # later fields: what was prepared before them stays what it is
    if tokens["target_size"] is None:
        del tokens["target_size"]
    if isinstance(spec.task, Parsing) and vocabulary is None:
        tokens["linearisation"] = spec.task.linearisation
    parts = {
        "format": _FORMAT,
        "text": text.identity(),
        "cleaning": [corpus.max_length, corpus.max_ratio, corpus.deduplicate],
        "vocabulary": tokens if vocabulary is None else vocabulary.digest,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class _Preparation:
    """The making of one folder: read, judge, learn, encode, describe."""

    def __init__(
        self, spec: Spec, text: ParallelText, vocabulary: Vocabulary | None, folder: Path, report: Report
    ) -> None:
        self.spec, self.text, self.vocabulary, self.folder, self.report = spec, text, vocabulary, folder, report
        self.read: list[int] = []

    def write(self) -> None:
        # The small sets first: what is wrong with them is told before the long work.
        own = {split: self._whole(split) for split in _SCORED}
        judged, counts = judge(
            self._shown("reading", self._read()),
            deduplicate=self.spec.corpus.deduplicate,
            dev=self.text.held_out("dev"),
            test=self.text.held_out("test"),
        )
        _require_pairs(counts)
        vocabulary = self.vocabulary or self._learned(judged, counts)
        vocabulary.save(self.folder)
        counts = self._write_train(judged, counts, vocabulary)
        for split, fate in _SCORED.items():
            held_out = with_fate(self.text.pairs("train"), judged, fate) if self.text.held_out(split) else ()
            self._write_texts(split, [*own[split], *held_out], vocabulary)
        self._describe(counts)

    def _whole(self, split: Split) -> list[Pair]:
        """The pairs of dev or test: they are held in memory."""
        pairs, taken = [], 0
        for source, target in self.text.pairs(split):
            pairs.append((clean(source), clean(target)))
            taken += len(source) + len(target) + _AROUND
            if taken > _SCORED_TEXT:
                hint = "a few thousand pairs do: all of it is translated and scored"
                raise ZooError(f"`corpus.{split}` has more than {size(_SCORED_TEXT)} of text", hint=hint)
        return pairs

    def _read(self) -> Iterator[Pair]:
        """The pairs of train; `read` has how many each of its parts has."""
        for part in range(len(self.spec.corpus.train)):
            self.read.append(0)
            for pair in self.text.pairs_of("train", part):
                self.read[part] += 1
                yield pair

    def _learned(self, judged: Fates, counts: Counts) -> Vocabulary:
        sample = learned_from(counts.kept)
        chosen = f"{sample:,} of {counts.kept:,}" if sample < counts.kept else f"{counts.kept:,}"
        self.report.say(f"learning {self.spec.vocabulary.size:,} tokens from {chosen} pairs")
        return Vocabulary.learn(lambda: self._train(judged), self.spec.vocabulary, counts.kept, self.spec.task)

    def _train(self, judged: Fates) -> Iterator[Pair]:
        return with_fate(self.text.pairs("train"), judged, Fate.KEPT)

    def _write_train(self, judged: Fates, counts: Counts, vocabulary: Vocabulary) -> Counts:
        limits, done = Limits(self.spec.corpus.max_length, self.spec.corpus.max_ratio), 0
        parts = np.repeat(np.arange(len(self.read), dtype=np.uint16), self.read)[judged == Fate.KEPT]
        with self._writer("train", vocabulary, len(self.read)) as writer:
            pairs = self._shown("encoding", self._train(judged), counts.kept)
            for source, target in encoded(pairs, vocabulary):
                kept, counts = limits.sift(source, target, counts)
                numbers = parts[done : done + len(source)][kept]
                writer.add([source[index] for index in kept], [target[index] for index in kept], numbers)
                done += len(source)
        _require_pairs(counts)
        return counts

    def _write_texts(self, split: Split, pairs: list[Pair], vocabulary: Vocabulary) -> None:
        """Tokens and text of dev or test, nothing left out."""
        with self._writer(split, vocabulary) as writer:
            for source, target in encoded(pairs, vocabulary):
                writer.add(source, target)
        for side, name in enumerate(("source", "target")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (self.folder / split / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")

    def _writer(self, split: Split, vocabulary: Vocabulary, parts: int = 1) -> StoreWriter:
        (self.folder / split).mkdir()
        return StoreWriter(self.folder / split, max(vocabulary.sizes), parts)

    def _describe(self, counts: Counts) -> None:
        sections = {key: getattr(self.spec, key).model_dump(mode="json") for key in ("corpus", "vocabulary")}
        (self.folder / _SECTIONS).write_text(dump(sections), encoding="utf-8")
        write_json(self.folder / _COUNTS, counts.as_dict())
        manifest.write(self.folder)

    def _shown(self, label: str, pairs: Iterable[Pair], total: int | None = None) -> Iterator[Pair]:
        with self.report.progress(label, total, "pairs") as progress:
            for chunk in _chunks(pairs):
                yield from chunk
                progress.advance(len(chunk))


def _require_pairs(counts: Counts) -> None:
    if not counts.kept:
        hint = "look at `corpus.train`, `corpus.max_length` and `corpus.max_ratio`"
        raise ZooError(f"there is nothing to train on: {counts}", hint=hint)


def encoded(
    pairs: Iterable[Pair], vocabulary: Vocabulary
) -> Generator[tuple[list[list[int]], list[list[int]]], None, None]:
    """Tokens of sources and targets, chunk by chunk: while one is used, the next is encoded and the one after read."""

    def made() -> Iterator[tuple[list[list[int]], list[list[int]]]]:
        with closing(ahead(_chunks(pairs))) as chunks:
            for chunk in chunks:
                sources, targets = zip(*chunk, strict=True)
                yield vocabulary.encode_all(sources, "source"), vocabulary.encode_all(targets, "target")

    return ahead(made())


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    text = 0
    for pair in pairs:
        chunk.append(pair)
        text += len(pair[0]) + len(pair[1])
        if len(chunk) == _CHUNK or text >= _CHUNK_TEXT:
            yield chunk
            chunk, text = [], 0
    if chunk:
        yield chunk
