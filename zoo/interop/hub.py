"""Models of the Hugging Face Hub: `hf:ORG/NAME`, and a revision after an `@`."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from specs import ZooError
from zoo.files.transfer import is_offline
from zoo.report import Report

PREFIX = "hf:"
_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w./-]+)?", re.ASCII)
_SMALL = ("json", "spm", "yml", "yaml", "txt", "model", "codes", "md")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.bin", "*.npz", "*.pt")
"""The first of these that a model has is fetched: safetensors before what has to be unpickled with care."""


def is_on_hub(source: str) -> bool:
    """Whether a source is a model of the Hub, and no file."""
    return source.startswith(PREFIX)


def model_of(source: str) -> str:
    """ORG/NAME of a source on the Hub."""
    return source.removeprefix(PREFIX).partition("@")[0]


def fetched(source: str, report: Report) -> Path:
    """The folder of the model, in the cache of `huggingface_hub`, with the files that an import reads.

    Raises ZooError for a name that is none, where the package is not installed, and where the Hub does not have the
    model or cannot be reached.
    """
    name, revision = model_of(source), source.partition("@")[2]
    if not _NAME.fullmatch(source.removeprefix(PREFIX)):
        raise ZooError(f"`{source}` is no model of the Hub", hint="write `hf:ORG/NAME`, or `hf:ORG/NAME@REVISION`")
    if is_offline():
        hint = "unset it, or name a folder of your own disk"
        raise ZooError(f"`{source}` is not fetched: ZOO_OFFLINE forbids it", hint=hint)
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        hint = "`pip install 'transformer-zoo[hf]'`"
        raise ZooError("`huggingface_hub` is not installed, which fetches models of the Hub", hint=hint) from None
    try:
        listed = hub.HfApi().model_info(name, revision=revision or None).siblings or []
        wanted = _wanted([each.rfilename for each in listed])
        report.say(f"fetching {len(wanted)} files of {name}")
        return Path(hub.snapshot_download(name, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # where there is no network, the errors of the client that it asks by
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        hint = "look for its name on the Hub, and at the network; a model of your own disk is named by its folder"
        raise ZooError(f"`{source}` cannot be fetched: {first}", hint=hint, exit_code=1) from None


def _wanted(files: list[str]) -> list[str]:
    """Of the files of a model: the small ones at its root, and one of weights."""
    root = [file for file in files if "/" not in file]
    small = [file for file in root if file.rpartition(".")[2] in _SMALL]
    for pattern in _WEIGHTS:
        if found := [file for file in root if Path(file).match(pattern)]:
            return [*small, *found]
    return small
