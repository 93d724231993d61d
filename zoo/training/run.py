"""A run: the folder of one training, and what may be done in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specs import Spec, ZooError, difference, parse
from zoo.files import read_json, write_json, writing

MAY_DIFFER = ("training.steps", "training.average", "training.log_steps")
"""What a resumed training may have otherwise than the run it resumes: none of it changes a step that is done."""


@dataclass(frozen=True)
class Run:
    """A folder with `spec.yaml`, `log.jsonl`, `checkpoints/` and, when trained, weights, vocabulary and scores."""

    folder: Path

    @staticmethod
    def default(spec: Spec) -> Run:
        return Run(Path("runs", spec.short))

    @property
    def exists(self) -> bool:
        return self.spec_file.is_file()

    @property
    def spec_file(self) -> Path:
        return self.folder / "spec.yaml"

    @property
    def spec(self) -> Spec:
        """Raises ZooError where the folder is not a run, or where the spec in it is damaged."""
        if not self.exists:
            hint = "a run is made by `zoo train SPEC`; `zoo list` shows those there are"
            raise ZooError(f"`{self.folder}` is not a run: it has no spec.yaml", hint=hint)
        try:
            text = self.spec_file.read_bytes().decode("utf-8")
        except OSError as error:
            raise ZooError(f"`{self.spec_file}` cannot be read: {error.strerror or error}", exit_code=1) from None
        except UnicodeDecodeError as error:
            problem = f"`{self.spec_file}` is damaged: byte {error.start + 1} is not UTF-8"
            raise ZooError(problem, exit_code=1) from None
        return parse(text, str(self.spec_file))

    @property
    def weights(self) -> Path:
        return self.folder / "weights.safetensors"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def data(self) -> Path:
        """What the run was trained on: the prepared corpus's fingerprint, and its longest source in pieces."""
        return self.folder / "data.json"

    @property
    def scores(self) -> Path:
        return self.folder / "scores.json"

    def start(self, spec: Spec, fingerprint: str, longest_source: int) -> None:
        """Makes the folder, or checks that what it holds may be resumed with this spec on this data.

        Raises ZooError, listing the keys, where the spec differs in more than `MAY_DIFFER`, or where the corpus or
        the vocabulary is not the one that the run was begun with.
        """
        if self.exists:
            self._check(spec, fingerprint)
        elif self.folder.exists() and any(self.folder.iterdir()):
            hint = "name another folder with `--run DIR`"
            raise ZooError(f"`{self.folder}` is not empty, and not a run", hint=hint)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.data, {"fingerprint": fingerprint, "longest_source": longest_source})
        with writing(self.spec_file) as file:
            file.write_text(spec.yaml(), encoding="utf-8")

    def _check(self, spec: Spec, fingerprint: str) -> None:
        changed = {key: pair for key, pair in difference(spec, self.spec).items() if key not in MAY_DIFFER}
        hint = (
            f"resume with the run's own values, start over with `--fresh` (the run's checkpoints are then lost), "
            f"or train beside it with `--run DIR`; only {', '.join(MAY_DIFFER)} and the device may differ"
        )
        if changed:
            lines = "".join(f"\n  {key}: {old} in the run, {new} now" for key, (old, new) in changed.items())
            raise ZooError(f"`{self.folder}` was begun with another spec:{lines}", hint=hint)
        if self.data.is_file() and read_json(self.data).get("fingerprint") != fingerprint:
            raise ZooError(f"the corpus has changed since `{self.folder}` was begun", hint=hint)
