"""Import of other toolkits' models, from files or the Hugging Face Hub, into the local model store (`zoo import`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import specs
from specs import Spec, ZooError
from zoo.files.reading import is_present, open_file
from zoo.files.storage import require_space
from zoo.files.transfer import is_offline
from zoo.interop.ctranslate2.importer import CTranslate2Import
from zoo.interop.fairseq import FairseqImport
from zoo.interop.formats import (
    UNKNOWN_LANGUAGES,
    ImportedModel,
    ImportFormat,
    ImportRequest,
    are_language_codes,
    format_named,
    listed,
)
from zoo.interop.huggingface.config import model_type
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.t5 import T5
from zoo.interop.marian.importer import MarianImport
from zoo.interop.text_rules import refuse_options
from zoo.models import catalogue
from zoo.models.folder import ModelFolder
from zoo.models.local_store import model_path
from zoo.models.registries.revision import is_name
from zoo.publishing.provenance import Provenance
from zoo.publishing.publish import complete, new_bundle
from zoo.report import Report, size
from zoo.system.memory import is_out_of_memory, memory_limit

FAMILIES: tuple[Family, ...] = (HuggingFaceMarian(), Multilingual(), T5())
"""Families of transformers' models. To add a family, write a module and add its class to this list."""
IMPORT_FORMATS: tuple[ImportFormat, ...] = (*FAMILIES, MarianImport(), CTranslate2Import(), FairseqImport())
"""Import formats. To add a format, write a package and add its class to this list."""
_MAX_MESSAGE = 500  # characters
_MEMORY_PER_BYTE = 16
"""Maximum memory for reading a model, as a multiple of the size of its files. 8-bit weights are copied to float32
twice."""
_SPARE_MEMORY = 1 << 28  # additional bytes, for vocabularies and the libraries that read them
_HUB_PREFIX = "hf:"
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w./-]+)?", re.ASCII)
_SMALL_FILES = ("json", "spm", "yml", "yaml", "txt", "model", "codes", "md")
_WEIGHTS = (
    *("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin", "pytorch_model-*-of-*.bin"),
    *("model.bin", "*.npz", "*.pt"),
)
"""Names of weight files, in order of preference. safetensors comes before formats that contain pickles."""
_CARD = "README.md"
_MAX_CARD = 65_536  # bytes
_LICENCE = re.compile(rb"^license:[ \t]*[\"']?([A-Za-z0-9][\w.+-]{0,99})[\"']?[ \t]*$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class ImportOptions(ImportRequest):
    """Options of `zoo import`."""

    format: str | None = None
    """Name of the import format. If None, the files determine it."""
    replace: bool = False
    """Whether to replace an existing model of the same name."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the origin of the model, for its provenance, such as the URL of its archive."""
    description: str | None = None
    licence: str | None = None
    """Licence of the model, used if its files contain no model card that specifies the licence."""


def import_model(source: str, options: ImportOptions, report: Report) -> Path:
    """Import a model from another toolkit into the local model store.

    Args:
        source: A file, a folder, or `hf:ORG/NAME`.
        options: The options of the import.
        report: Receives notes, warnings and the progress.

    Returns:
        The folder of the imported model in the local model store.

    Raises:
        ZooError: The format is unknown, the model is damaged or has a property that zoo does not support, or the
            name is invalid or in use. In all these cases, nothing is written.
    """
    with stage_import(source, options, report) as bundle:
        name = bundle.spec.name
    return model_path(name)


@contextmanager
def stage_import(source: str, options: ImportOptions, report: Report) -> Iterator[ModelFolder]:
    """Import a model into a temporary folder, and move it into the local model store at the end of the `with` block.

    The arguments and errors are those of `import_model`. If the block raises an exception, nothing is written.
    """
    if options.languages and not are_language_codes(options.languages):
        problem = f"`--languages {' '.join(options.languages)}` must be two language codes"
        raise ZooError(problem, hint="use language codes, such as in `--languages en de`")
    path = _local_path(source, report)
    origin_name = repository(source) if is_on_hub(source) else Path(source).absolute().name
    name = options.name or _default_name(origin_name)
    if not is_name(name):
        hint = "choose a name with `--name NAME`: letters, digits and `-_.,`, beginning with a letter or a digit"
        raise ZooError(f"`{name}` is not a valid name for a model", hint=hint)
    format = find_format(path, options.format)
    if options.positions and format.name != HuggingFaceMarian.name:
        problem = f"`--positions` is for {HuggingFaceMarian.name} only, but this model has the format {format.name}"
        raise ZooError(problem, hint="omit `--positions`")
    if format in FAMILIES:
        refuse_options(options.text, "transformers' models come with their tokenizers")

    with new_bundle(name, replace=options.replace) as bundle:
        imported = read_foreign(format, path, replace(options, name=name, origin_name=origin_name))
        model = imported.model
        for note in (*imported.notes, *_notes_for_user(model.spec)):
            report.info(f"note: {note}")
        origin = {"format": format.name, "source": source if is_on_hub(source) else origin_name, **imported.origin}
        updated = {"licence": licence_of_card(path) or options.licence}
        if options.description:
            updated["description"] = options.description
        require_space(bundle.folder, sum(tensor.nbytes for tensor in model.weights.tensors.values()), "the bundle")
        replace(model, spec=model.spec.model_copy(update=updated)).write(bundle)
        provenance = Provenance(imported={**origin, **options.facts}, notes=imported.notes)
        del imported, model  # free their memory, because the next lines load the bundle
        complete(bundle, provenance, report)
        yield bundle


def find_format(path: Path, name: str | None = None) -> ImportFormat:
    """Return the format with the given name. Without a name, detect the format of a file or folder.

    Raises:
        ZooError: The path does not exist, there is no format with this name, or the files have no known format.
    """
    if not path.exists():
        hint = "give a file or a folder, or `hf:ORG/NAME`"
        if catalogue.find(str(path)) is not None:
            hint = f"`zoo pull {path}` downloads and imports the public model with this name"
        raise ZooError(f"`{path}` does not exist", hint=hint)
    if name is not None:
        return format_named(name, IMPORT_FORMATS, "import")
    for format in IMPORT_FORMATS:
        if format.recognises(path):
            return format
    if path.is_file() and any(format.recognises(path.parent) for format in IMPORT_FORMATS):
        raise ZooError(f"`{path}` is only part of a model", hint=f"give the model's folder, `{path.parent}`")
    if found := model_type(path):
        known = ", ".join(f"`{type_}`" for family in FAMILIES for type_ in family.model_types)
        problem = f"`{path}` is a transformers model of the type `{found}`, but zoo imports only {known}"
        raise ZooError(problem, hint="choose a model of one of these types")
    raise ZooError(f"`{path}` is not in a known model format", hint=f"supported formats: {listed(IMPORT_FORMATS)}")


def read_foreign(format: ImportFormat, path: Path, request: ImportRequest) -> ImportedModel:
    """Read a model from another toolkit.

    Raises:
        ZooError: The model has a property that zoo does not support, its files are damaged, or reading them would
            need far more memory than their size justifies.
    """
    files = _total_bytes(path)
    allowed = _SPARE_MEMORY + _MEMORY_PER_BYTE * files
    try:
        with memory_limit(allowed):
            return format.read(path, request)
    except ZooError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            problem = (
                f"reading `{path}` needs more than {size(allowed)} of memory, but the files are only {size(files)}"
            )
            hint = "do not use this model: it may be malicious, because reading it would exhaust the memory"
            raise ZooError(problem, hint=hint, exit_code=1) from None
        reason = next(iter(str(error).splitlines()), "")
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        problem = f"`{path}` is not a valid {format.name} model: {kind}{reason}"[:_MAX_MESSAGE]
        hint = "restore the files from their source; if the original toolkit can open the model, please report this"
        raise ZooError(problem, hint=hint, exit_code=1) from error


def _total_bytes(path: Path) -> int:
    """Return the total size of a model's files, in bytes. For a `decoder.yml`, count all files in its folder."""
    folder = path if path.is_dir() else path.parent if path.suffix == ".yml" else None
    return sum(file.stat().st_size for file in (folder.iterdir() if folder else [path]) if file.is_file())


def _local_path(source: str, report: Report) -> Path:
    if re.match(r"\w+://", source):
        problem = f"`{source}` is a URL, but models are imported from files and folders"
        hint = "download the model first, or write `hf:ORG/NAME` for a model on the Hugging Face Hub"
        raise ZooError(problem, hint=hint)
    return download_from_hub(source, report) if is_on_hub(source) else Path(source)


def _notes_for_user(spec: Spec) -> Iterator[str]:
    """Yield notes that are only for the user who imports the model, and not for the model card."""
    if spec.languages is None and (spec.corpus.source, spec.corpus.target) == UNKNOWN_LANGUAGES:
        yield "the languages of the model are unknown: set them with `--languages`, such as `--languages en de`"
    if spec.name in specs.names():
        yield (
            f"`{spec.name}` is also the name of a spec that zoo contains: `--model {spec.name}` now selects the "
            "imported model. To avoid that, choose another name with `--name`"
        )


def _default_name(origin_name: str) -> str:
    """Derive a name for the imported model: the last part of the original name, without invalid characters."""
    stem = re.sub(r"\.(npz|pt|bin|decoder\.yml|yml)$", "", origin_name.rpartition("/")[2])
    return re.sub(r"[^-_,.A-Za-z0-9]+", "-", stem).strip("-.")


def is_on_hub(source: str) -> bool:
    """Return whether a source on the command line is a model on the Hugging Face Hub, rather than a file or folder."""
    return source.startswith(_HUB_PREFIX)


def repository(source: str) -> str:
    """Return `ORG/NAME` from a source such as `hf:ORG/NAME` or `hf:ORG/NAME@REVISION`."""
    return source.removeprefix(_HUB_PREFIX).partition("@")[0]


def hub_page(source: str) -> str:
    """Return the URL of a model's page on the Hugging Face Hub, given its source `hf:ORG/NAME`."""
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/{repository(source)}"


def download_from_hub(source: str, report: Report, otherwise: str = "give a folder on this computer") -> Path:
    """Download the files that are needed to import a model from the Hugging Face Hub.

    Args:
        source: `hf:ORG/NAME` or `hf:ORG/NAME@REVISION`.
        report: Receives the progress.
        otherwise: Alternative to suggest to the user in error messages.

    Returns:
        The folder with the files, in the cache of `huggingface_hub`.

    Raises:
        ZooError: The name is invalid, ZOO_OFFLINE is set, `huggingface_hub` is not installed, or the download fails.
    """
    name, revision = repository(source), source.partition("@")[2]
    if not _HUB_NAME.fullmatch(source.removeprefix(_HUB_PREFIX)):
        hint = "write `hf:ORG/NAME`, or `hf:ORG/NAME@REVISION`"
        raise ZooError(f"`{source}` is not a valid Hugging Face model name", hint=hint)
    if is_offline():
        hint = f"unset ZOO_OFFLINE, or {otherwise}"
        raise ZooError(f"cannot download `{source}`: ZOO_OFFLINE is set", hint=hint)
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        hint = f"run `pip install -e '.[hf]'` in zoo's source folder, or {otherwise}"
        raise ZooError(f"cannot download `{source}`: `huggingface_hub` is not installed", hint=hint) from None
    try:
        files = hub.HfApi().model_info(name, revision=revision or None).siblings or []
        patterns = _needed([file.rfilename for file in files])
        report.info(f"downloading {len(patterns)} files of {name}")
        return Path(hub.snapshot_download(name, revision=revision or None, allow_patterns=patterns))
    except Exception as error:  # without a network, huggingface_hub's HTTP client raises its own errors
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        hint = f"check the name of the model and the network connection, or {otherwise}"
        raise ZooError(f"cannot download `{source}`: {reason}", hint=hint, exit_code=1) from None


def _needed(files: list[str]) -> list[str]:
    """Return the files to download: small files in the root of a repository, and its preferred weight files."""
    root = [file for file in files if "/" not in file]
    small = [file for file in root if file.rpartition(".")[2] in _SMALL_FILES]
    weights = ([file for file in root if Path(file).match(pattern)] for pattern in _WEIGHTS)
    return [*small, *next(filter(None, weights), [])]


def licence_of_card(folder: Path) -> str | None:
    """Return the licence that a folder's model card specifies, such as `apache-2.0`. Return None if it is missing.

    Model cards on the Hub begin with YAML front matter, which contains a line such as `license: apache-2.0`.
    """
    card = folder / _CARD
    if not folder.is_dir() or not is_present(card):
        return None
    with open_file(card) as file:
        first_line, _, rest = file.read(_MAX_CARD).replace(b"\r\n", b"\n").partition(b"\n")
    front_matter, end, _ = rest.partition(b"\n---")
    match = _LICENCE.search(front_matter) if first_line == b"---" and end else None
    return match[1].decode() if match else None
