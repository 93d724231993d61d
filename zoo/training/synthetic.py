"""Synthetic parts of a corpus: texts that models translate before training, for distillation and back-translation.

Each part gets a folder in `storage.synthetic()`, with the files `source.txt` and `target.txt`. The folder's name is a
hash of the text, the models and the decoding options, so that specs with the same part share the folder. Until the
folder is complete, the file `NAME.partial` next to it has one line for each translated sentence. If the process is
killed, the next process continues after the last complete line. A translation depends neither on its batch nor, if it
is sampled, on earlier random numbers. The result is therefore the same as without an interruption.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, tee
from pathlib import Path
from typing import Any

from specs import Files, Spec, Synthetic, Translation, ZooError
from specs.corpus import Direction
from zoo.data.corpus import MissingFileError, existing_file, parallel_lines
from zoo.evaluation.text_metrics import text_metric
from zoo.files import storage
from zoo.files.atomic import atomic_folder, convert_disk_errors, partial_path, write_json
from zoo.files.locks import exclusive
from zoo.files.manifest import sha256
from zoo.files.storage import require_space
from zoo.generation.loading import open_model
from zoo.generation.text_search import translate_lines
from zoo.generation.translator import Translator
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.report import Report, amount
from zoo.text.language_codes import best_match
from zoo.text.lines import clean, is_sgml, read_sentences

_FORMAT = 1  # increase this number whenever the same models generate different pairs
_DESCRIPTION = "description.json"

Record = Mapping[str, Any]
"""Record of a synthetic part: its name in the spec, its folder, the models and their digests."""


def write_missing(
    spec: Spec, report: Report, device: str = "auto", known: Sequence[Record] = ()
) -> tuple[Spec, list[Record]]:
    """Generate the synthetic parts of a corpus (translations by models) that do not exist yet.

    Args:
        spec: Spec of the model to train.
        report: Receives messages, warnings and the progress.
        device: Device on which the models translate.
        known: Records of the synthetic parts, from the run to resume. A record contains hashes of the models that
            translated the part. If the folder with the translations still exists, the models are not needed.

    Returns:
        The spec, in which the written files replace the synthetic parts, and the records of these parts.

    Raises:
        ZooError: A text or a model does not exist, a model does not translate in the direction of its part, a
            decoding option is not valid, or the disk is full.
    """
    parts, records = list(spec.corpus.train), list[Record]()
    for number, part in enumerate(parts):
        if isinstance(part, Synthetic):
            name = f"train[{number}]"
            try:
                text = _SyntheticText(spec, part, name, report)
                records.append(text.find_or_write(device, next((each for each in known if each["part"] == name), None)))
            except MissingFileError:  # it already names the part
                raise
            except ZooError as error:
                problem = f"`{part.text}` in `corpus.train` cannot be translated: {error.problem}"
                raise ZooError(problem, where=error.where, hint=error.hint, exit_code=error.exit_code) from error
            folder = Path(records[-1]["folder"])
            common = part.model_dump(include={"weight", "source_language", "target_language", "tag"})
            parts[number] = Files(source=str(folder / "source.txt"), target=str(folder / "target.txt"), **common)
    corpus = spec.corpus.model_copy(update={"train": tuple(parts)})
    return spec.model_copy(update={"corpus": corpus}), records


class _SyntheticText:
    """Text in one synthetic part of a corpus, and its translations by models."""

    def __init__(self, spec: Spec, part: Synthetic, name: str, report: Report) -> None:
        self.part, self.name, self.report = part, name, report
        self.paths = [existing_file(spec.corpus, path) for path in (part.text, part.reference) if path is not None]
        """Path of the text and, if there is one, of the reference translations."""
        source, target = spec.corpus.direction(part)
        self.direction: Direction = (source, target) if part.source else (target, source)
        """Languages of the text and its translations."""

    def find_or_write(self, device: str, known: Record | None) -> Record:
        """Return the record of the synthetic part. Generate its translations first if their folder is missing."""
        if known and Path((record := self._record(known["models"]))["folder"]).is_dir():
            return record
        folders = {name: find.model(name, self.report) for name in self.part.models}
        languages = [_languages_of(name, ModelFolder(folder).spec, self.direction) for name, folder in folders.items()]
        record = self._record(_model_digests(folders))
        if known and known["models"] != record["models"]:
            problem = "the synthetic text was removed, and the models that generated it have changed"
            raise ZooError(problem, hint="restore the models, or start over with `--fresh`")
        folder = Path(record["folder"])
        if not folder.is_dir():
            with exclusive(folder, self.report):
                self._write(record, folders, languages[0], device)
        return record

    def _record(self, models: Mapping[str, str]) -> Record:
        options = {"n_best": self.part.n_best, **self.part.decoding.model_dump()}
        identity = {
            "format": _FORMAT,
            "text": [[is_sgml(path), sha256(path)] for path in self.paths],
            "side": "source" if self.part.source else "target",
            "languages": self.direction,
            "models": [models[name] for name in self.part.models],
            "options": options,
        }
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        return {"part": self.name, "folder": str(storage.synthetic() / key), "models": dict(models), "options": options}

    def _require_unchanged(self, record: Record, models: Mapping[str, str], journal: Path | None = None) -> None:
        """Raise ZooError, and remove `journal`, if the text or the models have changed since `record` was created."""
        if self._record(models)["folder"] != record["folder"]:
            if journal is not None:
                journal.unlink(missing_ok=True)
            problem = "a model, or the text to translate, was changed while it was being read"
            raise ZooError(problem, hint="run the command again once these files no longer change", exit_code=1)

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """Yield a tuple for each line to translate: the line and, if there is one, its reference translation."""
        return parallel_lines(self.paths, [read_sentences(path) for path in self.paths])

    def _write(self, record: Record, models: Mapping[str, Path], languages: Direction, device: str) -> None:
        """Translate the text, and write the sentence pairs to the folder in `record`, unless the folder already exists.

        The caller must hold the folder's lock.
        """
        folder = Path(record["folder"])
        journal = partial_path(folder)
        if not folder.is_dir():
            total, done = self._count_lines(folder), _finished_lines(journal)
            resumed = f" ({done:,} are already translated)" if done else ""
            self.report.info(f"{self.part.summary}: {amount(total, 'lines')}{resumed}")
            if done < total:
                opened = [open_model(path, device=device, report=self.report) for path in models.values()]
                self._require_unchanged(record, _model_digests(models))
                translator = Translator.ensemble(opened)
                try:
                    with convert_disk_errors(journal):
                        self._translate(translator, languages, journal, done, total)
                except ZooError:
                    self._require_unchanged(record, record["models"], journal)
                    raise
            self._require_unchanged(record, record["models"], journal)
            pairs = self._combine(folder, journal, record)
            self.report.info(f"the translations of `{self.part.text}` are in {folder}: {pairs:,} pairs")
        journal.unlink(missing_ok=True)

    def _count_lines(self, folder: Path) -> int:
        """Return the number of lines to translate, after checking that the disk of `folder` has enough free space.

        Raises:
            ZooError: A file cannot be read, the text and its reference translation have different numbers of lines, or
                the disk has too little free space.
        """
        count = size = 0
        for text, *_ in self._lines():
            count, size = count + 1, size + len(text.encode())
        kept = 1 if self.part.reference else self.part.n_best
        require_space(folder, 3 * kept * size, "the synthetic text")  # the journal and both sides of each pair
        return count

    def _translate(self, translator: Translator, languages: Direction, journal: Path, done: int, total: int) -> None:
        """Translate the lines after line `done`. For each line, append a JSON list of its translations to `journal`."""
        source, target = languages
        options = self.part.decoding.model_dump()
        preprocessor = translator.preprocessor(source, target)
        sources, lines = tee(islice(self._lines(), done, None))

        def accepted(text: str) -> str:
            """Return the cleaned text, or an empty string if the model cannot read the text."""
            text = clean(text)
            with suppress(ZooError):  # it has too many characters, or a special token
                return text if len(translator.vocabulary.encode(text)) <= preprocessor.max_source_length else ""
            return ""

        accepted_texts = (accepted(text) for text, *_ in sources)
        found = translate_lines(
            translator, accepted_texts, n_best=self.part.n_best, first=done, source=source, target=target, **options
        )
        with (
            journal.open("a", encoding="utf-8", newline="\n", buffering=1) as file,
            self.report.progress(preprocessor.terms.verb, total, "sentences") as progress,
        ):
            progress.advance(done)
            for translations, (_, *references) in zip(found, lines, strict=True):
                texts = list(dict.fromkeys(each.text for each in translations if each.text))
                if texts and references:
                    texts = [_best_by_chrf(texts, clean(*references))]
                file.write(json.dumps(texts, ensure_ascii=False) + "\n")
                progress.advance()

    def _combine(self, folder: Path, journal: Path, record: Record) -> int:
        """Write all sentence pairs to `folder`, with `record` as JSON. Return the number of pairs.

        The translations come from `journal`.
        """
        names = ("source.txt", "target.txt") if self.part.source else ("target.txt", "source.txt")
        pairs = 0
        with atomic_folder(folder, replace=False) as partial:
            given, written = (partial / name for name in names)
            with (
                given.open("w", encoding="utf-8", newline="\n") as texts,
                written.open("w", encoding="utf-8", newline="\n") as translations,
                journal.open(encoding="utf-8", newline="\n") as lists,
            ):
                for (text, *_), line in zip(self._lines(), lists, strict=True):
                    for translation in json.loads(line):
                        texts.write(f"{clean(text)}\n")
                        translations.write(f"{translation}\n")
                        pairs += 1
            write_json(partial / _DESCRIPTION, {**record, "pairs": pairs})
        return pairs


def _languages_of(name: str, model: Spec, wanted: Direction) -> Direction:
    """Return a model's own codes for two languages, such as `eng_Latn` for `en`.

    Raises:
        ZooError: The model does not translate in this direction.
    """
    own = (model.corpus.source, model.corpus.target)
    known = [[code] for code in own] if model.languages is None else [model.languages.codes] * 2
    source, target = map(best_match, wanted, known)
    if not isinstance(model.task, Translation) or source is None or target is None:
        problem = f"the model `{name}` does not translate from `{wanted[0]}` to `{wanted[1]}`"
        raise ZooError(problem, hint="choose a different model in `models`, or correct the languages of this part")
    return source, target


def _model_digests(folders: Mapping[str, Path]) -> dict[str, str]:
    """Return a hash of the spec, the weights and the vocabulary of each model, given the models' folders."""
    digests = {}
    for name, folder in folders.items():
        model = ModelFolder(folder)
        files = [model.spec_file, model.newest_weights, *sorted(folder.glob("vocabulary*"))]
        digests[name] = hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()
    return digests


def _finished_lines(journal: Path) -> int:
    """Return the number of complete lines at the start of a journal file, and remove everything after them."""
    if not journal.exists():
        return 0
    lines = end = 0
    with convert_disk_errors(journal), journal.open("rb+") as file:
        for line in file:
            if not (line.startswith(b"[") and line.endswith(b"]\n")):
                break
            lines, end = lines + 1, end + len(line)
        file.truncate(end)
    return lines


def _best_by_chrf(texts: Sequence[str], reference: str) -> str:
    metric = text_metric("chrf")
    scores = metric.scores(metric.statistics(texts, [reference] * len(texts)))
    return texts[int(scores.argmax())]
