"""`zoo publish`: from a run to a bundle on the shelf. `zoo verify`: is it still what was published?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from specs import Spec, ZooError
from zoo.corpus.prepare import Prepared
from zoo.model import find, weights
from zoo.model.folder import SCORES, SPEC, WEIGHTS, ModelFolder
from zoo.model.names import place
from zoo.model.weights import Weights
from zoo.report import Report
from zoo.shelf import proof
from zoo.shelf.card import card
from zoo.shelf.precedence import require_own_name, require_precedence
from zoo.storage import manifest, places
from zoo.storage.files import read_json, require_space, write_json, writing_folder
from zoo.text.vocabulary import Side
from zoo.training.run import Run
from zoo.translation.opening import How, open_model
from zoo.translation.translator import Translator
from zoo.version import __version__

CARD = "README.md"
FILES = (SPEC, WEIGHTS, proof.NAME, SCORES, CARD)
"""What a bundle has beside its vocabulary and its manifest."""
_PAIRS, _LONGEST = 4, 100  # of a proof: pairs, and pieces of a sentence
_PLAIN: How = {"device": "cpu", "precision": "float32", "backend": "eager"}  # what every machine has, and exact
_SENTENCES = ("The old dog sees a small house.", "Today we read two books.", "1984, 2017!", "x y z")


@dataclass(frozen=True)
class Verified:
    """What `verify` looked at: files, sentences of the proof, and the largest difference of a log-probability."""

    files: int
    sentences: int
    difference: float


def publish(
    run: str | os.PathLike[str], *, name: str | None = None, replace: bool = False, report: Report | None = None
) -> Path:
    """Writes the bundle of a trained run onto the shelf, under `name` or the name in its spec, and returns its folder.

    A bundle of that name gives way when the new one is whole and proved: by itself if it is an earlier state of the
    same training, any other with `replace`. Raises ZooError where there is no such run or it has no weights, where the
    name is none or not its own, where another run stands there, or where the disk is full.
    """
    report = report or Report()
    source = Run(find.run(run))
    spec = source.spec
    if name is None:
        require_own_name(source)
    else:
        spec = spec.model_copy(update={"name": name})
    folder, trained = place(spec.name), find.model(source.folder)
    read = weights.read(source.weights)
    if not replace:
        require_precedence(source, read, ModelFolder(folder))
    translator = open_model(trained, **_PLAIN, report=report)
    require_space(folder, 2 * source.weights.stat().st_size, "the bundle")
    with writing_folder(folder) as partial:
        _write(ModelFolder(partial), spec, read, translator, _pairs(source, translator), source.known_scores)
        del translator  # so that two of the model are never in memory
        _verify(partial, report)
    return folder


def shelve(
    translator: Translator, read: Weights, *, texts: Sequence[str] = (), replace: bool = False, report: Report
) -> Path:
    """Writes the bundle of a model that was made elsewhere onto the shelf, under the name in its spec.

    The proof is of `texts`, where they are short enough, as the model translates them. Raises ZooError where another
    model stands there, unless it is to be replaced, and where the disk is full.
    """
    spec = translator.spec
    folder = place(spec.name)
    if ModelFolder(folder).published and not replace:
        hint = "`--replace` puts this one in its place; `--name NAME` puts it beside that one"
        raise ZooError(f"there is a published model `{spec.name}` already: `{folder}`", hint=hint)
    require_space(folder, 2 * sum(tensor.nbytes for tensor in read.tensors.values()), "the bundle")
    with writing_folder(folder) as partial:
        _write(ModelFolder(partial), spec, read, translator, _own_pairs(texts, translator), {})
        _verify(partial, report)
    return folder


def _write(
    bundle: ModelFolder,
    spec: Spec,
    read: Weights,
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    scores: dict[str, Any],
) -> None:
    bundle.spec_file.write_text(spec.yaml(__version__), encoding="utf-8")
    translator.vocabulary.save(bundle.folder)
    read.write(bundle.weights)
    proved = proof.prove(translator.program, translator.vocabulary, pairs[:_PAIRS])
    proved.write(bundle.folder / proof.NAME)
    write_json(bundle.scores, scores)
    try:
        text = card(spec, translator.vocabulary, scores, read.facts)
    except (KeyError, TypeError, ValueError):
        hint = "remove it: `zoo evaluate --model RUN` writes it anew"
        raise ZooError(f"`{SCORES}` is damaged: it does not say enough", hint=hint, exit_code=1) from None
    (bundle.folder / CARD).write_text(text, encoding="utf-8")
    manifest.write(bundle.folder)


def verify(name: str, *, report: Report | None = None) -> Verified:
    """Checks a published model's files against its manifest, and its log-probabilities against its proof.

    `name` may be the folder of one. Raises ZooError where there is no such model, where a file is not as it was
    published, or where a log-probability differs by more than `proof.TOLERANCE`.
    """
    return _verify(find.published(name), report or Report())


def _verify(folder: Path, report: Report) -> Verified:
    names = {*manifest.read(folder).entries, *FILES}
    manifest.check(folder, sorted(names))
    translator = open_model(folder, **_PLAIN, report=report)
    proved = proof.read(folder / proof.NAME, translator.spec)
    difference = proved.check(translator.program)
    return Verified(len(names), len(proved.source), difference)


def _pairs(run: Run, translator: Translator) -> list[tuple[str, str]]:
    """Of the run's dev set; where its corpus is no longer here, sentences that the model itself translates."""
    pairs = [
        (source, target)
        for source, target in _dev_set(run)
        if _is_short(source, "source", translator) and _is_short(target, "target", translator)
    ]
    return pairs or _own_pairs((), translator)


def _own_pairs(texts: Sequence[str], translator: Translator) -> list[tuple[str, str]]:
    """Sentences, of these if they are short enough, and how the model itself translates them."""
    short = (text for text in (*texts, *_SENTENCES) if _is_short(text, "source", translator))
    sources = list(islice(short, _PAIRS)) or ["a"]
    return list(zip(sources, translator.translate(sources, search="beam", beam=1), strict=True))


def _dev_set(run: Run) -> list[tuple[str, str]]:
    try:
        prepared = Prepared(places.prepared() / str(read_json(run.data)["fingerprint"]))
        return list(zip(*prepared.texts("dev"), strict=True))
    except (ZooError, KeyError):
        return []


def _is_short(text: str, side: Side, translator: Translator) -> bool:
    """Whether the model has a position for each piece, and a proof of it stays small."""
    return 0 < len(translator.vocabulary.encode(text, side)) <= min(_LONGEST, translator.spec.corpus.max_length)
