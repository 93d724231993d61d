"""Files of a Marian model: the .npz or .bin file with the weights and the network's options, and `decoder.yml`.

`decoder.yml` lists the files of a model and its search settings.

Firefox Translations and Bergamot publish their models in the binary format .bin. Such a file begins with its version
and the number of tensors. For each tensor, a header of four integers contains the length of the name, the type, the
number of dimensions, and the number of bytes. All names, all shapes, and padding follow, and then the tensors. Integers
are 8 bytes long, and dimensions 4 bytes, in little-endian order.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite, prod
from os.path import normpath
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specs import UNK, ZooError
from specs.reader import read_value
from zoo.files.reading import file_exists, is_present, open_file, read_bytes
from zoo.interop.loading import BinaryReader
from zoo.interop.tables import Settings
from zoo.interop.tensors import ForeignTensors
from zoo.interop.vocabulary import find_sentencepiece_files

SUFFIX = "decoder.yml"
_DEFAULT_BEAM, _DEFAULT_LENGTH_FACTOR = 12, 3.0
_FIREFOX = {"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.0}
"""Firefox's search settings. Firefox models are .bin files without a `decoder.yml`."""
_APPROXIMATIONS = ("shortlist", "output-approx-knn")
OPTIONS = "special:model.yml"
_MAX_OPTIONS = 100_000  # bytes
_SMALL_MEMBER = 1_000_000  # bytes; the compression ratio of smaller members is not checked
_MAX_COMPRESSION = 20  # maximum ratio of larger members, because weights hardly compress
_VERSION = 1
_INTGEMM8 = 0x4101
"""Type of a quantised matrix: 8-bit integers in a layout that does not depend on the processor, and a multiplier.

The integers are the float values times the multiplier, a float32 that follows the integers. Matrices are stored
transposed, except embeddings.
"""
_TYPES: dict[int, np.dtype[Any]] = {0x0101: np.dtype("i1"), 0x0404: np.dtype("<f4"), _INTGEMM8: np.dtype("i1")}
_MIN_MULTIPLIER = 1e-30  # its reciprocal is finite in float32
_ACTIVATION_MULTIPLIERS = ("_QuantMultA", "_QuantMultB")
"""Name suffixes of tensors that are needed only for 8-bit matrix multiplication."""


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays in an .npz or .bin file, except tensors that are needed only for 8-bit matrix multiplication.

    Raises:
        ZooError: The file is missing, or its version or the type of a tensor is not supported.
        Exception: The file is damaged.
    """
    return _read_binary(file) if file.suffix == ".bin" else _read_npz(file)


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    with open_file(file) as stream, zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len({member.filename.removesuffix(".npy") for member in members}) != len(members):
            raise ValueError("it contains a tensor twice")
        for member in members:
            stored = min(member.compress_size, file.stat().st_size)
            if member.file_size > max(_SMALL_MEMBER, _MAX_COMPRESSION * stored):
                raise ValueError(f"`{member.filename}` would unpack to an implausible size")
        with np.load(stream, allow_pickle=False) as arrays:
            return dict(arrays)


def _read_binary(file: Path) -> dict[str, np.ndarray]:
    """Read a .bin file. Quantised matrices are dequantised to float32."""
    arrays: dict[str, np.ndarray] = {}
    with open_file(file) as stream:
        reader = BinaryReader(stream, file)
        if (version := reader.integer("Q")) != _VERSION:
            problem = f"`{file}` uses version {version} of the binary format, but zoo supports only version {_VERSION}"
            raise ZooError(problem, hint="use a `.bin` file from Marian, Bergamot or Firefox Translations")
        headers = [reader.numbers("4Q") for _ in range(reader.integer("Q"))]
        names = [reader.text(length) for length, *_ in headers]
        shapes = [reader.numbers(f"{rank}i") for _, _, rank, _ in headers]
        if len({*names}) != len(names):
            raise ValueError("it contains a tensor twice")
        reader.bytes(reader.integer("Q"))  # padding
        for name, shape, (_, type, _, size) in zip(names, shapes, headers, strict=True):
            if type not in _TYPES:
                hint = "import the float32 model or an `intgemm8` model, whose format does not depend on the processor"
                raise ZooError(f"`{name}` in `{file}` has the type {type:#x}, which zoo does not support", hint=hint)
            quantised, length = type == _INTGEMM8, prod(shape) * _TYPES[type].itemsize
            if min(shape, default=0) < 0 or length + 4 * quantised > size or (quantised and len(shape) != 2):
                raise ValueError(f"the shape {list(shape)} of `{name}` does not match its {size:,} bytes")
            data = reader.bytes(size)
            arrays[name] = array = np.frombuffer(data, _TYPES[type], prod(shape)).reshape(shape)
            if quantised:
                (multiplier,) = struct.unpack_from("<f", data, length)
                if not _MIN_MULTIPLIER < multiplier < 1 / _MIN_MULTIPLIER:  # also false for NaN
                    raise ValueError(f"the quantisation multiplier of `{name}` is {multiplier}")
                matrix = array if "Wemb" in name else array.reshape(shape[::-1]).T
                arrays[name] = np.ascontiguousarray(matrix, np.float32) * np.float32(1 / multiplier)
    return {name: array for name, array in arrays.items() if not name.endswith(_ACTIVATION_MULTIPLIERS)}


def is_binary_model(file: Path) -> bool:
    """Return whether a file is a model in Marian's binary format, judging by its name and its first bytes.

    Models from other toolkits and Marian's lexical shortlists are also named `.bin`, but begin with other bytes.
    """
    return file.suffix == ".bin" and begins_with(file, _VERSION)


def begins_with(file: Path, number: int) -> bool:
    """Return whether a file exists and begins with `number` as an 8-byte little-endian integer."""
    if not is_present(file):
        return False
    with open_file(file) as stream:
        return stream.read(8) == number.to_bytes(8, "little")


def _yaml_settings(content: bytes, where: str) -> Settings:
    """Parse YAML settings. Raise ZooError if the content is not a mapping."""
    values = read_value(content.decode("utf-8", "replace"), where).plain()
    if not isinstance(values, dict):
        hint = "restore the file from the model's original source"
        raise ZooError("the settings are not a mapping of keys to values", where=where, hint=hint)
    return Settings(values, where)


def network_options(arrays: dict[str, np.ndarray], file: Path) -> Settings:
    """Pop the network's options from `arrays`. Raise ZooError if the options are missing or invalid."""
    if OPTIONS not in arrays:
        hint = "check that the file comes from Marian, which writes this array to each model"
        raise ZooError(f"`{file}` does not contain `{OPTIONS}`", hint=hint)
    where, array = f"{OPTIONS} in {file}", arrays.pop(OPTIONS)
    if array.nbytes > _MAX_OPTIONS:
        raise ValueError(f"`{OPTIONS}` is longer than {_MAX_OPTIONS:,} bytes")
    if array.dtype.itemsize != 1:
        raise ValueError(f"`{OPTIONS}` is not text")
    return _yaml_settings(array.tobytes().rstrip(b"\0"), where)


def tensors_of(arrays: Mapping[str, np.ndarray], file: Path) -> ForeignTensors:
    """Return the arrays as float32 tensors. Raise ZooError if an array is quantised."""
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            hint = "import the original float32 model instead"
            raise ZooError(f"`{file}` is a quantised model: `{name}` has the type {array.dtype}", hint=hint)
    tensors = {name: torch.from_numpy(array.astype(np.float32, copy=False)) for name, array in arrays.items()}
    return ForeignTensors(tensors, file)


@dataclass(frozen=True)
class Decoder:
    """Files and search settings of a Marian model."""

    model: Path
    vocabularies: tuple[Path, Path]
    """Vocabularies of the source and the target."""
    decoding: Mapping[str, Any]
    """Fields of `decoding` in a spec. Control characters are not yet in `suppressed_tokens`."""
    notes: tuple[str, ...]


def read_decoder(path: Path, languages: tuple[str, str] | None) -> Decoder:
    """Find the files of a Marian model, and read its search settings.

    Args:
        path: An .npz or .bin file, a `decoder.yml`, or a folder that contains such a file.
        languages: Codes of the source and target languages, which may be part of the vocabularies' file names.

    Raises:
        ZooError: Files are missing or ambiguous, or a setting is not supported.
    """
    model, file = _find(path)
    if file:
        options = _yaml_settings(read_bytes(file, _MAX_OPTIONS), str(file))
    else:
        options = Settings(_FIREFOX if model and model.suffix == ".bin" else {}, str(model))
    folder = path if path.is_dir() else path.parent
    models = _paths(options, "models", folder)
    if model is None and len(models) != 1:
        raise options.error(
            "models", "lists several models, but ensembles cannot be imported", "import each model file separately"
        )
    options.require_known("marian.decoder")
    vocabularies = _paths(options, "vocabs", folder) or _default_vocabularies(model or models[0], languages)
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
    """Return the paths of all Marian models (.npz and .bin) in a folder."""
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
        raise ZooError(problem, hint="pass the path of the `.npz` or `.bin` file")
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


def _default_vocabularies(model: Path, languages: tuple[str, str] | None) -> list[Path]:
    """Return the source and target vocabularies of a model without a decoder.yml, found by their file names."""
    if (files := find_sentencepiece_files(model.parent, languages)) is not None:
        return [*files]
    hint = f"name them `source.spm` and `target.spm`, or write `vocabs: [SOURCE, TARGET]` to `{model.name}.{SUFFIX}`"
    raise ZooError(f"cannot find the vocabularies of `{model.name}` in `{model.parent}`", hint=hint)


def _decoding(options: Settings) -> dict[str, Any]:
    """Convert Marian's search settings to fields of `decoding` in a spec.

    Marian subtracts the word penalty for each token, and then divides the score by length^normalize. If
    `normalize` is 1, the penalty changes all scores by the same amount, so the penalty has no effect.
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
