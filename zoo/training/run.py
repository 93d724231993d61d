"""A run: the folder of one training, and what may be done in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specs import Spec, ZooError, difference, parse
from zoo.files import read_json, remove_folder, write_json, writing

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

    def check(self, spec: Spec) -> None:
        """Raises ZooError where the folder is somebody else's, or a run whose spec differs in more than MAY_DIFFER."""
        if not self.exists:
            if strangers := self.strangers():
                hint = "name another folder with `--run DIR`"
                raise ZooError(f"`{self.folder}` is not a run: it holds {', '.join(strangers)}", hint=hint)
            return
        changed = {key: pair for key, pair in difference(spec, self.spec).items() if key not in MAY_DIFFER}
        if changed:
            lines = "".join(f"\n  {key}: {old} in the run, {new} now" for key, (old, new) in changed.items())
            raise ZooError(f"`{self.folder}` was begun with another spec:{lines}", hint=_RESUME)

    def start(self, spec: Spec, fingerprint: str, longest_source: int) -> None:
        """Makes the folder, or goes on in it. Raises ZooError where it was begun with another corpus or vocabulary."""
        if self.exists and self.data.is_file() and read_json(self.data).get("fingerprint") != fingerprint:
            raise ZooError(f"the corpus has changed since `{self.folder}` was begun", hint=_RESUME)
        with writing(self.spec_file) as file:
            file.write_text(spec.yaml(), encoding="utf-8")
        write_json(self.data, {"fingerprint": fingerprint, "longest_source": longest_source})

    def clear(self) -> None:
        """Removes the folder, if it holds nothing but what is the run's own. Raises ZooError otherwise."""
        if strangers := self.strangers():
            problem = f"`{self.folder}` holds what is not the run's own: {', '.join(strangers)}"
            raise ZooError(problem, hint="move it away, then say `--fresh` again")
        remove_folder(self.folder)

    def strangers(self) -> list[str]:
        """What the folder holds that no training put there; what a killed one left half-written counts as its own."""
        if not self.folder.is_dir():
            return []
        names = {path.name for path in self.folder.iterdir()}
        return sorted(name for name in names - _OWN if not name.startswith(tuple(f".{own}" for own in _OWN)))


_OWN = {
    *("spec.yaml", "data.json", "log.jsonl", "scores.json", "checkpoints", "weights.safetensors"),
    *("vocabulary.model", "vocabulary.source.model", "vocabulary.target.model"),
}
_RESUME = (
    f"resume with the run's own values, start over with `--fresh` (the run's checkpoints are then lost), "
    f"or train beside it with `--run DIR`; only {', '.join(MAY_DIFFER)} and the device may differ"
)
