"""A world made once: two published models of one spec, of random weights, and a run with what it was trained on."""

from __future__ import annotations

import os
import shutil
from contextlib import chdir
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import specs
import zoo
from compiler import build
from hostile import foreign
from specs import Spec
from zoo.files import manifest
from zoo.generation.translator import Translation, Translator
from zoo.models.weights import Weights
from zoo.publishing import publish, upload
from zoo.text.vocabulary import Vocabulary
from zoo.training.run import Run

PAIRS = (
    ("the old dog sees a small house", "der alte Hund sieht ein kleines Haus"),
    ("we read two books today", "heute lesen wir zwei Bücher"),
    ("she does not know the man", "sie kennt den Mann nicht"),
    ("do you see the cat?", "siehst du die Katze?"),
)
LINES = [*(source for source, _ in PAIRS), "", "two old cats"]
GOOD, OTHER = "good", "other"
_FILES = [{"source": "pairs.en", "target": "pairs.de"}]
FIELDS: dict[str, dict[str, Any]] = {
    "architecture": {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4},
    "vocabulary": {"size": 101},
    "corpus": {"train": _FILES, "dev": _FILES, "test": _FILES},
    "training": {"steps": 1, "checkpoint_steps": 1, "average": 1},
    "decoding": {"extra_length": 3},
    "compilation": {"backend": "eager"},
}


@dataclass(frozen=True)
class World:
    """In a folder that nothing may change once it is made."""

    folder: Path

    @property
    def shelf(self) -> Path:
        """With GOOD and OTHER."""
        return self.folder / "home" / "models"

    @property
    def run(self) -> Path:
        """Of the spec, as after training."""
        return self.folder / "runs" / GOOD

    @property
    def foreign(self) -> Path:
        """With a model in each format that is imported, in folders that are called like it."""
        return self.folder / "foreign"

    @property
    def registry(self) -> Path:
        """With OTHER, and GOOD in two revisions, of which the second is the one of the shelf."""
        return self.folder / "registry"

    @cached_property
    def spec(self) -> Spec:
        """Of both models."""
        return specs.load("tiny", {**FIELDS, "name": GOOD})

    @cached_property
    def translator(self) -> Translator:
        """Of GOOD."""
        return zoo.load(str(self.run), device="cpu")

    @cached_property
    def found(self) -> list[list[Translation]]:
        """What GOOD has for LINES."""
        return self.translator.hypotheses(LINES, n_best=2)

    def write_corpus(self, folder: Path) -> None:
        """The files that the spec's corpus names."""
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in PAIRS)
            (folder / f"pairs.{language}").write_text(text, encoding="utf-8")

    def make(self) -> None:
        """Everything, in the folder, which is empty."""
        os.environ["ZOO_HOME"] = str(self.folder / "home")
        with chdir(self.folder):
            self.write_corpus(self.folder)
            for name, seed in ((OTHER, 2), (GOOD, 1)):
                self._publish(name, seed)
            foreign.write(self.foreign, self.run / "vocabulary.model")
            self._upload()

    def _upload(self) -> None:
        """Copies, since the shelf's own would be told where they are; of GOOD first one with another card."""
        for name, of in (("before", GOOD), (GOOD, GOOD), (OTHER, OTHER)):
            folder = self.folder / "uploaded" / name
            shutil.copytree(self.shelf / of, folder)
            if name == "before":
                (folder / "README.md").write_text("as it was\n")
                manifest.write(folder)
            upload.upload(folder, str(self.registry))

    def _publish(self, name: str, seed: int) -> None:
        run = Run(self.folder / "runs" / name)
        run.folder.mkdir(parents=True)
        spec = self.spec.model_copy(update={"name": name})
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        lines = [(source[:: 3 - 2 * seed], target) for source, target in PAIRS * 3]  # backwards are other tokens
        Vocabulary.learn(lambda: lines, self.spec.vocabulary).save(run.folder)
        training = self.spec.training.model_copy(update={"seed": seed})
        weights = build(self.spec.model_copy(update={"training": training})).weights()
        Weights(weights, {"steps": "3,6,9", "longest_source": "31"}).write(run.weights)
        publish.publish(run.folder, name=name)
