"""Read a model from its folder: the spec, the vocabulary and the weights, which must fit together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import compiler
from compiler.weights import check_weights
from specs import Spec, ZooError
from specs.sections import OUTPUT
from zoo.files import manifest, storage
from zoo.files.atomic import restore_replaced
from zoo.files.manifest import Manifest, file_identity
from zoo.files.reading import file_exists, read_bytes
from zoo.models import shortlist, weights
from zoo.models.folder import MAX_SPEC_BYTES, SPEC, WEIGHTS, ModelFolder
from zoo.models.shortlist import Shortlist
from zoo.models.weights import Weights
from zoo.text.vocabulary import MODALITIES, Vocabulary
from zoo.version import __version__

Content = TypeVar("Content")
_MAX_ATTEMPTS = 20
_RESTORE_HINT = "restore the folder from the model's source"


@dataclass(frozen=True)
class Model:
    """Spec, vocabulary and weights of one model, and its shortlist, if it has one.

    Attributes:
        spec: Description of the model's architecture, training and decoding.
        vocabulary: Source and target vocabulary.
        weights: Tensors and their metadata.
        shortlist: Target tokens that the search considers for each source token. None if there is no shortlist.
        cache_key: SHA-256 hashes of the spec file and the weights file. None for a training run, which has no manifest.
    """

    spec: Spec
    vocabulary: Vocabulary
    weights: Weights
    shortlist: Shortlist | None = None
    cache_key: str | None = None

    def write(self, folder: ModelFolder) -> None:
        """Write the spec, the vocabulary, the weights and the shortlist into an empty folder."""
        folder.spec_file.write_text(self.spec.yaml(__version__), encoding="utf-8")
        self.vocabulary.save(folder.folder)
        self.weights.write(folder.weights)
        if self.shortlist:
            self.shortlist.write(folder.folder / shortlist.NAME)


def read_model(folder: Path, *, tensors: bool = True) -> Model:
    """Read the model in the folder of a run or published model.

    Args:
        folder: The folder.
        tensors: Whether to read the tensors of the weights. If False, reading a model does not need torch.

    Raises:
        ZooError: A file is missing, unreadable or damaged, or does not match the spec or the vocabulary. If `tensors`
            is False, damaged tensors of a training run are not detected.
    """

    def read(model: ModelFolder, listed: Manifest | None) -> Model:
        spec, vocabulary, lists = _read_light_files(model, listed)
        file = model.newest_weights
        if tensors:
            loaded = weights.read(file, listed)
            expected = compiler.stored_tensors([compiler.lower(spec, compiler.Purpose.SCORE)])
            try:
                check_weights(loaded.tensors, expected, spec.name)
            except ZooError as error:
                raise ZooError(error.problem, where=str(file), hint=error.hint, exit_code=1) from None
        else:
            if listed is not None:
                listed.check_file(WEIGHTS)
            loaded = Weights({}, weights.read_metadata(file))
        cache_key = " ".join(listed.entries[name].sha256 for name in (SPEC, WEIGHTS)) if listed is not None else None
        return Model(spec, vocabulary, loaded, lists, cache_key)

    return _read_one_version(folder, read)


def read_weights(folder: Path) -> Weights:
    """Read only the weights of the model in a folder. `compiler.build` checks whether the weights fit the spec."""
    return _read_one_version(folder, lambda model, listed: weights.read(model.newest_weights, listed))


def _read_one_version(folder: Path, read: Callable[[ModelFolder, Manifest | None], Content]) -> Content:
    """Read a model folder by calling `read`.

    If another process replaces the folder in the meantime, call `read` again, so that all files are from one version.
    """
    storage.require_valid_path(folder)
    model = ModelFolder(folder)
    for _ in range(_MAX_ATTEMPTS):
        if not model.exists:
            restore_replaced(folder.parent)
        before, published = _manifest_identity(folder), model.published
        try:
            return read(model, manifest.read(folder) if published else None)
        except ZooError:
            if not published or _manifest_identity(folder) == before:
                raise
    hint = "run the command again when no other process is publishing to this folder"
    raise ZooError(f"`{folder}` was repeatedly replaced while it was being read", hint=hint, exit_code=1)


def _manifest_identity(folder: Path) -> tuple[int, ...] | None:
    """Return properties of a folder's manifest that change when the folder is replaced. None if it has no manifest."""
    with suppress(OSError):
        return file_identity(folder / manifest.NAME)
    return None


def _read_light_files(model: ModelFolder, listed: Manifest | None) -> tuple[Spec, Vocabulary, Shortlist | None]:
    """Read the spec, the vocabulary and the shortlist of a model, and check that they match."""

    def read(path: Path, max_bytes: int) -> bytes:
        return read_bytes(path, max_bytes) if listed is None else listed.read_file(path.name, max_bytes)

    spec = model.spec if listed is None else model.parse_spec(listed.read_file(SPEC, MAX_SPEC_BYTES))
    vocabulary = Vocabulary.load(model.folder, read)
    _require_matching_vocabulary(model.folder, spec, vocabulary)
    file, lists = model.folder / shortlist.NAME, None
    if file_exists(file) if listed is None else shortlist.NAME in listed.entries:
        lists = Shortlist.parse(read(file, shortlist.MAX_BYTES), file, vocabulary.sizes)
    return spec, vocabulary, lists


def _require_matching_vocabulary(folder: Path, spec: Spec, vocabulary: Vocabulary) -> None:
    expected = spec.vocabulary
    shared = vocabulary.shared or (expected.separate_models and vocabulary.same_on_both_sides)
    actual_layout = (vocabulary.sizes, shared, not vocabulary.shared)
    expected_layout = (expected.sizes, expected.shared, expected.separate_models or not expected.shared)
    if actual_layout != expected_layout:
        actual, required = _describe_layout(*actual_layout), _describe_layout(*expected_layout)
        problem = f"the vocabulary in `{folder}` has {actual}, but the spec requires {required}"
        raise ZooError(problem, hint=_RESTORE_HINT, exit_code=1)
    if not isinstance(vocabulary.target, MODALITIES[spec.task.streams[OUTPUT]]):
        other = "tokens of text" if spec.task.writes_trees else "brackets of trees"
        problem = f"the target tokens in `{folder}` are {other}, but the task of the spec is `{spec.task.kind}`"
        raise ZooError(problem, hint=_RESTORE_HINT, exit_code=1)


def _describe_layout(sizes: tuple[int, int], shared: bool, two_models: bool) -> str:
    counts = f"{sizes[0]:,} and {sizes[1]:,}" if len({*sizes}) > 1 else f"{sizes[0]:,}"
    separate = ", with a separate tokenizer for each" if shared and two_models else ""
    return f"{counts} tokens, {'shared' if shared else 'separate for source and target'}{separate}"
