"""Folders of runs and published models, and comparison of specs. This module does not load torch.

The folder of a published model is called a bundle.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from specs import Spec, ZooError, difference, parse
from specs.notation import quote_in_full
from zoo.files import manifest
from zoo.files.reading import damaged, file_exists, read_bytes, read_json

RUNS = Path("runs")
"""The folder that contains all runs, relative to the current folder."""
SPEC, WEIGHTS, SCORES = "spec.yaml", "weights.safetensors", "scores.json"
CARD = "README.md"
"""Name of the model card. Only bundles have it."""
FACTS = "facts.json"
"""Name of the file with the provenance. Only bundles have it."""
RUN_IDENTITY = "data.json"
"""Name of the file with properties of a run that must not change when the run is resumed. Only runs have it."""
MAX_SPEC_BYTES = 1_000_000


@dataclass(frozen=True)
class ModelFolder:
    """Folder of a training run or bundle. It contains `spec.yaml` and, after training, weights, vocabulary and scores.

    A bundle is a published model. It also contains a manifest, which lists its files.
    """

    folder: Path

    @classmethod
    def default(cls, spec: Spec) -> Self:
        """Return the default run folder for a spec."""
        return cls(RUNS / spec.short_name)

    @property
    def exists(self) -> bool:
        """Whether the folder contains a spec."""
        return file_exists(self.spec_file)

    @property
    def published(self) -> bool:
        """Whether the folder is a bundle, that is, a published model."""
        return file_exists(self.folder / manifest.NAME)

    @property
    def digest(self) -> str | None:
        """Identifier of a published model: the SHA-256 of its manifest. None if the folder is not a bundle."""
        return hashlib.sha256(read_bytes(self.folder / manifest.NAME)).hexdigest() if self.published else None

    @property
    def trained(self) -> bool:
        """Whether the folder contains weights."""
        return file_exists(self.weights)

    @property
    def spec_file(self) -> Path:
        """Path of the model's spec file."""
        return self.folder / SPEC

    @property
    def weights(self) -> Path:
        """Path of the weights file."""
        return self.folder / WEIGHTS

    @property
    def newest_weights(self) -> Path:
        """Path of the weights file. If a run has only checkpoints, path of the weights in its newest checkpoint."""
        checkpoints = [] if self.trained else self.checkpoints.glob("[0-9]*/" + WEIGHTS)
        return max(checkpoints, key=lambda file: int(file.parent.name), default=self.weights)

    @property
    def scores(self) -> Path:
        """Path of `scores.json`, which contains the model's scores."""
        return self.folder / SCORES

    @property
    def imported(self) -> Mapping[str, Any]:
        """Facts about the origin of an imported model, such as its `source`. Empty for other models."""
        try:
            facts = read_json(manifest.path_inside(self.folder, FACTS)).get("imported")
        except (ZooError, OSError):  # the model works without the file
            return {}
        return facts if isinstance(facts, dict) else {}

    @property
    def checkpoints(self) -> Path:
        """Checkpoint folder. It exists only for training runs."""
        return self.folder / "checkpoints"

    def answers(self, split: str) -> Path:
        """Return the path of the file with the model's outputs for the dev or test set. Only runs have this file."""
        return self.folder / f"answers.{split}.jsonl"

    @property
    def spec(self) -> Spec:
        """The model's spec.

        Raises:
            ZooError: The folder has no spec, or the spec is damaged.
        """
        self.require_spec()
        return self.parse_spec(read_bytes(self.spec_file, MAX_SPEC_BYTES))

    def require_spec(self) -> None:
        """Raise ZooError if the folder has no spec."""
        if not self.exists:
            hint = "create a run with `zoo train SPEC`, or list the existing runs with `zoo list`"
            raise ZooError(f"`{self.folder}` is not a run: it has no {SPEC}", hint=hint)

    def parse_spec(self, content: bytes) -> Spec:
        """Parse the content of this folder's `spec.yaml`.

        Raises:
            ZooError: The content is not a valid spec.
        """
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged(self.spec_file, f"byte {error.start + 1} is not UTF-8") from None
        return parse(text, str(self.spec_file))

    @property
    def known_scores(self) -> dict[str, Any]:
        """The content of `scores.json`: scores by split, `dev` or `test`. Empty if the model was never evaluated."""
        if not file_exists(self.scores):
            return {}
        return read_json(manifest.path_inside(self.folder, SCORES) if self.published else self.scores)


Differences = Mapping[str, tuple[Any, Any]]
"""Fields in which two specs differ: dotted name -> the two values. See `differing_fields` for their order."""
MODEL_SECTIONS = ("name", "architecture", "vocabulary", "corpus")
"""Sections of a spec that identify the model, as opposed to sections about training and decoding."""


def differing_fields(spec: Spec, other: Spec) -> Differences:
    """Return the fields in which two specs differ, as a mapping from dotted name to (`other` value, `spec` value).

    Only the fields in `MODEL_SECTIONS` are compared. The `corpus.folder` field counts only if both folders exist and
    are different, because a corpus may have been moved.
    """
    skipped = set() if _have_different_folders(spec, other) else {"corpus.folder"}
    return {
        field: values
        for field, values in difference(spec, other).items()
        if field.partition(".")[0] in MODEL_SECTIONS and field not in skipped
    }


def _have_different_folders(spec: Spec, other: Spec) -> bool:
    one, two = (Path(os.path.expanduser(each.corpus.folder)) for each in (spec, other))
    with suppress(OSError, ValueError):
        return one.is_dir() and two.is_dir() and not one.samefile(two)
    return False


def format_differences(differences: Differences, other: str, this: str) -> str:
    """Format differences for a message: one line per field, with both values.

    Args:
        differences: The fields that differ.
        other: Where the first value in each pair comes from, such as "in the folder".
        this: Where the second value comes from.
    """
    return "".join(
        f"\n  {field}: {quote_in_full(old)} {other}, {quote_in_full(new)} {this}"
        for field, (old, new) in differences.items()
    )
