"""A run: the folder of one training, and what may be done in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compiler.switches import matrix_libraries
from specs import Spec, ZooError, difference
from specs.notation import on_one_line
from zoo.files.atomic import atomic_file, partial_target, remove_folder, write_json
from zoo.files.reading import read_json
from zoo.files.storage import require_utf8
from zoo.models.folder import RUN_IDENTITY, SCORES, SPEC, WEIGHTS, ModelFolder
from zoo.report import Report
from zoo.version import __version__

try:
    import fcntl
except ImportError:  # a system without it
    fcntl = None  # type: ignore[assignment]

MAY_DIFFER = (
    *("description", "licence", "corpus.folder"),
    *("training.steps", "training.max_tokens", "training.max_minutes", "training.patience"),
    *("training.average", "training.log_steps", "training.accumulation_steps"),
)
"""What a resumed training may have otherwise than the run it resumes: none of it changes a step that is done, and of
those to come `accumulation` alone does: rounding, and where dropout falls. The corpus is known by its content."""


@dataclass(frozen=True)
class Basis:
    """What the weights of a run follow from beside its spec."""

    fingerprint: str
    """Of the prepared corpus."""
    longest_source: int
    """In tokens."""
    backend: str
    threads: int
    """Of torch: the order of its sums depends on them."""
    processes: int
    """That share each batch: the order of sums depends on them, and where dropout falls."""
    sharded: bool = False
    """Whether each of them holds but a part of the weights: the order of sums depends on it."""
    software: str = ""
    """Versions of what computes the steps."""
    matrix_library: str = ""
    """Of float32 products on a CPU, as it was chosen by measuring; where nobody did, the usual one."""
    named: bool = True
    """Whether the name in its spec is its own, and not that of the spec it extends."""
    machine: str = ""
    """What it was trained on, as `zoo.system.called` has it: one after another; empty where nobody wrote it down."""


class Run(ModelFolder):
    """A folder with `spec.yaml`, `log.jsonl`, `checkpoints/` and, when trained, weights, vocabulary and scores."""

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def events(self) -> Path:
        """What TensorBoard reads."""
        return self.folder / "events"

    @property
    def data(self) -> Path:
        """File of the run's `Basis`."""
        return self.folder / RUN_IDENTITY

    @property
    def lock(self) -> Path:
        """What the process that trains it holds."""
        return self.folder / _LOCK

    @property
    def basis(self) -> Basis:
        """Of a run that was started. Raises ZooError where it has none that this version knows."""
        return self._basis(read_json(self.data))

    def _basis(self, known: dict[str, Any]) -> Basis:
        try:
            return Basis(**known)
        except TypeError:
            hint = "resume it with the version that began it"
            raise ZooError(f"`{self.data}` is of another version of zoo", hint=hint, exit_code=1) from None

    def check(self, spec: Spec) -> None:
        """Raises ZooError where the folder is somebody else's, or a run whose spec differs in more than MAY_DIFFER."""
        require_utf8(self.folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ZooError(f"`{self.folder}` is a file, and a run is a folder", hint="name a folder with `--run DIR`")
        if not self.exists:
            if strangers := self.strangers():
                hint = "name another folder with `--run DIR`"
                raise ZooError(f"`{self.folder}` is not a run: it holds {', '.join(strangers)}", hint=hint)
            return
        changed = {key: pair for key, pair in difference(spec, self.spec).items() if key not in MAY_DIFFER}
        if changed:
            lines = "".join(
                f"\n  {key}: {on_one_line(old)} in the run, {on_one_line(new)} now"
                for key, (old, new) in changed.items()
            )
            hint = f"`zoo train {self.spec_file}` goes on with the run's own values; {_RESUME}"
            raise ZooError(f"`{self.folder}` was begun with another spec:{lines}", hint=hint)

    def start(self, spec: Spec, basis: Basis, report: Report) -> Basis:
        """Makes the folder, or goes on in it; what the run goes by from here on.

        That is what it was begun with, but for the number of processes, and, without dropout, for the backend: with
        others the same steps are done, which come out otherwise, and `report` hears of it. Raises ZooError where it was
        begun with another corpus or vocabulary, or where another backend would have dropout fall otherwise.
        """
        known = {**_BEFORE, **read_json(self.data)} if self.exists and self.data.is_file() else {}
        begun = self._basis({**asdict(basis), **known})
        if begun.fingerprint != basis.fingerprint:
            raise ZooError(
                f"the corpus has changed since `{self.folder}` was begun, or how this version prepares it", hint=_CORPUS
            )
        of = spec.architecture
        random = any((of.dropout, of.attention_dropout, of.activation_dropout))
        if begun.backend != basis.backend and random:
            raise ZooError(
                f"`{self.folder}` was begun with the backend `{begun.backend}`, and this machine takes "
                f"`{basis.backend}`, in which dropout falls otherwise",
                hint=f"`zoo doctor` says why; `--fresh` starts over with `{basis.backend}`",
            )
        if begun.backend != basis.backend:
            report.say(
                f"with the backend {basis.backend}, and not {begun.backend}: sums are rounded otherwise from here"
            )
        if begun.software != basis.software:
            report.say(f"with {basis.software}, and not {begun.software}: steps may come out otherwise from here on")
        if begun.processes != basis.processes:
            otherwise = "dropout falls otherwise" if random else "sums are rounded otherwise"
            report.say(
                f"the number of processes is {basis.processes}, and was {begun.processes}: {otherwise} from here on"
            )
            begun = replace(basis, named=begun.named, machine=begun.machine)
        if basis.sharded and not begun.sharded:
            report.say("with weights and moments spread over the processes: sums are rounded otherwise from here on")
            begun = replace(begun, sharded=True)
        if begun.matrix_library not in ("", *matrix_libraries()):
            report.say(f"{begun.matrix_library} cannot compute the products here: sums are rounded otherwise from here")
            begun = replace(begun, matrix_library=basis.matrix_library)
        with atomic_file(self.spec_file) as file:
            file.write_text(spec.yaml(__version__), encoding="utf-8")
        begun = replace(begun, backend=basis.backend, software=basis.software)
        if begun.machine and basis.machine not in begun.machine.split("; "):
            begun = replace(begun, machine=f"{begun.machine}; {basis.machine}")
        write_json(self.data, asdict(begun))
        return begun

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While it lasts, no other process trains in this folder. Raises ZooError, naming the other, where one does."""
        if fcntl is None:
            yield
            return
        made = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.lock.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                other = file.read().strip() or "another process"
                hint = "wait for it, end it, or train beside it with `--run DIR`"
                raise ZooError(f"`{self.folder}` {TAKEN} {other}", hint=hint) from None
            except OSError:  # a file system without locks
                pass
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)
                with suppress(OSError):  # others may have folders there by now, or have removed ours
                    if [path.name for path in self.folder.iterdir()] == [_LOCK]:  # it came to nothing
                        self.lock.unlink()
                        for each in made:
                            each.rmdir()

    def clear(self) -> None:
        """Removes the folder, if it holds nothing but what is the run's own. Raises ZooError otherwise."""
        self.check_own()
        # In this order: while there are checkpoints, they are those of the spec that stands beside them.
        if self.checkpoints.exists():
            remove_folder(self.checkpoints)
        for path in sorted(self.folder.glob("*"), key=lambda path: path == self.spec_file):
            if path.is_dir():
                remove_folder(path)
            elif path.name != _LOCK:
                path.unlink()

    def check_own(self) -> None:
        """Raises ZooError where the folder holds what no training put there."""
        if strangers := self.strangers():
            problem = f"`{self.folder}` holds what is not the run's own: {', '.join(strangers)}"
            raise ZooError(problem, hint="move it away, then say `--fresh` again")

    def strangers(self) -> list[str]:
        """What the folder holds that no training put there; what a killed one left half-written counts as its own."""
        if not self.folder.is_dir():
            return []
        names = {path.name for path in self.folder.iterdir()}
        return sorted(name for name in names - _OWN if partial_target(name) not in _OWN)


_BEFORE = {"processes": 1, "sharded": False, "matrix_library": "", "machine": ""}
"""What the basis of a run says that was begun by a version without the word."""
_LOCK = ".lock"
TAKEN = "is being trained by"
"""What is said of a run whose folder another process has."""
_OWN = {
    _LOCK,
    *(SPEC, RUN_IDENTITY, "log.jsonl", "events", SCORES, "checkpoints", WEIGHTS),
    *("answers.dev.jsonl", "answers.test.jsonl", "ensembles.json"),
    *("vocabulary.model", "vocabulary.source.model", "vocabulary.target.model", "vocabulary.target.json"),
}
_CORPUS = (
    "give it its text back, start over with `--fresh` (the run's checkpoints are then lost), or train beside it with "
    "`--run DIR`"
)
_RESUME = (
    "`--fresh` starts over (the run's checkpoints are then lost), and `--run DIR` trains beside it; only "
    f"{', '.join(MAY_DIFFER)} and the device may differ"
)
