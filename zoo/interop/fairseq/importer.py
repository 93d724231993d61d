"""Import of checkpoints of fairseq's Transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import file_exists, read_bytes
from zoo.interop.fairseq import checkpoint
from zoo.interop.fairseq.network import (
    architecture_fields,
    current_tensors,
    fields_of_tensors,
    flat_options,
    read_embeddings,
)
from zoo.interop.formats import ImportedModel, ImportRequest, are_language_codes, imported_spec
from zoo.interop.settings import Settings
from zoo.interop.tables import pytorch_layout, read_tensors
from zoo.interop.text_rules import ModelText, find_rules
from zoo.interop.vocabulary import TokenList, convert_vocabulary, find_models
from zoo.text.codes import SEPARATOR

_CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
_PAD, _END, _UNKNOWN = 1, 2, 3
_CODES = ("subword_nmt", "fastbpe")
"""Values of fairseq's option `bpe` for BPE codes."""
_OVERWRITE = " #fairseq:overwrite"
_DECODING: dict[str, Any] = {
    "beam": 5,
    "alpha": 1.0,
    "length_penalty": "power",
    "stopping_rule": "full",
    "length_factor": 0.0,
    "extra_length": 200,
    "min_length": 1,
}
"""Default search options of the command `fairseq-generate`, because a checkpoint does not contain any."""


class FairseqImport:
    """The import format `fairseq`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "fairseq"
    description = "a checkpoint of fairseq (.pt) with its dictionaries (dict.LANGUAGE.txt) in the same folder"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is, or contains, a checkpoint with a dictionary in the same folder."""
        file = _find_checkpoint(path)
        return file is not None and any(file.parent.glob("dict.*.txt"))

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        file = _find_checkpoint(path)
        if file is None:
            problem = f"`{path}` has no checkpoint: none of {', '.join(_CHECKPOINTS)} exists"
            raise ZooError(problem, hint="give the path of the checkpoint file instead of the folder")
        saved = checkpoint.read(file)
        options = flat_options(saved.options, str(file))
        architecture = architecture_fields(options)
        tensors = current_tensors(saved.tensors, file)
        architecture |= fields_of_tensors(tensors, options)
        tables = read_embeddings(tensors, options)
        names = _dictionary_names(file.parent, options)
        source, target = (_read_dictionary(file.with_name(f"dict.{name}.txt")) for name in names)
        options.require_all_known()
        source.require_rows("source", len(tables.source))
        target.require_rows("target", len(tables.target))
        shared = source == target
        source = source if shared else replace(source, start=None)
        if request.languages is None:
            request = replace(request, languages=_language_codes(names))
        models = find_models(file.parent)
        text = _text(Settings(saved.options, str(file)), request)
        rules = find_rules(models, file.parent, request.text, text)
        vocabulary = convert_vocabulary(models, source, target, shared=shared, where=file.parent, rules=rules)
        embeddings, embedding_fields = tables.converted(vocabulary.source, vocabulary.target)
        spec = imported_spec(
            request,
            f"Imported from fairseq ({options.text('arch', options.text('_name', 'transformer'))}).",
            architecture={**architecture, **embedding_fields},
            vocabulary=vocabulary.fields,
            decoding=_DECODING,
        )
        layers = read_tensors(tensors, pytorch_layout().rows(spec), optional_biases=True)
        tensors.require_all_taken()
        origin = {"format": self.name, "source": file.name, "engine": "fairseq"}
        return ImportedModel(spec, vocabulary.vocabulary, {**layers, **embeddings}, origin, vocabulary.notes)


def _find_checkpoint(path: Path) -> Path | None:
    if file_exists(path):
        return path if path.suffix == ".pt" else None
    usual = [path / name for name in _CHECKPOINTS if file_exists(path / name)]
    others = sorted(path.glob("*.pt")) if path.is_dir() else []
    return usual[0] if usual else others[0] if len(others) == 1 else None


def _dictionary_names(folder: Path, options: Settings) -> tuple[str, str]:
    """Return the names of the source and target language, which are part of the file names of the dictionaries."""
    source, target = options.any("source_lang"), options.any("target_lang")
    if isinstance(source, str) and isinstance(target, str) and source and target:
        return source, target
    problem = f"the checkpoint in `{folder}` does not name its languages (`source_lang`, `target_lang`)"
    raise ZooError(problem, hint="import a checkpoint of fairseq's task `translation`, which stores the languages")


def _language_codes(names: tuple[str, str]) -> tuple[str, str] | None:
    """Convert fairseq's language names to the codes that zoo uses, such as en_XX to en-XX. None if one is invalid."""
    source, target = (name.replace("_", "-") for name in names)
    return (source, target) if are_language_codes((source, target)) else None


def _text(options: Settings, request: ImportRequest) -> ModelText:
    """Return the facts about text in a checkpoint's options, which newer versions of fairseq put into sections.

    Raises:
        ZooError: The text was split in a way that zoo does not support.
    """
    values = dict(options.values)
    for section in ("tokenizer", "bpe"):
        if isinstance(of_section := values.get(section), Mapping):
            values |= {**of_section, section: of_section.get("_name")}
    options = Settings(values, options.where)
    bpe = options.any("bpe")
    if bpe not in (None, *_CODES, "sentencepiece") and not request.text.tokenizer:
        hint = "to pass texts that are already split, add `--tokenizer space`"
        raise options.error("bpe", "is a way to split text that zoo does not support", hint)
    if bpe in _CODES and options.text("bpe_separator", SEPARATOR) != SEPARATOR:
        raise options.error("bpe_separator", f"is not supported: zoo writes BPE codes with `{SEPARATOR}`")
    source, target = request.languages or (None, None)
    languages = options.any("moses_source_lang") or source, options.any("moses_target_lang") or target
    return ModelText(
        languages=(str(languages[0]), str(languages[1])) if all(languages) else None,
        tokenizer=options.any("tokenizer"),
        default_tokenizer="moses",  # torch.hub's convention for models with codes
        needs_codes=bpe in _CODES,
        codes=options.any("bpe_codes"),
        dash_splits=not options.boolean("moses_no_dash_splits", False),
        escape=not options.boolean("moses_no_escape", False),
    )


def _read_dictionary(file: Path) -> TokenList:
    """Read `dict.LANGUAGE.txt`, which has a token and its count on each line.

    The first four tokens are special tokens that the file does not list. Decoding begins with EOS.

    Raises:
        ZooError: The file is missing or damaged.
    """
    lines = read_bytes(file).decode("utf-8").split("\n")
    names = list(_SPECIAL_TOKENS)
    known = set(names)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = line.rstrip()
        overwrites = entry.endswith(_OVERWRITE)
        name, _, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
        if not name or not count.isdecimal() or (name in known and not overwrites):
            problem = f"`{line.strip()[:50]}` is not a token and a count, or repeats an earlier token"
            raise ZooError(problem, where=f"{file}:{number}", hint="restore it from its source", exit_code=1)
        names.append(name)
        known.add(name)
    return TokenList(tuple(names), unknown=_UNKNOWN, end=_END, start=_END, pad=_PAD)
