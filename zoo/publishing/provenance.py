"""`facts.json` of a bundle: where the model comes from and how it was trained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from specs import Archive, Spec, ZooError
from zoo.data.prepare import PreparedCorpus
from zoo.files import manifest, storage
from zoo.files.atomic import write_json
from zoo.files.download import recorded_sha256
from zoo.files.manifest import Manifest
from zoo.files.reading import read_json
from zoo.models.weights import Weights
from zoo.planning.memory_estimate import estimate_memory
from zoo.training.run import Run
from zoo.training.run_log import training_record
from zoo.version import __version__

NAME = "facts.json"
_Text = Annotated[str, Field(max_length=10_000)]
_Texts = Annotated[dict[_Text, _Text], Field(max_length=10_000)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class CorpusProvenance:
    """Training corpus of a model.

    Attributes:
        fingerprint: Fingerprint of the prepared corpus. Empty if it is unknown.
        files: File name in the prepared corpus -> SHA-256.
        archives: Address of a downloaded archive -> SHA-256.
    """

    fingerprint: _Text = ""
    files: _Texts = field(default_factory=dict)
    archives: _Texts = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingProvenance:
    """Properties of the training run of a model. Unknown values are None or empty.

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

    seed: _Count
    averaged_steps: Annotated[tuple[_Count, ...], Field(max_length=100_000)] = ()
    steps: _Count | None = None
    flops: float | None = None
    paper_flops: float | None = None
    seconds: float | None = None
    devices: _Count | None = None
    machine: _Text = ""
    software: _Text = ""


@dataclass(frozen=True)
class Provenance:
    """Everything that is known about a model when it is published.

    Attributes:
        spec: Fingerprint of the spec. Two specs with the same model and training have the same fingerprint.
        published: Time of publication in UTC, as in ISO 8601.
        zoo_version: Version of zoo that published the model.
        corpus: The training corpus.
        training: Properties of the training run. None for an imported model.
        imported: Origin of an imported model, as name -> text: `format`, `source`, `engine`, options such as
            `positions`, and with `--check` a comparison with that engine (`check`). Empty for other models.
        notes: Limitations that users should know. The card lists them.
    """

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    spec: _Text = ""
    published: _Text = ""
    zoo_version: _Text = ""
    corpus: CorpusProvenance = CorpusProvenance()
    training: TrainingProvenance | None = None
    imported: _Texts = field(default_factory=dict)
    notes: Annotated[tuple[_Text, ...], Field(max_length=1_000)] = ()

    def write(self, folder: Path) -> None:
        """Write the provenance into a bundle's folder."""
        write_json(folder / NAME, asdict(self))


_PROVENANCE = TypeAdapter(Provenance)


def read(listed: Manifest) -> Provenance:
    """Read the provenance of a bundle. Without the file `facts.json`, return an empty one.

    Args:
        listed: The manifest of the bundle.

    Raises:
        ZooError: The file is damaged.
    """
    if NAME not in listed.entries:
        return Provenance()
    path = listed.folder / NAME
    try:
        return _PROVENANCE.validate_json(listed.read_file(NAME))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        problem = f"`{path}` is damaged: `{key}` has an invalid value" if key else f"`{path}` is damaged"
        raise ZooError(problem, hint="restore the file from the source of the model", exit_code=1) from None


def fingerprint(spec: Spec) -> str:
    """Return the SHA-256 of a spec without its name, description and licence, and without the folder of its corpus."""
    corpus = spec.corpus.model_copy(update={"folder": "."})
    anonymous = spec.model_copy(update={"name": "x", "description": "", "licence": None, "corpus": corpus})
    return hashlib.sha256(anonymous.yaml().encode()).hexdigest()


def provenance_of_run(spec: Spec, run: Run, weights: Weights) -> Provenance:
    """Collect the provenance of a run that is being published, from its folder and its prepared corpus."""
    return Provenance(
        spec=fingerprint(spec),
        published=_now(),
        zoo_version=__version__,
        corpus=_corpus_provenance(spec, run),
        training=_training_provenance(spec, run, weights),
    )


def provenance_of_import(spec: Spec, origin: Mapping[str, str], notes: Sequence[str] = ()) -> Provenance:
    """Return the provenance of an imported model.

    Args:
        spec: Its spec.
        origin: The value of `Provenance.imported`: the source of the model, and the comparison with its original
            toolkit.
        notes: Limitations that users should know.
    """
    return Provenance(
        spec=fingerprint(spec),
        published=_now(),
        zoo_version=__version__,
        imported=dict(origin),
        notes=tuple(notes),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _corpus_provenance(spec: Spec, run: Run) -> CorpusProvenance:
    archives = {
        part.archive: sha256
        for part in spec.corpus.parts
        if isinstance(part, Archive) and (sha256 := part.sha256 or recorded_sha256(part.archive))
    }
    recorded = _identity_value(run, "fingerprint")
    try:
        prepared = PreparedCorpus(storage.prepared() / recorded) if recorded else None
    except ZooError:  # the prepared corpus was removed
        prepared = None
    if prepared is None:
        return CorpusProvenance(recorded, {}, archives)
    entries = manifest.read(prepared.folder).entries
    return CorpusProvenance(prepared.fingerprint, {name: entry.sha256 for name, entry in entries.items()}, archives)


def _identity_value(run: Run, key: str) -> str:
    """Return a value from the run's `data.json`. Empty if the file or the value is missing."""
    try:
        return str(read_json(run.data).get(key, ""))
    except ZooError:
        return ""


def _training_provenance(spec: Spec, run: Run, weights: Weights) -> TrainingProvenance:
    averaged = tuple(int(step) for step in weights.metadata.get("steps", "").split(",") if step.isdecimal())
    record = training_record(run, spec)
    common: dict[str, Any] = {
        "averaged_steps": averaged,
        "machine": _identity_value(run, "machine"),
        "software": _identity_value(run, "software"),
    }
    if record is None:
        last = weights.last_step
        flops = None if last is None else float(last * estimate_memory(spec).step_flops)
        return TrainingProvenance(spec.training.seed, steps=last, flops=flops, **common)
    return TrainingProvenance(
        spec.training.seed,
        steps=record.steps,
        flops=record.flops,
        paper_flops=record.estimated_flops or None,
        seconds=record.seconds,
        devices=record.devices,
        **common,
    )
