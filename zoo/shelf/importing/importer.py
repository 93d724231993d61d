"""`zoo import`: from a foreign model to a bundle on the shelf."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from compiler import TRANSLATE, Purpose, lower
from compiler.graph import stored
from compiler.weights import check
from specs import ZooError
from zoo.model.names import is_name
from zoo.model.weights import Weights
from zoo.report import Report
from zoo.shelf.importing import hub
from zoo.shelf.importing.comparison import Comparison, compared
from zoo.shelf.importing.formats import format_of
from zoo.shelf.importing.imported import Imported, Positions, Wanted
from zoo.shelf.publish import shelve
from zoo.text.lines import read_lines
from zoo.translation.building import built
from zoo.translation.opening import How
from zoo.translation.translator import Translator

IMPORTED = "imported."
"""What the facts of weights begin with that say where they were imported from."""


@dataclass(frozen=True)
class Choice:
    """What may be said of an import; what is left out is as the files say."""

    name: str | None = None
    format: str | None = None
    languages: tuple[str, str] | None = None
    positions: Positions | None = None
    check: Path | None = None
    replace: bool = False


@dataclass(frozen=True)
class Done:
    """The bundle, what was read, and how it compared with its engine, if it was asked to."""

    folder: Path
    imported: Imported
    comparison: Comparison | None


def import_model(source: str, choice: Choice, report: Report) -> Done:
    """Writes the bundle of the model in this file, folder or `hf:ORG/NAME` onto the shelf.

    Raises ZooError where it is of no known format, says what a spec cannot, or is damaged; where the name is none or
    taken; and, where it is to be checked, where the engine is not installed or computes something else. Nothing is
    written then.
    """
    place = hub.fetched(source, report) if hub.is_on_hub(source) else Path(source)
    name = choice.name or _name(source)
    if not is_name(name):
        hint = "`--name NAME`: letters, digits and - _ . , only, a letter or digit first"
        raise ZooError(f"`{name}` cannot be the name of a model", hint=hint)
    of = format_of(place, choice.format)
    texts = [line for line in read_lines(choice.check) if line.strip()] if choice.check else []
    if choice.check and not texts:
        raise ZooError(f"`{choice.check}` has no sentence to check with")
    imported = of.read(place, Wanted(name, choice.languages, choice.positions))
    imported = replace(imported, origin={**imported.origin, "source": source if hub.is_on_hub(source) else place.name})
    for note in imported.notes:
        report.say(f"note: {note}")
    comparison = compared(of, place, imported, texts, report) if texts else None
    facts = {f"{IMPORTED}{key}": said for key, said in imported.origin.items()}
    if comparison:
        facts[f"{IMPORTED}check"] = comparison.summary
    translator = _translator(imported, report)
    folder = shelve(translator, Weights(imported.tensors, facts), texts=texts, replace=choice.replace, report=report)
    return Done(folder, imported, comparison)


def _translator(imported: Imported, report: Report) -> Translator:
    """As the bundle will be opened to prove it."""
    check(imported.tensors, stored([lower(imported.spec, Purpose.SCORE)]), imported.spec.name)
    program = built(imported.spec, TRANSLATE, imported.tensors, report, **_PLAIN)
    return Translator(program, imported.vocabulary, imported.spec, report=report)


def _name(source: str) -> str:
    """That of its file or folder, without what no name has."""
    last = Path(source.removeprefix(hub.PREFIX).partition("@")[0]).name
    stem = re.sub(r"\.(npz|pt|bin|decoder\.yml|yml)$", "", last)
    return re.sub(r"[^-_,.A-Za-z0-9]+", "-", stem).strip("-.")


_PLAIN: How = {"device": "cpu", "precision": "float32", "backend": "eager"}  # what every machine has, and exact
