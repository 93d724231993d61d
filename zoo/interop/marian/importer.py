"""Import of Marian models. The file `decoder.yml` lists a model's files and its search settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from os.path import normpath
from pathlib import Path
from typing import Any

from specs import UNK, Spec, ZooError
from zoo.files.reading import file_exists, read_bytes
from zoo.interop.formats import ImportedModel, ImportFormat, ImportRequest, imported_spec
from zoo.interop.marian.files import is_binary_model, network_options, read_arrays, tensors_of, yaml_settings
from zoo.interop.marian.network import architecture_fields, read_embeddings, read_layers
from zoo.interop.marian.vocabulary import read_shortlist, read_vocabulary, shortlist_files
from zoo.interop.tables import Settings
from zoo.models.loading import Model
from zoo.models.weights import Weights

_CONTROL_CHARACTERS = {f"<0x{number:02X}>" for number in range(32)}
"""Names of the tokens that represent bytes of control characters."""
_SCRIPTS = ("preprocess.sh", "postprocess.sh")
_SEARCH_NOTE = (
    "translations differ from Marian's, because Marian's search does not compute pre-norm models as in training. From "
    "the second token on, Marian's decoder does not normalise keys and values, but zoo normalises them, as in training"
)
SUFFIX = "decoder.yml"
_MAX_SIZE = 100_000  # bytes
_DEFAULT_BEAM, _DEFAULT_LENGTH_FACTOR = 12, 3.0
_FIREFOX = {"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.0}
"""Search settings of Firefox, whose models are .bin files without a `decoder.yml`."""
_VOCABULARIES = (("source.spm", "target.spm"), ("vocab.spm", "vocab.spm"), ("srcvocab.*.spm", "trgvocab.*.spm"))
"""Usual names of the source and target vocabularies. Firefox uses the last two pairs."""
_APPROXIMATIONS = ("shortlist", "output-approx-knn")


class MarianImport(ImportFormat):
    """The `marian` import format."""

    name = "marian"
    description = "Marian's .npz or .bin, or its folder with decoder.yml and .spm or .yml vocabularies"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is an .npz or .bin file, a `decoder.yml`, or a folder that contains such a file."""
        if path.is_dir():
            return any(path.glob(f"*{SUFFIX}")) or len(model_files(path)) == 1
        return path.name.endswith((SUFFIX, ".npz")) or is_binary_model(path)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        arrays = read_arrays(path) if path.suffix in (".npz", ".bin") else None
        decoder = read_decoder(path)
        arrays = arrays or read_arrays(decoder.model)
        options = network_options(arrays, decoder.model)
        tensors = tensors_of(arrays, decoder.model)
        architecture = architecture_fields(options)
        tables = read_embeddings(tensors, options)
        rows = len(tables.source), len(tables.target)
        vocabulary = read_vocabulary(decoder.vocabularies, rows, request)
        embeddings, fields = tables.converted(vocabulary.source, vocabulary.target)
        control_characters = [id for id, name in enumerate(vocabulary.target.names) if name in _CONTROL_CHARACTERS]
        suppressed = [*decoder.decoding["suppressed_tokens"], *control_characters]
        decoding = {**decoder.decoding, "suppressed_tokens": suppressed}
        description = f"Imported from Marian's {decoder.model.name}."
        spec = imported_spec(request, description, {**architecture, **fields}, vocabulary, decoding)
        layers = read_layers(tensors, options, spec)
        options.require_all_known()
        tensors.require_all_taken()
        version = str(options.any("version", "")).split(" ")[0]
        origin = {"engine": f"Marian {version}".strip()}
        notes = [*decoder.notes, *vocabulary.notes, *([] if _searches_as_trained(spec) else [_SEARCH_NOTE])]
        for name in _SCRIPTS:
            if decoder.model.with_name(name).is_file():
                notes.append(f"zoo does not run the script `{name}`: the model receives unprocessed text")
        files, shortlist = shortlist_files(decoder.model.parent), None
        if len(files) == 1:
            shortlist = read_shortlist(files[0], vocabulary, rows)
            use = "to use it, add `--shortlist --backend native` to `zoo decode`"
            notes.append(f"the shortlist `{files[0].name}` is imported; {use}")
        elif files:
            found = f"{len(files)} shortlists ({', '.join(file.name for file in files)})"
            notes.append(f"the folder has {found}, so none is imported; keep one shortlist and import the model again")
        model = Model(spec, vocabulary.vocabulary, Weights({**layers, **embeddings}), shortlist)
        return ImportedModel(model, origin, tuple(notes))


def _searches_as_trained(spec: Spec) -> bool:
    """Return whether Marian computes the same function in search as in training.

    In pre-norm models, Marian normalises the keys and values of self-attention only if they are computed from the same
    tensor as the queries. In search, keys and values come from the inputs of all steps so far, so Marian does not
    normalise them.
    """
    return spec.architecture.norm.placement != "pre" or spec.architecture.decoder[0].kind != "self_attention"


@dataclass(frozen=True)
class Decoder:
    """Files and search settings of a Marian model."""

    model: Path
    vocabularies: tuple[Path, Path]
    """Vocabularies of the source and the target."""
    decoding: Mapping[str, Any]
    """Fields of `decoding` in a spec. Control characters are not yet in `suppressed_tokens`."""
    notes: tuple[str, ...]


def read_decoder(path: Path) -> Decoder:
    """Find the files of a Marian model, and read its search settings.

    Args:
        path: An .npz or .bin file, a `decoder.yml`, or a folder that contains such a file.

    Raises:
        ZooError: Files are missing or ambiguous, or a setting is not supported.
    """
    model, file = _find(path)
    if file:
        options = yaml_settings(read_bytes(file, _MAX_SIZE), str(file), "the file is not a mapping of keys to values")
    else:
        options = Settings(_FIREFOX if model and model.suffix == ".bin" else {}, str(model))
    folder = path if path.is_dir() else path.parent
    models = _paths(options, "models", folder)
    if model is None and len(models) != 1:
        raise options.error(
            "models", "lists several models, but ensembles cannot be imported", "import each model file separately"
        )
    options.require_known("marian.decoder")
    vocabularies = _paths(options, "vocabs", folder) or list(_default_vocabularies(model or models[0]))
    if len(vocabularies) != 2:
        raise options.error("vocabs", "does not name one vocabulary for the source and one for the target")
    decoding = _decoding(options)
    if decoding["beam"] == 1:
        options.ignore("skip-cost")  # without costs, Marian skips the softmax, which changes no greedy choice
    else:
        options.require({"skip-cost": (False,)})
    notes = tuple(
        f"`{key}` of `{Path(options.where).name}` is ignored: by default, zoo's search considers all tokens"
        for key in _APPROXIMATIONS
        if options.any(key)
    )
    options.require_all_known()
    source, target = vocabularies
    return Decoder(model or models[0], (source, target), decoding, notes)


def model_files(folder: Path) -> list[Path]:
    """Return Marian's model files in a folder."""
    return sorted([*folder.glob("*.npz"), *filter(is_binary_model, folder.glob("*.bin"))])


def _find(path: Path) -> tuple[Path | None, Path | None]:
    """Return the paths of a model's .npz or .bin file and of its decoder.yml. At most one of the paths is None."""
    if path.is_dir():
        files = [path / SUFFIX] if file_exists(path / SUFFIX) else sorted(path.glob(f"*.{SUFFIX}"))
        models = model_files(path)
        if len(files) == 1:
            return None, files[0]
        if len(models) == 1:
            return models[0], None
        names = ", ".join(file.name for file in files or models) or "none"
        problem = f"`{path}` does not contain exactly one model (found: {names})"
        raise ZooError(problem, hint="give the `.npz` or `.bin` file")
    if path.suffix in (".yml", ".yaml"):
        return None, path
    candidates = (path.with_name(f"{path.name}.{SUFFIX}"), path.with_suffix(f".{SUFFIX}"), path.with_name(SUFFIX))
    return path, next((file for file in candidates if file_exists(file)), None)


def _paths(options: Settings, key: str, folder: Path) -> list[Path]:
    """Return the paths of the files that are listed in an option. The listed paths are relative to `folder`.

    If a file does not exist or is outside `folder`, return the path of a file with the same name directly in `folder`.
    """
    names = options.any(key, []) or []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise options.error(key, "is not a list of files")
    root = Path(normpath(folder.absolute()))
    paths = []
    for name in names:
        path = Path(normpath(root / name))
        inside = path.is_relative_to(root) and file_exists(path)
        paths.append(folder / (path.relative_to(root) if inside else path.name))
    return paths


def _default_vocabularies(model: Path) -> tuple[Path, Path]:
    """Return the source and target vocabularies of a model without a decoder.yml, found by their usual file names."""
    folder = model.parent
    for patterns in _VOCABULARIES:
        found = [sorted(folder.glob(pattern)) for pattern in patterns]
        if all(len(files) == 1 for files in found):
            return found[0][0], found[1][0]
    if len(files := sorted(folder.glob("*.spm"))) == 1:
        return files[0], files[0]
    hint = f"create `{model.name}.{SUFFIX}` with the line `vocabs: [SOURCE, TARGET]`"
    raise ZooError(f"cannot find the vocabularies of `{model.name}` in `{folder}`", hint=hint)


def _decoding(options: Settings) -> dict[str, Any]:
    """Convert Marian's search settings to fields of `decoding` in a spec.

    Marian subtracts the word penalty for each token, and then divides the score by length^normalize. With
    `normalize: 1`, the penalty changes all scores by the same amount, so it has no effect.
    """
    alpha = options.number("normalize", 0.0)
    if options.number("word-penalty", 0.0) and alpha != 1:
        raise options.error(
            "word-penalty",
            f"has an effect with `normalize: {alpha:g}`, but zoo has no word penalty",
            "write `word-penalty: 0`, which changes the model's translations, or `normalize: 1`",
        )
    factor = options.number("max-length-factor", _DEFAULT_LENGTH_FACTOR)
    if not isfinite(factor):
        raise options.error("max-length-factor", "is not finite")
    return {
        "beam": options.integer("beam-size", _DEFAULT_BEAM, minimum=1),
        "alpha": alpha,
        "length_penalty": "power",
        "stopping_rule": "shrinking",
        "length_factor": factor,
        # Marian counts EOS of source and target: at most F (S + 1) tokens. These are F S + F - 1 tokens without EOS.
        # For a factor that is not an integer, this is approximate.
        "extra_length": max(0, ceil(factor) - 1),
        "suppressed_tokens": [] if options.boolean("allow-unk", False) else [UNK],
    }
