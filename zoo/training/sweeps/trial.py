"""A trial: one row trained by one seed, which is one run and one command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specs import Spec, ZooError
from zoo.evaluation.outputs import SavedOutput, load_outputs
from zoo.models.folder import RUNS
from zoo.models.weights import read_facts
from zoo.training.average import steps_in
from zoo.training.checkpoint import averageable, checkpoints
from zoo.training.run import Run
from zoo.training.sweeps.rows import SEED, Row


@dataclass(frozen=True)
class Trial:
    row: Row
    seed: int
    run: Run

    @property
    def name(self) -> str:
        return self.run.folder.name

    @property
    def spec(self) -> Spec:
        """The row's, with its own seed."""
        spec = self.row.spec
        return spec.model_copy(update={"training": spec.training.model_copy(update={"seed": self.seed})})

    def command(self, device: str = "auto") -> list[str]:
        """What trains it, or goes on with it."""
        words = ["zoo", "train", self.row.reference, *self.row.overrides, f"{SEED}={self.seed}"]
        return [*words, "--run", str(self.run.folder), *(["--device", device] if device != "auto" else [])]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: trained to its end, averaged as its spec says, scored on the dev set."""
        found, training = checkpoints(self.run), self.spec.training
        if not (found and self.run.trained and self.run.known_scores.get("dev") and self.run.answers("dev").is_file()):
            return False
        try:
            averaged = read_facts(self.run.weights).get("steps")
        except ZooError:  # damaged: `zoo train` makes them anew
            return False
        wanted = steps_in(averageable(self.run)[-training.average :])
        return found[-1].progress.ended(training) and averaged == wanted

    @property
    def busy(self) -> str | None:
        """Which process trains it now, if one does."""
        if not self.run.folder.is_dir():
            return None
        try:
            with self.run.locked():
                return None
        except ZooError as error:
            return error.problem
        except OSError:  # a disk that is full, or not ours: whoever trains is told so
            return None

    @property
    def seconds(self) -> float:
        """Spent in steps."""
        return checkpoints(self.run)[-1].progress.seconds

    @property
    def answers(self) -> Sequence[SavedOutput]:
        """To the dev set."""
        return load_outputs(self.run.answers("dev"))


def trials_of(rows: Sequence[Row], seeds: int, folder: Path) -> tuple[Trial, ...]:
    """All rows by the first seed, then by the next.

    Raises ZooError where a run is there that was begun with another spec.
    """
    trials = tuple(
        Trial(row, seed, Run(folder / f"{row.name}.seed{seed}")) for seed in range(1, seeds + 1) for row in rows
    )
    for trial in trials:
        try:
            trial.run.check(trial.spec)
        except ZooError as error:
            raise ZooError(error.problem, hint=_ANOTHER) from None
    return trials


_ANOTHER = "give this sweep a folder of its own with `--folder DIR`, or set what that one was begun with"


def default_folder(rows: Sequence[Row]) -> Path:
    """Where the runs are, unless somebody says otherwise: called by the folder that all the specs are in."""
    folders = {row.spec.short.rpartition("/")[0] for row in rows}
    return RUNS / "-".join(["sweep", *(folders.pop().split("/") if len(folders) == 1 else [])]).rstrip("-")
