"""What is written in a foreign format, and what a format has to know to write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from specs import Spec
from zoo.publishing.proof import ReferenceLogProbabilities
from zoo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Bundle:
    """A published model, as it is handed to a format: `proof` is what it must compute there, too."""

    spec: Spec
    vocabulary: Vocabulary
    tensors: Mapping[str, Tensor]
    proof: ReferenceLogProbabilities


@dataclass(frozen=True)
class Checked:
    """What a folder was held to when it was written."""

    by: str
    """Who computed: an engine and its version."""
    difference: float
    """Largest one of a token's log-probability, or, of `onnx`, of a number relative to the largest."""
    held_to: str = "the model's proof"


class Target(Protocol):
    """A format that bundles are written in."""

    @property
    def name(self) -> str:
        """What `--to` calls it."""

    @property
    def description(self) -> str:
        """What is written, in a few words."""

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Fills an empty folder; what the user should know. Raises ZooError, by name, for what it cannot say."""
        ...

    def check(self, bundle: Bundle, folder: Path) -> Checked | None:
        """Holds what was written to the bundle, or None where nobody is installed who could compute with it.

        Raises ZooError where it is another model.
        """
        ...
