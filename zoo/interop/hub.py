"""Download of models from the Hugging Face Hub (`hf:ORG/NAME[@REVISION]`), and the licence in a model card."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

from specs import ZooError
from zoo.files.reading import is_present, open_file
from zoo.files.transfer import is_offline
from zoo.report import Report

PREFIX = "hf:"
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w./-]+)?", re.ASCII)
_SMALL_FILES = ("json", "spm", "yml", "yaml", "txt", "model", "codes", "md")
_WEIGHTS = (
    *("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin", "pytorch_model-*-of-*.bin"),
    *("model.bin", "*.npz", "*.pt"),
)
"""Names of weight files, in order of preference. safetensors comes before formats that contain pickles."""
_CARD = "README.md"
_MAX_CARD = 65_536  # bytes
_LICENCE = re.compile(rb"^license:[ \t]*[\"']?([A-Za-z0-9][\w.+-]{0,99})[\"']?[ \t]*$", re.MULTILINE | re.ASCII)


def is_on_hub(source: str) -> bool:
    """Return whether a source on the command line is a model on the Hugging Face Hub, not a file or folder."""
    return source.startswith(PREFIX)


def repository(source: str) -> str:
    """Return the part ORG/NAME of a source `hf:ORG/NAME[@REVISION]`."""
    return source.removeprefix(PREFIX).partition("@")[0]


def page(source: str) -> str:
    """Return the address of a repository's page on the Hub."""
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/{repository(source)}"


def download(source: str, report: Report, otherwise: str = "give a folder on this computer") -> Path:
    """Download the files that an import needs into the cache of `huggingface_hub`.

    Args:
        source: `hf:ORG/NAME` or `hf:ORG/NAME@REVISION`.
        report: Receives the progress.
        otherwise: What to do if the download is not possible, for the hints of errors.

    Returns:
        The folder with the files.

    Raises:
        ZooError: The name is invalid, ZOO_OFFLINE is set, `huggingface_hub` is not installed, or the download fails.
    """
    name, revision = repository(source), source.partition("@")[2]
    if not _NAME.fullmatch(source.removeprefix(PREFIX)):
        hint = "write `hf:ORG/NAME`, or `hf:ORG/NAME@REVISION`"
        raise ZooError(f"`{source}` is not a valid name of a model on the Hub", hint=hint)
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
    except Exception as error:  # without a network, the HTTP client of huggingface_hub raises its own errors
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
    """Return the licence in the model card of a folder, such as `apache-2.0`, or None if there is none.

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
