"""`facts.json` of a bundle: where the model comes from and how it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specs import Archive, Spec, ZooError
from zoo.files import manifest, storage
from zoo.files.atomic import write_json
from zoo.files.download import recorded_sha256
from zoo.files.reading import read_json
from zoo.models.folder import FACTS
from zoo.models.weights import Weights
from zoo.planning.memory_estimate import estimate_memory
from zoo.training.run import Run
from zoo.training.run_log import training_record
from zoo.version import __version__


@dataclass(frozen=True)
class CorpusProvenance:
    """Training corpus of a model.

    Attributes:
        fingerprint: Fingerprint of the prepared corpus. Empty if it is unknown.
        files: File name in the prepared corpus -> SHA-256.
        archives: URL of a downloaded archive -> SHA-256.
        synthetic: Parts of the corpus that models generated, with the digests of these models.
    """

    fingerprint: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)
    synthetic: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class TrainingProvenance:
    """Properties of a model's training run. Unknown values are None or empty.

    Attributes:
        seed: Random seed.
        averaged_steps: Steps of the checkpoints that were averaged.
        steps: Number of training steps.
        flops: FLOPs of all matrix products, forward and backward, without padding. If the run has no log, this
            is an estimate for full batches.
        paper_flops: FLOPs by the method of section 6.1 of the paper: time x number of devices x sustained FLOPs per
            second of one device.
        seconds: Duration in seconds.
        devices: Number of processes that trained together.
        machine: Name of the hardware.
        software: Versions of the libraries.
    """

    seed: int
    averaged_steps: tuple[int, ...] = ()
    steps: int | None = None
    flops: float | None = None
    paper_flops: float | None = None
    seconds: float | None = None
    devices: int | None = None
    machine: str = ""
    software: str = ""


@dataclass(frozen=True)
class Provenance:
    """Everything that is known about a model when it is published.

    Attributes:
        published: Time of publication in UTC, in ISO 8601 format.
        zoo_version: Version of zoo that published the model.
        corpus: The training corpus.
        training: Properties of the training run. None for an imported model.
        imported: Origin of an imported model, as name -> text: `format`, `source`, `engine`, and options such as
            `positions`. Empty for other models.
        notes: Limitations that users should know. The card lists them.
    """

    published: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    zoo_version: str = __version__
    corpus: CorpusProvenance = CorpusProvenance()
    training: TrainingProvenance | None = None
    imported: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Write the provenance to a file in a model folder."""
        write_json(folder / FACTS, asdict(self))


def provenance_of_run(spec: Spec, run: Run, weights: Weights) -> Provenance:
    """Collect the provenance of a run that is being published, from its folder and its prepared corpus."""
    return Provenance(corpus=_corpus_provenance(spec, run), training=_training_provenance(spec, run, weights))


def _corpus_provenance(spec: Spec, run: Run) -> CorpusProvenance:
    archives = {
        part.archive: sha256
        for part in spec.corpus.parts
        if isinstance(part, Archive) and (sha256 := part.sha256 or recorded_sha256(part.archive))
    }
    fingerprint, files = _identity_value(run, "fingerprint"), {}
    with suppress(ZooError):  # the prepared corpus was removed
        entries = manifest.read(storage.prepared() / fingerprint).entries
        files = {name: entry.sha256 for name, entry in entries.items()}
    synthetic = [{key: each[key] for key in ("part", "models")} for each in _identity_value(run, "synthetic", [])]
    return CorpusProvenance(fingerprint, files, archives, synthetic)


def _identity_value(run: Run, key: str, default: Any = "") -> Any:
    """Return a value from the run's `data.json`, or the default if the file or the value is missing."""
    with suppress(ZooError):
        return read_json(run.data).get(key, default)
    return default


def _training_provenance(spec: Spec, run: Run, weights: Weights) -> TrainingProvenance:
    known = TrainingProvenance(
        spec.training.seed,
        tuple(int(step) for step in weights.metadata.get("steps", "").split(",") if step.isdecimal()),
        machine=_identity_value(run, "machine"),
        software=_identity_value(run, "software"),
    )
    if record := training_record(run, spec):
        costs = {name: getattr(record, name) for name in ("steps", "flops", "seconds", "devices")}
        return replace(known, paper_flops=record.estimated_flops or None, **costs)
    last = weights.last_step
    return replace(known, steps=last, flops=None if last is None else float(last * estimate_memory(spec).step_flops))
