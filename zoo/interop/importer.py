"""`zoo import`: from a foreign model to a bundle on the shelf."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import specs
from specs import ZooError
from zoo.files.storage import require_space
from zoo.interop import hub
from zoo.interop.comparison import Comparison, compared, require_engine
from zoo.interop.formats import format_of
from zoo.interop.huggingface.format import HuggingFaceMarian
from zoo.interop.imported import LANGUAGES, Format, Imported, Positions, Wanted, are_codes
from zoo.interop.licence import licence_of
from zoo.models.folder import ModelFolder
from zoo.models.registries.revision import is_name
from zoo.models.weights import Weights
from zoo.publishing.facts import Facts, facts_of_import
from zoo.publishing.publish import publish_imported
from zoo.report import Report
from zoo.text.lines import read_lines
from zoo.version import __version__

_FOREIGN = (
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""What may come of content that is not as its reader takes it to be."""
_SHOWN = 500  # characters of what a stranger's file may say


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
    """The bundle, and how it compared with its engine, if it was asked to."""

    folder: Path
    comparison: Comparison | None


def import_model(source: str, choice: Choice, report: Report) -> Done:
    """Writes the bundle of the model in this file, folder or `hf:ORG/NAME` onto the shelf.

    Raises ZooError where it is of no known format, says what a spec cannot, or is damaged; where the name is none or
    taken, or another choice cannot be; and, where it is to be checked, where the engine is not installed or computes
    something else. Nothing is written then.
    """
    if choice.languages and not are_codes(choice.languages):
        problem = f"`--languages {' '.join(choice.languages)}` are not two codes of languages"
        raise ZooError(problem, hint="write codes such as `en de`")
    place, called = _place(source, report), _called(source)
    name = choice.name or _name(called)
    if not is_name(name):
        hint = "`--name NAME`: letters, digits and - _ . , only, a letter or digit first"
        raise ZooError(f"`{name}` cannot be the name of a model", hint=hint)
    of, texts = format_of(place, choice.format), _texts(choice.check)
    if choice.positions and of.name != HuggingFaceMarian.name:
        problem = f"`--positions` is for {HuggingFaceMarian.name}, and this model is of {of.name}"
        raise ZooError(problem, hint="leave `--positions` out")
    if texts:
        require_engine(of)
    found: list[Comparison] = []

    def fill(bundle: ModelFolder) -> Facts:
        imported = _read(of, place, Wanted(name, choice.languages, choice.positions, called))
        for note in (*imported.notes, *_of_the_import(imported)):
            report.say(f"note: {note}")
        origin = {**imported.origin, "source": source if hub.is_on_hub(source) else called}
        if texts:
            found.append(compared(of, place, imported, texts, report))
            origin["check"] = found[0].summary
        spec = imported.spec.model_copy(update={"licence": licence_of(place)})
        _write(bundle, replace(imported, spec=spec))
        return facts_of_import(spec, origin, imported.notes)

    folder = publish_imported(name, fill, replace=choice.replace, report=report)
    return Done(folder, next(iter(found), None))


def _read(of: Format, place: Path, wanted: Wanted) -> Imported:
    """As the format reads it. What stands in a stranger's file, and nobody has thought of, is no fault of zoo."""
    try:
        return of.read(place, wanted)
    except ZooError:
        raise
    except _FOREIGN as error:
        told = next(iter(str(error).splitlines()), "")
        problem = f"`{place}` is not as {of.name}'s models are: {type(error).__name__}: {told}"[:_SHOWN]
        hint = "restore it from where it came from; if its own engine opens it, please report this with the file"
        raise ZooError(problem, hint=hint, exit_code=1) from error


def _place(source: str, report: Report) -> Path:
    if re.match(r"\w+://", source):
        problem = f"`{source}` is an address, and models are imported from files and folders"
        raise ZooError(problem, hint="download it first; `hf:ORG/NAME` is fetched")
    return hub.fetched(source, report) if hub.is_on_hub(source) else Path(source)


def _of_the_import(imported: Imported) -> Iterator[str]:
    """Notes to who imports it, that are nothing to readers of its card."""
    spec = imported.spec
    if (spec.corpus.source, spec.corpus.target) == LANGUAGES:
        yield "its languages are not known: `--languages en de` says them"
    if spec.name in specs.names():
        yield f"`{spec.name}` is a shipped spec, too: `--model {spec.name}` is this model, `--name` calls it otherwise"


def _write(bundle: ModelFolder, imported: Imported) -> None:
    """Spec, vocabulary and weights."""
    require_space(bundle.folder, sum(tensor.nbytes for tensor in imported.tensors.values()), "the bundle")
    bundle.spec_file.write_text(imported.spec.yaml(__version__), encoding="utf-8")
    imported.vocabulary.save(bundle.folder)
    Weights(imported.tensors).write(bundle.weights)


def _texts(file: Path | None) -> list[str]:
    if file is None:
        return []
    texts = [line for line in read_lines(file) if line.strip()]
    if not texts:
        raise ZooError(f"`{file}` has no sentence to check with")
    return texts


def _called(source: str) -> str:
    """ORG/NAME of a model of the Hub, else the name of its file or folder."""
    return hub.model_of(source) if hub.is_on_hub(source) else Path(source).absolute().name


def _name(called: str) -> str:
    """The last part of that, without what no name has."""
    stem = re.sub(r"\.(npz|pt|bin|decoder\.yml|yml)$", "", called.rpartition("/")[2])
    return re.sub(r"[^-_,.A-Za-z0-9]+", "-", stem).strip("-.")
