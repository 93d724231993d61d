"""What a model's folder holds: a spec, a vocabulary and weights that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler import Purpose, lower
from compiler.graph import stored
from compiler.weights import check
from specs import Parsing, Spec, ZooError
from zoo.files import manifest
from zoo.files.content import content
from zoo.files.files import require_utf8
from zoo.files.manifest import Manifest
from zoo.models import weights
from zoo.models.folder import LONGEST_SPEC, SPEC, ModelFolder
from zoo.models.weights import Weights
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Model:
    """What a run's or a bundle's folder holds, and belongs together."""

    spec: Spec
    vocabulary: Vocabulary
    weights: Weights


def read_model(folder: Path) -> Model:
    """What the folder holds; of a bundle, what belongs together by its manifest, though it is replaced meanwhile.

    Raises ZooError where a file is missing, may not be read, is damaged, or does not fit the others.
    """
    require_utf8(folder)
    of = ModelFolder(folder)
    for _ in range(_TRIES):
        listed = manifest.read(folder) if of.published else None
        try:
            return _read(of, listed)
        except ZooError:
            if listed is None or listed.current:
                raise
    hint = "wait until nobody publishes there"
    raise ZooError(f"`{folder}` is replaced again and again while it is read", hint=hint, exit_code=1)


_TRIES = 20
_RESTORE = "restore it from where it came from"


def _read(of: ModelFolder, listed: Manifest | None) -> Model:
    spec = of.spec if listed is None else of.parsed(listed.content(SPEC, LONGEST_SPEC))

    def read(path: Path, most: int) -> bytes:
        return content(path, most) if listed is None else listed.content(path.name, most)

    vocabulary = Vocabulary.load(of.folder, read)
    said = spec.vocabulary
    found = (vocabulary.sizes, vocabulary.shared or (said.separate_models and vocabulary.same_on_both_sides), not vocabulary.shared)
    wanted = (said.sizes, said.shared, said.separate_models or not said.shared)
    if found != wanted:
        problem = f"the vocabulary in `{of.folder}` has {_said(*found)}, and its spec says {_said(*wanted)}"
        raise ZooError(problem, hint=_RESTORE, exit_code=1)
    trees = isinstance(vocabulary.target, TreeTokenizer)
    if trees != isinstance(spec.task, Parsing):
        problem = (
            f"the target tokens in `{of.folder}` are {'brackets of trees' if trees else 'those of text'}, and the task "
            f"of its spec is `{spec.task.kind}`"
        )
        raise ZooError(problem, hint=_RESTORE, exit_code=1)
    of_file = weights.read(of.weights, listed)
    try:
        check(of_file.tensors, stored([lower(spec, Purpose.SCORE)]), spec.name)
    except ZooError as error:
        raise ZooError(error.problem, where=str(of.weights), hint=error.hint, exit_code=1) from None
    return Model(spec, vocabulary, of_file)


def _said(sizes: tuple[int, int], shared: bool, two_models: bool) -> str:
    several = f"{sizes[0]:,} and {sizes[1]:,}" if len({*sizes}) > 1 else f"{sizes[0]:,}"
    separate = ", with a model for each" if shared and two_models else ""
    return f"{several} tokens, {'shared' if shared else 'for each side'}{separate}"
