"""The folder of a model: what a run's and a bundle's have in common (no torch is loaded)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from specs import Spec, ZooError, parse
from zoo.files import manifest
from zoo.files.content import content, stands
from zoo.files.files import read_json

RUNS = Path("runs")
SPEC, WEIGHTS, SCORES = "spec.yaml", "weights.safetensors", "scores.json"
CARD = "README.md"
"""What only a bundle has, for people."""
LONGEST_SPEC = 1_000_000
"""Bytes."""
BASIS = "data.json"
"""What only a run has: what it follows from beside its spec."""


@dataclass(frozen=True)
class ModelFolder:
    """With `spec.yaml` and, when trained, weights, vocabulary and scores. A published one has a manifest, too."""

    folder: Path

    @classmethod
    def default(cls, spec: Spec) -> Self:
        """Where the run of a spec is, unless somebody says otherwise."""
        return cls(RUNS / spec.short_name)

    @property
    def exists(self) -> bool:
        return stands(self.spec_file)

    @property
    def published(self) -> bool:
        """Whether it is a bundle's."""
        return stands(self.folder / manifest.NAME)

    @property
    def spec_file(self) -> Path:
        return self.folder / SPEC

    @property
    def spec(self) -> Spec:
        """Raises ZooError where the folder is not a run, or where the spec in it is damaged."""
        if not self.exists:
            hint = "a run is made by `zoo train SPEC`; `zoo list` shows those there are"
            raise ZooError(f"`{self.folder}` is not a run: it has no spec.yaml", hint=hint)
        return self.parsed(content(self.spec_file, LONGEST_SPEC))

    def parsed(self, written: bytes) -> Spec:
        """The spec of what its file holds. Raises ZooError where it is damaged."""
        try:
            text = written.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"`{self.spec_file}` is damaged: byte {error.start + 1} is not UTF-8"
            raise ZooError(problem, exit_code=1) from None
        return parse(text, str(self.spec_file))

    @property
    def trained(self) -> bool:
        """Whether it has weights."""
        return stands(self.weights)

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    @property
    def scores(self) -> Path:
        return self.folder / SCORES

    def answers(self, split: str) -> Path:
        """What it said to each sentence of dev or test; of a run alone, and gone with its scores."""
        return self.folder / f"answers.{split}.jsonl"

    @property
    def known_scores(self) -> dict[str, Any]:
        """What `scores` holds; nothing where nobody has scored the model."""
        return read_json(self.scores) if stands(self.scores) else {}

    @property
    def checkpoints(self) -> Path:
        """Of a run alone."""
        return self.folder / "checkpoints"
