"""`zoo publish`: from a run to a bundle on the shelf. `zoo verify`: is it still what was published?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.evaluation.own_sets import texts
from zoo.model import find, weights
from zoo.model.folder import CARD, SCORES, SPEC, WEIGHTS, ModelFolder
from zoo.model.names import place
from zoo.model.weights import Weights
from zoo.report import Report
from zoo.shelf import facts, proof, sample
from zoo.shelf.card import card
from zoo.shelf.facts import Facts
from zoo.shelf.precedence import require_own_name, require_precedence
from zoo.shelf.provenance import facts_of
from zoo.shelf.sample import Reproduced, Sample
from zoo.storage import manifest
from zoo.storage.files import require_space, write_json, writing_folder
from zoo.text.vocabulary import Side
from zoo.training.run import Run
from zoo.translation.opening import How, open_model
from zoo.translation.translator import Translator
from zoo.version import __version__

FILES = (SPEC, WEIGHTS, proof.NAME, SCORES, CARD)
"""What every bundle has beside its vocabulary and its manifest; later ones have facts, and some a sample."""
_PAIRS, _LONGEST = 4, 100  # of a proof: pairs, and pieces of a sentence
_PLAIN: How = {"device": "cpu", "precision": "float32", "backend": "eager"}  # what every machine has, and exact
_SENTENCES = ("The old dog sees a small house.", "Today we read two books.", "1984, 2017!", "x y z")


@dataclass(frozen=True)
class Verified:
    """What `verify` looked at: files, sentences of the proof, the largest difference of a log-probability, its sample.

    `backend` is the one that computed.
    """

    files: int
    sentences: int
    difference: float
    sample: Reproduced | None
    backend: str


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
    if with_text is None:
        with_text = sample.is_free(spec)
    require_space(folder, 2 * source.weights.stat().st_size, "the bundle")
    with writing_folder(folder) as partial:
        bundle = ModelFolder(partial)
        bundle.spec_file.write_text(spec.yaml(__version__), encoding="utf-8")
        translator.vocabulary.save(partial)
        read.write(bundle.weights)
        taken = sample.sampled(translator, report) if with_text else None
        pairs = _pairs(texts(spec, "dev", report, translator.vocabulary) if with_text else ((), ()), translator)
        _complete(bundle, facts_of(spec, source, read), read, translator, pairs, source.known_scores, taken)
        del translator  # so that two of the model are never in memory
        _verify(partial, report)
    return folder


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
    if ModelFolder(folder).published and not replace:
        hint = "`--replace` puts this one in its place; `--name NAME` puts it beside that one"
        raise ZooError(f"there is a published model `{name}` already: `{folder}`", hint=hint)
    with writing_folder(folder) as partial:
        bundle = ModelFolder(partial)
        known = fill(bundle)
        translator = open_model(partial, **_PLAIN, report=report)
        _complete(bundle, known, Weights({}), translator, _own_pairs(translator), {})
        del translator  # so that two of the model are never in memory
        _verify(partial, report)
    return folder


def _complete(
    bundle: ModelFolder,
    known: Facts,
    read: Weights,
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    scores: dict[str, Any],
    taken: Sample | None = None,
) -> None:
    """All but spec, vocabulary and weights; the manifest last."""
    proof.prove(translator.program, translator.vocabulary, pairs).write(bundle.folder / proof.NAME)
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


def verify(name: str | os.PathLike[str], *, backend: str | None = None, report: Report | None = None) -> Verified:
    """Checks a published model's files against its manifest, its log-probabilities and its score against its own.

    They are computed in float32: on the processor by the plainest code, or by this `backend` (`auto`, or one that
    `zoo doctor` lists) on the device that this machine has. `name` may be the folder of a model. Raises ZooError where
    there is no such model, where a file is not as it was published, where a log-probability differs by more than
    `proof.TOLERANCE`, or the score of its sample, if it has one, by more than `sample.TOLERANCE`.
    """
    how: How = _PLAIN if backend is None else {"device": "auto", "precision": "float32", "backend": backend}
    report = report or Report()
    return _verify(find.published(name, report), report, how)


def _verify(folder: Path, report: Report, how: How = _PLAIN) -> Verified:
    listed = manifest.read(folder)
    names = {*listed.entries, *FILES}
    manifest.check(folder, sorted(names))
    facts.read(listed)
    taken = sample.read(listed)
    translator = open_model(folder, **how, report=report)
    proved = proof.read(folder / proof.NAME, translator.spec)
    difference = proved.check(translator.program, translator.device)
    found = sample.reproduced(taken, translator) if taken else None
    return Verified(len(names), len(proved.source), difference, found, translator.backend)


def _pairs(dev: tuple[Sequence[str], Sequence[str]], translator: Translator) -> list[tuple[str, str]]:
    """Of the dev set; where it has none that is short enough, sentences that the model itself translates."""
    pairs = [
        (source, target)
        for source, target in zip(*dev, strict=True)
        if _is_short(source, "source", translator) and _is_short(target, "target", translator)
    ]
    return pairs[:_PAIRS] or _own_pairs(translator)


def _own_pairs(translator: Translator) -> list[tuple[str, str]]:
    """Sentences, and how the model itself translates them."""
    sources = [sentence for sentence in _SENTENCES if _is_short(sentence, "source", translator)] or ["a"]
    targets = translator.translate(sources, search="beam", beam=1)
    # Of a model that does not end, to any text.
    short = (target if _is_short(target, "target", translator) else "a" for target in targets)
    return list(zip(sources, short, strict=True))


def _is_short(text: str, side: Side, translator: Translator) -> bool:
    """Whether the model has a position for each piece, and a proof of it stays small."""
    return 0 < len(translator.vocabulary.encode(text, side)) <= min(_LONGEST, translator.spec.corpus.max_length)
