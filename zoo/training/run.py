"""The folder of a training run: what it contains, what a resumed run must match, and its lock."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from compiler.host import matrix_libraries
from specs import Spec, ZooError, difference
from zoo.files.atomic import atomic_file, convert_disk_errors, partial_target, remove_folder, write_json
from zoo.files.locks import take_lock
from zoo.files.reading import read_json
from zoo.files.storage import require_valid_path
from zoo.models import shortlist
from zoo.models.folder import RUN_IDENTITY, SCORES, SPEC, WEIGHTS, ModelFolder, format_differences
from zoo.report import Report
from zoo.version import __version__

Record = TypeVar("Record")
CHANGEABLE_FIELDS = (
    *("description", "licence", "corpus.folder", "training.steps", "training.max_tokens", "training.patience"),
    *("training.average", "training.log_steps", "training.accumulation_steps"),
)
"""Fields of the spec that may change when a run is resumed. None of them affects steps that are already done. In later
steps, `accumulation_steps` changes rounding and dropout masks. The corpus is identified by its content, not by its
folder. With `cooldown_steps`, the learning rate depends on `steps`, which then must not change."""


@dataclass(frozen=True)
class RunIdentity:
    """Properties that, together with the spec, determine the weights of a run.

    The properties are stored in `data.json`. A resumed run must have the same properties, except the properties that
    `Run.start` may change.
    """

    fingerprint: str
    """Hash of the prepared corpus."""
    longest_source: int
    """Length of the longest source sentence, in tokens."""
    backend: str
    threads: int
    """Number of PyTorch threads, which determines the order of sums."""
    processes: int
    """Number of processes that share each batch, which determines the order of sums and the dropout masks."""
    sharded: bool = False
    """Whether weights and moments are sharded across the processes, which changes the order of sums."""
    packed: bool = False
    """Whether batches are filled without counting padding, because the run was started on a GPU that trains on packed
    rows. The run keeps these batches on every device."""
    software: str = ""
    """Versions of zoo and torch."""
    matrix_library: str = ""
    """Library for float32 matrix products on a CPU. Empty: the default library."""
    named: bool = True
    """Whether the spec has its own name, and not the name of the spec that it extends."""
    machine: str = ""
    """Names of all devices that the run was trained on, separated by "; "."""
    synthetic: list[Mapping[str, Any]] = field(default_factory=list)
    """Records of the corpus parts that models generated: the part, its folder, the models and their digests."""


def read_record(kind: Callable[..., Record], file: Path) -> Record:
    """Read a dataclass (`kind`) from a JSON file. Raise ZooError if another version of zoo wrote the file."""
    try:
        return kind(**read_json(file))
    except TypeError:
        hint = "use the version of zoo that wrote the file"
        raise ZooError(f"`{file}` was written by another version of zoo", hint=hint, exit_code=1) from None


class Run(ModelFolder):
    """Folder with `spec.yaml`, `log.jsonl`, `checkpoints/` and, after training, weights, vocabulary and scores."""

    @property
    def log(self) -> Path:
        """Path of the log, which has a line of metrics every `training.log_steps` steps."""
        return self.folder / "log.jsonl"

    @property
    def events(self) -> Path:
        """Folder of the TensorBoard event files."""
        return self.folder / "events"

    @property
    def data(self) -> Path:
        """Path of the file that stores the run's `RunIdentity`."""
        return self.folder / RUN_IDENTITY

    @property
    def lock(self) -> Path:
        """Path of the lock file, which a process locks while it trains in the run folder."""
        return self.folder / _LOCK

    @property
    def is_training(self) -> bool:
        """Whether a process is training in the run folder.

        If so, the lock file is locked and contains the process's ID.
        """
        owner = b""
        try:
            with self.lock.open("rb") as file:
                owner = file.read().strip()
                if owner:  # otherwise, a process that starts to train would fail to get the lock
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file unlocks it
        except OSError:  # no such file, locked, or a file system without locks
            return bool(owner)
        return False

    @property
    def identity(self) -> RunIdentity:
        """The `RunIdentity` that the run was started with. Raises ZooError if another version of zoo wrote it."""
        return read_record(RunIdentity, self.data)

    def check(self, spec: Spec) -> None:
        """Check that training with a spec can start or resume in the run folder.

        If the folder already contains a run, `spec` may differ from the run's spec only in CHANGEABLE_FIELDS.

        Raises:
            ZooError: The path is not valid, or the folder contains a run with a different spec, or files that no
                training run wrote.
        """
        require_valid_path(self.folder)
        for folder in (self.folder, *self.folder.parents):
            if folder.exists() and not folder.is_dir():
                raise ZooError(f"`{folder}` is a file, not a folder", hint="choose another folder with `--run DIR`")
        if not self.exists:
            self.require_own_files()
            if any(self.checkpoints.glob("*")):
                hint = "restore this file, or remove the checkpoints and start over with `--fresh`"
                raise ZooError(f"`{self.folder}` has checkpoints, but no `{self.spec_file.name}`", hint=hint)
            return
        changed = difference(spec, self.spec)
        for name in CHANGEABLE_FIELDS:
            if name != "training.steps" or self.spec.training.cooldown_steps is None:
                changed.pop(name, None)
        if changed:
            fields = format_differences(changed, "in the run", "now")
            problem = f"`{self.folder}` was started with a different spec:{fields}"
            hint = f"resume with the run's own values (`zoo train {quote(str(self.spec_file))}`), {_OTHER_SPEC_HINT}"
            raise ZooError(problem, hint=hint)

    def start(self, spec: Spec, identity: RunIdentity, report: Report) -> RunIdentity:
        """Create the run folder, or resume the run in an existing folder.

        The number of processes, the software and the machine may have changed since the start. These differences
        change the results of later steps and are reported.

        Args:
            spec: The spec to train with.
            identity: The identity that a new run on this machine would have.
            report: Receives a message about each difference.

        Returns:
            The identity to continue with.

        Raises:
            ZooError: The run was started with a different corpus, vocabulary or backend.
        """
        current = self.identity if self.exists and self.data.is_file() else identity
        if current.fingerprint != identity.fingerprint:
            problem = f"the corpus has changed since `{self.folder}` was started, or zoo now prepares it differently"
            raise ZooError(problem, hint=_OTHER_CORPUS_HINT)
        if current.backend != identity.backend:
            raise ZooError(
                f"the run in `{self.folder}` was started with the `{current.backend}` backend, but now uses "
                f"`{identity.backend}`, which rounds differently and generates different dropout masks",
                hint=f"use `--fresh` to remove the run and start over with `{identity.backend}`",
            )
        if current.software != identity.software:
            report.info(f"now using {identity.software} instead of {current.software}: later steps may differ")
            current = replace(current, software=identity.software)
        if current.processes != identity.processes:
            count = f"the number of processes was {current.processes} and is now {identity.processes}"
            report.info(f"{count}: later steps differ")
            current = replace(identity, named=current.named, machine=current.machine, packed=current.packed)
        if identity.sharded and not current.sharded:
            report.info("weights and moments are now sharded across the processes: later steps differ")
            current = replace(current, sharded=True)
        if current.matrix_library not in ("", *matrix_libraries()):
            report.info(f"{current.matrix_library} is not available on this machine: later steps differ")
            current = replace(current, matrix_library=identity.matrix_library)
        if identity.machine not in current.machine.split("; "):
            current = replace(current, machine=f"{current.machine}; {identity.machine}")
        with atomic_file(self.spec_file) as file:
            file.write_text(spec.yaml(__version__), encoding="utf-8")
        write_json(self.data, asdict(current))
        return current

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run folder, so that no other process trains in it. Create the folder if it does not exist.

        Raises:
            ZooError: Another process has locked the folder, or the folder cannot be created. If it is locked, the
                message contains the process ID.
        """
        created = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        with convert_disk_errors(self.folder, self.lock):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.lock.open("a+", encoding="utf-8")
        with file:
            if not take_lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB):
                file.seek(0)
                owner = file.read().strip() or "another process"
                hint = "wait until that process exits, stop it, or train in another folder with `--run DIR`"
                raise ZooError(f"the run in `{self.folder}` is already being trained by {owner}", hint=hint)
            try:
                with convert_disk_errors(self.folder):
                    file.truncate(0)
                    os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                yield
            finally:
                file.truncate(0)
                with suppress(OSError):  # other programs may have added or removed files in the meantime
                    if [path.name for path in self.folder.iterdir()] == [_LOCK]:  # nothing was written
                        self.lock.unlink()
                        for folder in created:
                            folder.rmdir()

    def clear(self) -> None:
        """Remove everything in the run folder. Raise ZooError if it contains files that no training run wrote."""
        self.require_own_files()
        # Remove the checkpoints first and the spec last: as long as there are checkpoints, the folder contains their
        # spec.
        order = {self.checkpoints: -1, self.spec_file: 1}
        for path in sorted(self.folder.glob("*"), key=lambda path: order.get(path, 0)):
            if path.is_dir():
                remove_folder(path)
            elif path.name != _LOCK:
                path.unlink()

    def require_own_files(self) -> None:
        """Raise ZooError if the path is not valid, or if the folder contains files that no training run wrote."""
        require_valid_path(self.folder)
        if files := self.foreign_files():
            problem = f"`{self.folder}` contains files that no training run wrote: {', '.join(files)}"
            raise ZooError(
                problem, hint="move these files to another folder, or choose a different run folder with `--run DIR`"
            )

    def foreign_files(self) -> list[str]:
        """Return the names of files in the run folder that no training run wrote.

        Incomplete files that a killed training run has left behind are not listed.
        """
        names = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        return sorted(name for name in names - _OWN_FILES if partial_target(name) not in _OWN_FILES)


_LOCK = ".lock"
_OWN_FILES = {
    _LOCK,
    *(SPEC, RUN_IDENTITY, "log.jsonl", "events", SCORES, "checkpoints", WEIGHTS, shortlist.NAME),
    *("answers.dev.jsonl", "answers.test.jsonl"),
    *("vocabulary.model", "vocabulary.source.model", "vocabulary.target.model", "vocabulary.target.json"),
}
_OTHER_CORPUS_HINT = (
    "restore the original corpus, start over with `--fresh` (which removes the run's checkpoints), or train in another "
    "folder with `--run DIR`"
)
_OTHER_SPEC_HINT = (
    "start over with `--fresh` (which removes the run's checkpoints), or train in another folder with `--run DIR`; "
    f"only {', '.join(CHANGEABLE_FIELDS)} and the device may change"
)
