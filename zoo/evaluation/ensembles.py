"""Several runs scored as one, by the mean of their probabilities: kept beside the first of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from specs import ZooError
from zoo.data.parallel import Split
from zoo.evaluation.answers import Answers
from zoo.evaluation.evaluate import scored
from zoo.evaluation.own_sets import split_named, texts, unchanged
from zoo.evaluation.scores import Scores
from zoo.files.atomic import write_json
from zoo.files.reading import file_exists, read_json
from zoo.generation.opening import How, open_model
from zoo.generation.translator import Translator
from zoo.models.folder import ModelFolder, differing_fields
from zoo.models.weights import known_digest
from zoo.report import Report

FILE = "ensembles.json"


@dataclass(frozen=True)
class KeptEnsemble:
    """Folders of its runs, in the order in which they were named, and its scores by set."""

    members: tuple[Path, ...]
    scores: Mapping[str, Any]


def evaluate_ensemble(
    folders: Sequence[Path], split: str, *, tokens: int | None = None, report: Report | None = None, **how: Unpack[How]
) -> Scores:
    """Scores of the ensemble of models on "dev" or "test" of the first, by its beam and penalty.

    Those of runs in float32 are kept beside the first. Raises ZooError where models do not belong together (other
    vocabularies, another such set), and as `evaluate_model` does.
    """
    known, report = split_named(split), report or Report()
    of = [ModelFolder(folder) for folder in folders]
    _read(of[0].folder / FILE)  # damage is told before the work
    digests = [known_digest(each.weights) for each in of]
    models = [open_model(each.folder, tokens=tokens, report=report, **how) for each in of]
    together = type(models[0]).ensemble(models)
    sources, references = _set_of_all(of, models, known, report)
    scores = scored(Answers(together, sources, references, report), together.spec.task)
    exact = all((how.get("precision") or each.spec.compilation.precision) == "float32" for each in models)
    same = (unchanged(each, digest, report) for each, digest in zip(of, digests, strict=True))
    if exact and not any(each.published for each in of) and all(same):
        _keep(of, digests, known, scores)
    return scores


def ensembles(folder: Path) -> Iterator[KeptEnsemble]:
    """Those kept beside a run whose weights are all what they were. Raises ZooError where the file is damaged."""
    file = folder / FILE
    for kept in _read(file):
        there = [Path(os.path.normpath(folder / member["run"])) for member in kept["members"]]
        if [known_digest(ModelFolder(run).weights) for run in there] == [m["digest"] for m in kept["members"]]:
            yield KeptEnsemble(tuple(there), kept["scores"])


def _set_of_all(
    of: Sequence[ModelFolder], models: Sequence[Translator], split: Split, report: Report
) -> tuple[list[str], list[str]]:
    """The sentences that all are to be scored on. Else what one is asked, another may have learned."""
    first, *others = models
    found = texts(first.spec, split, report, first.vocabulary)
    for other, folder in zip(others, of[1:], strict=True):
        known = not differing_fields(other.spec, first.spec, ["corpus"])
        if not known and texts(other.spec, split, report, other.vocabulary) != found:
            raise ZooError(
                f"the {split} sets of `{of[0].folder}` and `{folder.folder}` are not the same",
                hint=f"an ensemble is scored on the set of all its models: see `corpus.{split}` in their specs",
            )
    return found


def _keep(of: Sequence[ModelFolder], digests: Sequence[str | None], split: str, scores: Scores) -> None:
    """In place of what the same weights had on this set."""
    file = of[0].folder / FILE
    members = [
        {"run": Path(os.path.relpath(each.folder, of[0].folder)).as_posix(), "digest": digest}
        for each, digest in zip(of, digests, strict=True)
    ]
    before = _read(file)
    known: dict[str, Any] = next((each["scores"] for each in before if each["members"] == members), {})
    others = [each for each in before if [m["run"] for m in each["members"]] != [m["run"] for m in members]]
    write_json(file, {"ensembles": [*others, {"members": members, "scores": {**known, split: scores}}]})


def _read(file: Path) -> list[dict[str, Any]]:
    """Each with `members`, a `run` and a `digest` of each, and `scores`; none where there is no file."""
    try:
        kept = list(read_json(file)["ensembles"]) if file_exists(file) else []
        if all({"run", "digest"} == set(member) for each in kept if each["scores"] for member in each["members"]):
            return kept
    except (KeyError, TypeError, ValueError):
        pass
    hint = "remove it: `zoo evaluate --model RUN --model RUN` writes it anew"
    raise ZooError(f"`{file}` is damaged: it does not say enough", hint=hint, exit_code=1)
