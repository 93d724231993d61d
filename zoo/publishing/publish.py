"""`zoo publish`: from a run to a bundle on the shelf."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.evaluation.evaluate import read_split
from zoo.files import manifest
from zoo.files.files import require_space, write_json, writing_folder
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.models import find, weights
from zoo.models.folder import CARD, SCORES, ModelFolder
from zoo.models.names import place
from zoo.models.weights import Weights
from zoo.publishing import proof, sample
from zoo.publishing.card import card
from zoo.publishing.facts import Facts
from zoo.publishing.pairs import own_pairs, pairs
from zoo.publishing.precedence import require_own_name, require_precedence
from zoo.publishing.provenance import facts_of
from zoo.publishing.sample import Sample
from zoo.publishing.verify import PLAIN, verify_folder
from zoo.report import Report
from zoo.training.run import Run
from zoo.version import __version__


def publish(
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    replace: bool = False,
    with_text: bool | None = None,
    report: Report | None = None,
) -> Path:
    """Writes the bundle of a trained run onto the shelf, under `name` or the name in its spec, and returns its folder.

    `with_text` says whether sentences of its dev and test sets go along, as a sample and in the proof; without a word
    they do where they are anybody's, of the built-in grammar.
    A bundle of that name gives way when the new one is whole and proved: by itself if it is an earlier state of the
    same training, any other with `replace`. Raises ZooError where there is no such run or it has no weights, where the
    name is none or not its own, where another run stands there, where the text that was asked for is not here, or where
    the disk is full.
    """
    report = report or Report()
    source = Run(_run(run))
    spec = source.spec
    if name is None:
        require_own_name(source)
    else:
        spec = spec.model_copy(update={"name": name})
    folder, trained = place(spec.name), find.model(source.folder)
    read = weights.read(source.weights)
    if not replace:
        require_precedence(source, read, ModelFolder(folder))
    translator = open_model(trained, **PLAIN, report=report)
    if with_text is None:
        with_text = sample.is_free(spec)
    require_space(folder, 2 * source.weights.stat().st_size, "the bundle")
    with writing_folder(folder) as partial:
        bundle = ModelFolder(partial)
        bundle.spec_file.write_text(spec.yaml(__version__), encoding="utf-8")
        translator.vocabulary.save(partial)
        read.write(bundle.weights)
        taken = sample.sampled(translator, report) if with_text else None
        dev = read_split(spec, "dev", report, translator.vocabulary) if with_text else ((), ())
        proved = pairs(dev, translator)
        _complete(bundle, facts_of(spec, source, read), read, translator, proved, source.known_scores, taken)
        del translator  # so that two of the model are never in memory
        verify_folder(partial, report)
        if not replace:  # another process may have been quicker
            require_precedence(source, read, ModelFolder(folder))
    return folder


def _run(reference: str | os.PathLike[str]) -> Path:
    """Raises ZooError where there is none, which says so of a model that is on the shelf already."""
    try:
        return find.run(reference)
    except ZooError:
        if find.on_shelf(reference) is None:
            raise
        problem = f"`{os.fspath(reference)}` is no run: it is published already, on the shelf"
        raise ZooError(problem, hint="`--to PLACE` alone publishes it to a registry, under its own name") from None


def shelve(
    name: str,
    fill: Callable[[ModelFolder], Facts],
    *,
    replace: bool = False,
    report: Report | None = None,
) -> Path:
    """Writes the bundle of a model that was made elsewhere onto the shelf, and returns its folder.

    `fill` puts spec, vocabulary and weights into an empty folder, and says where they come from. The proof is of
    sentences that the model itself translates. Raises ZooError where another model has the name, unless it is to be
    replaced.
    """
    folder, report = place(name), report or Report()
    if not replace:
        _require_free(name, folder)
    with writing_folder(folder) as partial:
        bundle = ModelFolder(partial)
        known = fill(bundle)
        translator = open_model(partial, **PLAIN, report=report)
        _complete(bundle, known, Weights({}), translator, own_pairs(translator), {})
        del translator  # so that two of the model are never in memory
        verify_folder(partial, report)
        if not replace:  # another process may have been quicker
            _require_free(name, folder)
    return folder


def _require_free(name: str, folder: Path) -> None:
    if ModelFolder(folder).published:
        hint = "`--replace` puts this one in its place; `--name NAME` puts it beside that one"
        raise ZooError(f"there is a published model `{name}` already: `{folder}`", hint=hint)


def _complete(
    bundle: ModelFolder,
    known: Facts,
    read: Weights,
    translator: Translator,
    proved: Sequence[tuple[str, str]],
    scores: dict[str, Any],
    taken: Sample | None = None,
) -> None:
    """All but spec, vocabulary and weights; the manifest last."""
    proof.prove(translator.program, translator.vocabulary, proved).write(bundle.folder / proof.NAME)
    write_json(bundle.scores, scores)
    known.write(bundle.folder)
    if taken:
        taken.write(bundle.folder)
    try:
        text = card(bundle.spec, translator.vocabulary, scores, known, read.longest_source, taken)
    except (KeyError, TypeError, ValueError):
        hint = "remove it: `zoo evaluate --model RUN` writes it anew"
        raise ZooError(f"the run's `{SCORES}` is damaged: it does not say enough", hint=hint, exit_code=1) from None
    (bundle.folder / CARD).write_text(text, encoding="utf-8")
    manifest.write(bundle.folder)
