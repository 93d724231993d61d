"""Models on the Hugging Face Hub: their names, downloads of their files, and their licences."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Self

from specs import ZooError, install_hint
from zoo.files.reading import is_present, open_file
from zoo.files.transfer import is_offline
from zoo.report import Report

_PREFIX = "hf:"
_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?", re.ASCII)
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
class HubModel:
    """Model on the Hugging Face Hub.

    Attributes:
        name: Name of the repository, `ORG/NAME`.
        revision: Branch, tag or commit. None for the default branch.
    """

    name: str
    revision: str | None = None

    @classmethod
    def parse(cls, source: str) -> Self | None:
        """Parse a source such as `hf:ORG/NAME@REVISION`. Return None if the source does not begin with `hf:`.

        Raises:
            ZooError: The name after `hf:` is invalid.
        """
        if not source.startswith(_PREFIX):
            return None
        if (match := _NAME.fullmatch(source.removeprefix(_PREFIX))) is None:
            hint = "write `hf:ORG/NAME`, or `hf:ORG/NAME@REVISION`"
            raise ZooError(f"`{source}` is not a valid Hugging Face model name", hint=hint)
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{_PREFIX}{self.name}" + (f"@{self.revision}" if self.revision else "")

    @property
    def page(self) -> str:
        """URL of the model's page."""
        return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/{self.name}"

    def download(self, report: Report, otherwise: str = "use a folder on this computer") -> Path:
        """Download the files that are needed to import the model.

        Args:
            report: Receives the progress.
            otherwise: Alternative to suggest to the user in error messages.

        Returns:
            The folder with the files, in the cache of `huggingface_hub`.

        Raises:
            ZooError: ZOO_OFFLINE is set, `huggingface_hub` is not installed, or the download fails.
        """
        if is_offline():
            hint = f"unset ZOO_OFFLINE, or {otherwise}"
            raise ZooError(f"cannot download `{self}`: ZOO_OFFLINE is set", hint=hint)
        try:
            hub = import_module("huggingface_hub")
        except ImportError:
            hint = f"{install_hint('hf')}, or {otherwise}"
            raise ZooError(f"cannot download `{self}`: `huggingface_hub` is not installed", hint=hint) from None
        try:
            files = hub.HfApi().model_info(self.name, revision=self.revision).siblings or []
            patterns = _needed([file.rfilename for file in files])
            report.info(f"downloading {len(patterns)} files of {self.name}")
            return Path(hub.snapshot_download(self.name, revision=self.revision, allow_patterns=patterns))
        except Exception as error:  # without a network, huggingface_hub's HTTP client raises its own errors
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            hint = f"check the name of the model and the network connection, or {otherwise}"
            raise ZooError(f"cannot download `{self}`: {reason}", hint=hint, exit_code=1) from None


def _needed(files: list[str]) -> list[str]:
    """Return the files to download: settings, tokenizers and other small files in the root, and one set of weights."""
    root = [file for file in files if "/" not in file]
    small = [file for file in root if file.rpartition(".")[2] in _SMALL_FILES]
    weights = ([file for file in root if Path(file).match(pattern)] for pattern in _WEIGHTS)
    return [*small, *next(filter(None, weights), [])]


def licence_of_card(folder: Path) -> str | None:
    """Return the licence in a folder's model card, such as `apache-2.0`. Return None if no licence is found.

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
