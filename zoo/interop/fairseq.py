"""Import of fairseq's Transformer checkpoints, without running code from their pickles.

torch.load with `weights_only=True` loads only tensors and plain data. A checkpoint also contains options, which may be
omegaconf or fairseq objects. They are replaced by instances of `InertObject`, which only store the objects' state.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import Spec, ZooError
from zoo.files.reading import damaged, file_exists, read_bytes
from zoo.interop.formats import (
    ImportedModel,
    ImportFormat,
    ImportRequest,
    assemble,
    language_codes,
    search_fields,
)
from zoo.interop.loading import load_torch_file
from zoo.interop.tables import (
    END,
    FAIRSEQ_SPECIAL,
    FIRST_POSITION,
    PAD_ROW,
    UNKNOWN,
    Settings,
    read_settings,
    read_tensors,
    tensor_layout,
)
from zoo.interop.tensors import STACKS, EmbeddingTables, ForeignTensors, TokenList
from zoo.interop.text_rules import ModelText, find_rules
from zoo.interop.vocabulary import convert_vocabulary, find_models
from zoo.text.codes import SEPARATOR

_REPLACED_MODULES = ("fairseq.", "omegaconf.", "numpy.")
_REPLACED_TYPES = ("typing.Any", *(f"builtins.{name}" for name in ("dict", "list", "int", "float", "str", "bool")))
_PLAIN_TYPES: dict[str, Any] = {
    "argparse.Namespace": argparse.Namespace,
    "collections.defaultdict": collections.defaultdict,
}
_CHECKPOINT_HINT = "use a checkpoint that fairseq wrote in training, such as `checkpoint_best.pt`"
_WITHOUT_EFFECT = ("version", "embed_positions._float_tensor", "embed_positions.weights")
_CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_LISTED_FILES = 5
_CODES = ("subword_nmt", "fastbpe")
"""Values of fairseq's `bpe` option for methods that use BPE codes."""
_OVERWRITE = " #fairseq:overwrite"
_DECODING = {**search_fields(beam=5, extra_length=200), "min_length": 1}
"""Default search options for the `fairseq-generate` command. A checkpoint contains no search options."""


class FairseqImport(ImportFormat):
    """The `fairseq` import format."""

    name = "fairseq"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is, or contains, a checkpoint with a dictionary in the same folder."""
        file = _find_checkpoint(path)
        return file is not None and any(file.parent.glob("dict.*.txt"))

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        file = _find_checkpoint(path)
        if file is None:
            raise _no_checkpoint(path)
        saved_options, saved_tensors = _read_checkpoint(file)
        options = _flat_options(saved_options, ("task", "model"), str(file))
        dropout = max(options.number(key, 0.0) for key in ("activation_dropout", "relu_dropout"))
        architecture = {**read_settings(options, "fairseq"), "activation_dropout": dropout}
        tensors = _current_tensors(saved_tensors, file)
        architecture |= _fields_of_tensors(tensors, architecture["positions"])
        tables = _read_embeddings(tensors, options)
        names = _dictionary_names(file.parent, options)
        source, target = (_read_dictionary(file.with_name(f"dict.{name}.txt")) for name in names)
        options.require_all_known()
        tables.require_rows(source, target)
        shared = source == target
        source = source if shared else replace(source, start=None)
        if request.languages is None:
            request = replace(request, languages=language_codes(*names))
        models = find_models(file.parent, request.languages)
        text = _text(_flat_options(saved_options, ("tokenizer", "bpe"), str(file)), request)
        rules = find_rules(models, file.parent, request.text, text)
        vocabulary = convert_vocabulary(models, source, target, shared=shared, where=file.parent, rules=rules)
        description = f"Imported from fairseq ({options.text('arch', options.text('_name', 'transformer'))})."
        model = assemble(request, description, architecture, tables, vocabulary, _DECODING, tensors, _read_layers)
        return ImportedModel(model, {"engine": "fairseq"}, vocabulary.notes)


def _find_checkpoint(path: Path) -> Path | None:
    if file_exists(path):
        return path if path.suffix == ".pt" else None
    usual = [path / name for name in _CHECKPOINTS if file_exists(path / name)]
    others = sorted(path.glob("*.pt")) if path.is_dir() else []
    return usual[0] if usual else others[0] if len(others) == 1 else None


def _no_checkpoint(path: Path) -> ZooError:
    """Return the error for a path for which `_find_checkpoint` returns None. For a folder, list its `.pt` files."""
    if not path.is_dir():
        return ZooError(f"`{path}` is not a fairseq checkpoint: its name does not end in `.pt`", hint=_CHECKPOINT_HINT)
    names = [file.name for file in sorted(path.glob("*.pt"))]
    listed = ", ".join(names[:_LISTED_FILES]) + (", ..." if len(names) > _LISTED_FILES else "")
    found = f"has {len(names):,} other `.pt` files ({listed})" if names else "has no `.pt` files"
    problem = f"cannot find the checkpoint in `{path}`: it contains none of {', '.join(_CHECKPOINTS)}, and {found}"
    return ZooError(problem, hint="use the path of the checkpoint file instead of the folder")


def _dictionary_names(folder: Path, options: Settings) -> tuple[str, str]:
    """Return the source and target language as spelled in dictionary file names, such as `de` in `dict.de.txt`."""
    source, target = options.any("source_lang"), options.any("target_lang")
    if isinstance(source, str) and isinstance(target, str) and source and target:
        return source, target
    problem = f"the checkpoint in `{folder}` does not specify its languages (`source_lang`, `target_lang`)"
    raise ZooError(problem, hint="import a checkpoint from fairseq's `translation` task, which stores the languages")


def _text(options: Settings, request: ImportRequest) -> ModelText:
    """Describe how a model's training text was tokenised and split into subwords, according to its checkpoint.

    Raises:
        ZooError: The text was split into subwords with a method that zoo does not support.
    """
    bpe = options.any("bpe")
    if bpe not in (None, *_CODES, "sentencepiece") and not request.text.tokenizer:
        hint = "to pass texts that are already split, add `--tokenizer space`"
        raise options.error("bpe", "is a tokenisation method that zoo does not support", hint)
    if bpe in _CODES and options.text("bpe_separator", SEPARATOR) != SEPARATOR:
        raise options.error("bpe_separator", f"is not supported: zoo marks subwords with `{SEPARATOR}`")
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
    names = list(FAIRSEQ_SPECIAL)
    known = set(names)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = line.rstrip()
        overwrites = entry.endswith(_OVERWRITE)
        name, _, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
        if not name or not count.isdecimal() or (name in known and not overwrites):
            problem = f"`{line.strip()[:50]}` is not a token and a count, or repeats an earlier token"
            raise damaged(f"{file}:{number}", problem)
        names.append(name)
        known.add(name)
    return TokenList(tuple(names), unknown=UNKNOWN, end=END, start=END, pad=PAD_ROW)


class InertObject:
    """Replacement for an object in a pickle. It stores the state of the object and has no behaviour."""

    def __init__(self, *_: object) -> None:
        """Ignore all arguments."""

    def __setstate__(self, state: object) -> None:
        self.state = state


def _read_checkpoint(file: Path) -> tuple[Mapping[str, Any], dict[str, Tensor]]:
    """Return the options and tensors of a checkpoint. Newer versions of fairseq put the options into sections.

    Raises:
        ZooError: The file is damaged, is not a fairseq checkpoint, or contains a global that fairseq's files never use.
    """
    content = load_torch_file(file, "fairseq", _replacement)
    model = content.get("model") if isinstance(content, dict) else None
    options = _to_plain_data(content.get("args") or content.get("cfg")) if isinstance(content, dict) else None
    if not isinstance(model, Mapping) or not isinstance(options, dict):
        problem = f"`{file}` is not a fairseq checkpoint: it lacks the key `model`, or both `args` and `cfg`"
        raise ZooError(problem, hint=_CHECKPOINT_HINT, exit_code=1)
    return options, {str(name): tensor for name, tensor in model.items() if isinstance(tensor, Tensor)}


def _to_plain_data(value: Any) -> Any:
    """Convert namespaces and omegaconf nodes to dictionaries, lists and plain values.

    Raises:
        ValueError: A value is not a number, string, list or mapping.
    """
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, InertObject):
        state = getattr(value, "state", None)
        fields = state if isinstance(state, dict) else {}
        return _to_plain_data(fields.get("_content", fields.get("_val")))
    if isinstance(value, dict):
        return {str(key): _to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain_data(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"an option has the type {type(value).__name__}, but only numbers, strings and lists are allowed")


def _replacement(name: str) -> Any:
    """Return the harmless replacement for a global in a pickle, or None if fairseq's files never use this global."""
    if name in _PLAIN_TYPES:
        return (_PLAIN_TYPES[name], name)
    if name in _REPLACED_TYPES or name.startswith(_REPLACED_MODULES):
        return (InertObject, name)
    return None


def _flat_options(options: Mapping[str, Any], sections: Sequence[str], where: str) -> Settings:
    """Merge sections of a checkpoint's options into one mapping.

    Args:
        options: The options. If they have no sections, as in older versions of fairseq, all options are returned.
        sections: The sections to return. If several sections have the same key, the last section takes precedence.
        where: The file, for error messages.
    """
    if not isinstance(options.get("model"), Mapping):
        return Settings({key: _name_or_value(value) for key, value in options.items()}, where)
    flat: dict[str, Any] = {}
    for section in sections:
        values = options.get(section)
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, Mapping) and key in (*STACKS, "quant_noise"):
                flat |= {f"{key}_{inner}": item for inner, item in value.items()}
            else:
                flat[key] = _name_or_value(value)
    return Settings(flat | {section: _name_or_value(options.get(section)) for section in sections}, where)


def _name_or_value(value: Any) -> Any:
    """Return the value of an option. If the value is a Hydra section, return its `_name` instead."""
    return value.get("_name") if isinstance(value, Mapping) else value


def _fields_of_tensors(source: ForeignTensors, positions: Mapping[str, Any]) -> dict[str, Any]:
    """Infer fields of `architecture` from the tensors.

    If the position embeddings are learned, truncate the longer table, so that encoder and decoder have the same number
    of positions.

    Raises:
        ZooError: The position embeddings are missing.
    """
    if positions["kind"] == "learned":
        tables = {name: source.take(name) for name in (f"{side}.embed_positions.weight" for side in STACKS)}
        rows = min(map(len, tables.values()))
        source.update({name: table[:rows] for name, table in tables.items()})
        size = {"rows": rows - FIRST_POSITION}
    else:
        size = {"first": FIRST_POSITION}
    biased = any(name.endswith("_proj.bias") for name in source)
    return {"positions": {**positions, **size}, "projection_bias": biased}


def _read_embeddings(source: ForeignTensors, options: Settings) -> EmbeddingTables:
    """Pop the embeddings and the output projection from `source`.

    Raises:
        ZooError: One of these matrices is missing.
    """
    encoder, decoder = (source.take(f"{side}.embed_tokens.weight") for side in STACKS)
    tied = [options.boolean(f"share_{name}", False) for name in ("decoder_input_output_embed", "all_embeddings")]
    names = ("decoder.output_projection.weight", "decoder.embed_out")
    outputs = [source.take(name) for name in names if name in source]
    if not outputs and not any(tied):
        raise damaged(source.file, f"it has no `{names[0]}`, but its options do not tie this matrix to the embedding")
    scale = 1.0 if options.boolean("no_scale_embedding", False) else float(decoder.shape[1]) ** 0.5
    return EmbeddingTables(encoder, decoder, outputs[0] if outputs else decoder, None, scale, scale)


def _read_layers(source: ForeignTensors, spec: Spec) -> dict[str, Tensor]:
    """Pop the tensors of all layers from `source`. Return tensors with zoo's names."""
    layout = tensor_layout("fairseq.old" if any(".layer_norms." in name for name in source) else "fairseq")
    return read_tensors(source, layout.rows(spec), optional_biases=True)


def _current_tensors(tensors: Mapping[str, Tensor], file: Path) -> ForeignTensors:
    """Return the tensors that affect the model's results, named as in current versions of fairseq.

    Split the concatenated query, key and value projections of older checkpoints.
    """
    current: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        attention, is_joint, kind = name.partition("in_proj_")
        for part, chunk in zip("qkv", tensor.chunk(3) if is_joint and tensor.dim() else (), strict=False):
            current[f"{attention}{part}_proj.{kind}"] = chunk
        if not is_joint and name.partition(".")[2] not in _WITHOUT_EFFECT:
            current[name] = tensor
    return ForeignTensors(current, file)
