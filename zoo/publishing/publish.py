"""Publish a trained run or an imported model in the local model store, verify it, and upload it to a registry."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from compiler.options import BackendOptions
from specs import ZooError
from zoo.files import manifest, storage
from zoo.files.atomic import atomic_folder, link_or_copy, temporary_path, write_json
from zoo.files.reading import file_exists, read_json
from zoo.files.storage import require_space
from zoo.generation.loading import open_model
from zoo.models import find
from zoo.models.folder import CARD, SCORES, SPEC, WEIGHTS, ModelFolder
from zoo.models.loading import read_model
from zoo.models.local_store import Origin, StoredModel
from zoo.models.registries.registry import open_registry
from zoo.models.registries.revision import Revision, is_file_name
from zoo.models.weights import RESTORE_HINT
from zoo.publishing import reference_results
from zoo.publishing.card import card
from zoo.publishing.inventory import summarize
from zoo.publishing.provenance import Provenance, provenance_of_run
from zoo.report import SILENT, Report
from zoo.training.run import Run

REQUIRED_FILES = (SPEC, WEIGHTS, reference_results.NAME, SCORES, CARD)
"""Files of every bundle, besides its vocabulary and its manifest."""
EXACT: BackendOptions = {"device": "cpu", "precision": "float32", "backend": "eager"}
"""Options that select the reference implementation, which runs on every machine."""


def publish(
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    replace: bool = False,
    notes: str = "",
    report: Report = SILENT,
) -> Path:
    """Publish a trained run in the local model store.

    The folder of the published model (the bundle) appears only when it is complete and verified.

    Args:
        run: The folder of a run, or the name of its spec.
        name: Name of the published model. The default is the name in the spec.
        replace: Whether to replace an existing model with this name.
        notes: Markdown text for the model card, such as the limitations of the model and additional scores.
        report: Receives progress and warnings.

    Returns:
        The folder of the bundle.

    Raises:
        ZooError: The run does not exist or has no weights, the name is invalid or in use, or the disk is full.
    """
    if is_published_model(run):
        problem = f"`{os.fspath(run)}` is not a run: it is already published in the local model store"
        raise ZooError(problem, hint="to upload the model, run `zoo publish NAME --to REGISTRY` without other options")
    source = Run(find.run(run))
    spec = source.spec
    if name is not None:
        spec = spec.model_copy(update={"name": name})
    elif file_exists(source.data) and read_json(source.data).get("named") is False:
        # The inherited name is reserved for a model that is trained with the parent spec.
        problem = f"has no name of its own: `{spec.name}` is the name of the spec it extends"
        hint = "publish the run with `--name NAME`, and set `name` in the spec before you train again"
        raise ZooError(f"the spec of `{source.folder}` {problem}", hint=hint)
    folder, stored = quote(str(source.folder)), StoredModel.current(spec.name)
    if not source.trained:
        hint = f"run `zoo train {folder}/spec.yaml` to continue training, or `zoo average {folder}` to write an average"
        raise ZooError(f"`{source.folder}` has no weights yet", hint=hint)

    scores = source.known_scores
    with new_bundle(spec.name, replace=replace) as bundle:
        model = read_model(source.folder)
        require_space(stored.folder, 2 * source.weights.stat().st_size, "the bundle")
        dataclasses.replace(model, spec=spec).write(bundle)
        if spec.corpus.test and "test" not in scores:
            report.info(f"the model card has no test scores; run `zoo evaluate --model {folder}` to compute them")
        provenance = provenance_of_run(spec, source, model.weights)
        del model  # free its memory, because the next line loads the bundle
        complete(bundle, provenance, report, scores, notes)
    return stored.folder


@contextmanager
def new_bundle(name: str, *, replace: bool) -> Iterator[ModelFolder]:
    """Yield an empty folder for a bundle, and move it into the local model store at the end of the `with` block.

    If the block raises an exception, the folder is removed, and the store does not change.

    Args:
        name: Name of the published model.
        replace: Whether to replace an existing model with this name.

    Raises:
        ZooError: Another model has this name.
    """
    model = StoredModel.current(name)
    if not replace:
        _require_unused(model)
    with atomic_folder(model.folder) as partial:
        yield ModelFolder(partial)
        if not replace:  # another process may have published in the meantime
            _require_unused(model)


def _require_unused(model: StoredModel) -> None:
    if model.published:
        hint = f"use `--replace` or `--name NAME`; to upload the model, run `zoo publish {model.name} --to REGISTRY`"
        raise ZooError(f"a published model `{model.name}` already exists: `{model.folder}`", hint=hint)


def complete(
    bundle: ModelFolder, provenance: Provenance, report: Report, scores: dict[str, Any] | None = None, notes: str = ""
) -> None:
    """Add the missing files to a bundle that has a spec, a vocabulary and weights, then verify the bundle.

    Args:
        bundle: The folder of the bundle.
        provenance: Origin and training of the model.
        report: Receives progress and warnings.
        scores: Content of the model's `scores.json`.
        notes: Markdown text for the model card.

    Raises:
        ZooError: The model or its scores are not valid.
    """
    scores = scores or {}
    # An imported model may not know some characters of zoo's own sample sentences, so discard warnings about them.
    translator = open_model(bundle.folder, **EXACT, report=SILENT if provenance.imported else report)
    references = reference_results.compute(translator, reference_results.translated_examples(translator))
    references.write(bundle.folder / reference_results.NAME)
    write_json(bundle.scores, scores)
    provenance.write(bundle.folder)
    text = card(bundle.spec, translator.vocabulary, scores, provenance, translator.longest_source, notes)
    (bundle.folder / CARD).write_text(text, encoding="utf-8")
    manifest.write(bundle.folder)
    verify_folder(bundle.folder, report)


@dataclasses.dataclass(frozen=True)
class Verified:
    """Result of verifying a published model.

    Attributes:
        files: Number of files that were checked.
        sentences: Number of sentences with reference log-probabilities.
        max_difference: Largest difference between a reference log-probability and the value computed now.
        backend: Name of the backend that ran the model.
    """

    files: int
    sentences: int
    max_difference: float
    backend: str


def verify(name: str | os.PathLike[str], *, backend: str | None = None, report: Report = SILENT) -> Verified:
    """Verify that a published model's files are unchanged, and that it reproduces its reference log-probabilities.

    The reference log-probabilities were saved when the model was published.

    Args:
        name: A model name, or the folder of a bundle.
        backend: Name of the backend, which runs in float32: `auto`, or a backend that `zoo doctor` lists. The default
            is the reference implementation on the CPU.
        report: Receives progress and warnings.

    Returns:
        The numbers of checked files and sentences, and the largest difference from the reference log-probabilities.

    Raises:
        ZooError: There is no such model, a file has changed, or a log-probability differs by more than
            `reference_results.TOLERANCE`.
    """
    how: BackendOptions = EXACT if backend is None else {"device": "auto", "precision": "float32", "backend": backend}
    return verify_folder(find.published_model(name, report), report, how)


def verify_folder(folder: Path, report: Report, how: BackendOptions = EXACT) -> Verified:
    """Verify the bundle in a folder, which may not be in the local model store yet. See `verify` for errors."""
    names = {*manifest.read(folder).entries, *REQUIRED_FILES}
    try:
        manifest.check(folder, sorted(names))
    except ZooError as error:
        raise ZooError(error.problem, where=error.where, hint=error.hint or RESTORE_HINT, exit_code=1) from None
    translator = open_model(folder, **how, report=report)
    references = reference_results.read(folder / reference_results.NAME, translator.spec)
    difference = references.check(translator.program, translator.device)
    return Verified(len(names), len(references.target), difference, translator.backend)


def is_published_model(reference: str | os.PathLike[str]) -> bool:
    """Return whether a name or path refers to a published model on this machine, and not to a run."""
    return find.find_run(reference) is None and find.local_model(reference) is not None


def upload(model: str | os.PathLike[str], to: str, *, report: Report = SILENT) -> Revision:
    """Verify a model in the local model store or in a bundle's folder, then upload the model to a registry.

    Args:
        model: Name of a model in the local model store, or the folder of a bundle.
        to: Address of the registry.
        report: Receives progress and warnings.

    Returns:
        The revision of the model in the registry.

    Raises:
        ZooError: There is no such model, it does not pass verification, or the registry cannot be written to.
    """
    registry = open_registry(to)
    if "://" not in to and not os.path.exists(to):
        report.info(f"creating a new registry in the folder `{os.path.abspath(to)}`")
    store = registry.writable_store  # raises errors before the verification, which takes longer
    folder = find.local_model(model)
    if folder is None:
        raise find.not_published_error(model)
    with _snapshot(folder) as copy:
        bundle = ModelFolder(copy)
        verify(copy, report=report)
        revision = registry.publish(bundle.spec.name, copy, summarize(bundle), report)
    stored, origin = StoredModel.at(folder), Origin.of(revision, store.address)
    # A model that was pulled from another registry keeps its origin.
    if stored and stored.digest == revision.digest and (stored.origin or origin).registry == store.address:
        try:
            origin.write(stored.folder)
        except ZooError as error:  # the model is published, so the index must still be written
            report.warn(f"{error.summary}; the upload of `{revision.pin}` is not recorded in the local model store")
    registry.write_index(report)
    return revision


@contextmanager
def _snapshot(folder: Path) -> Iterator[Path]:
    """Yield a temporary copy of a bundle's files, which does not change if the bundle is replaced."""
    with temporary_path(storage.pulls() / folder.name) as snapshot:
        snapshot.mkdir()
        for name in sorted({*manifest.read(folder).entries, *REQUIRED_FILES, manifest.NAME}):
            if not is_file_name(name):
                problem = f"`{folder}` contains the file `{name}`, but registries do not accept this name"
                hint = "rename the file: use letters, digits, `-` and `_`, then an extension such as `.txt`"
                raise ZooError(problem, hint=hint)
            if not file_exists(folder / name):
                raise ZooError(f"`{folder / name}` is missing", hint="publish this model's run again", exit_code=1)
            link_or_copy(folder / name, snapshot / name)
        yield snapshot
