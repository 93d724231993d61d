"""What a person means by `--spec SPEC`, by `--model NAME|RUN` and by RUN."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import specs
from specs import Spec, ZooError, nearest
from specs.history import NewerFormatError
from zoo.files import places
from zoo.files.partial import begun
from zoo.models.folder import BASIS, RUNS, SPEC, ModelFolder
from zoo.models.identity import Differing, differing, told
from zoo.models.names import forwarded, here, names, place
from zoo.models.pull import looked, pull, there
from zoo.models.registries.listed import registries, unasked
from zoo.models.registries.reference import Reference
from zoo.models.registries.reference import reference as parsed
from zoo.report import Report
from zoo.report import WarningsReport

_YAML = (".yaml", ".yml")


def chosen(of: str | None, name: str | None, report: Report | None = None) -> Path:
    """The folder that exactly one of `--spec` and `--model` names. Raises ZooError for none or both of them."""
    if of is not None and name is None:
        return of_spec(of)
    if name is not None and of is None:
        return model(name, report)
    problem = "nothing says which model is meant" if of is None else "`--spec` and `--model` are both given"
    raise ZooError(problem, hint="say either `--spec SPEC` or `--model NAME|RUN`; `zoo list` shows what there is")


def all_chosen(of: str | None, several: Sequence[str] | None, report: Report | None = None) -> list[Path]:
    """The same, where `--model` may be given several times."""
    return [chosen(of, name, report) for name in several or (None,)]


def of_spec(reference: str) -> Path:
    """The newest run of a spec that has weights, else the published model of its name, if it is of the spec.

    Raises ZooError, with the places looked at and the commands that would make one, where there is neither; with the
    fields that differ, where one is called like it and is of another spec.
    """
    spec = specs.load(reference)
    trained = [run for run in runs_of(spec) if run.trained]
    if trained:
        return max(trained, key=lambda run: run.weights.stat().st_mtime_ns).folder
    published, default = ModelFolder(place(spec.name)), ModelFolder.default(spec)
    if published.published and _is_of(published, spec):
        return published.folder
    if default.exists and _is_of(default, spec):
        return _trained(default)
    for called in (default, published):
        if called.exists and not _is_of(called, spec):
            raise _another(called, reference, _differing(called, spec))
    raise ZooError(
        f"there is no trained model of `{reference}`: the run `{default.folder}` is not there, no other run in "
        f"`{RUNS}` is of this spec, and `{published.folder}` is not there{_newer()}",
        hint=f"`zoo train {reference}` trains it; then `zoo publish {spec.short_name}` would put it on the shelf",
    )


def model(reference: str | os.PathLike[str], report: Report | None = None) -> Path:
    """The folder of a run or bundle at this path, else the published model of this name, else the run of this spec.

    A published model may be pinned (`NAME@2`, `NAME@sha256:...`). What is nowhere here is pulled from the registries.
    Raises ZooError, with the places looked at, where there is none of them, where the run has no weights yet, and as
    `pull` does.
    """
    name, report = os.fspath(reference), report or WarningsReport()
    looked_at = [Path(name)]
    if ModelFolder(looked_at[0]).exists:
        return _trained(ModelFolder(looked_at[0]))
    wanted = parsed(name)
    if wanted is not None:
        looked_at.append(_place(wanted))
        if (folder := _on_shelf(wanted, report)) is not None:
            return folder
    if (of_name := _run_called(name)) is not None:
        looked_at.append(of_name.folder)
        if of_name.exists:
            return _trained(of_name)
    if wanted is not None and (pulled := pull(wanted, report)) is not None:
        return pulled
    known = [*names(), *_short_names(), *([] if wanted is None else there())]
    raise missing("model", name, looked_at, known, "" if wanted is None else looked(wanted))


def published(reference: str | os.PathLike[str], report: Report | None = None) -> Path:
    """The bundle in this folder, else the published model of this name, pulled where it is not here.

    Raises ZooError where there is none of them, and as `pull` does.
    """
    report = report or WarningsReport()
    found, wanted = on_shelf(reference, report), parsed(os.fspath(reference))
    if found is None and wanted is not None:
        found = pull(wanted, report)
    if found is None:
        raise unpublished(reference, "" if wanted is None else looked(wanted))
    return found


def on_shelf(reference: str | os.PathLike[str], report: Report | None = None) -> Path | None:
    """The same of what is here; None where it is not."""
    name = os.fspath(reference)
    wanted = parsed(name)
    if ModelFolder(Path(name)).published:
        return Path(name)
    return None if wanted is None else _on_shelf(wanted, report or WarningsReport())


def pulled(reference: str, report: Report) -> Path:
    """What registries have of a name, though an older revision is here. Raises ZooError where none has it."""
    if not registries() and not unasked():
        hint = (
            f"write addresses (a folder, https://, s3://, hf://) into ZOO_REGISTRIES, or into `{places.registries()}`"
        )
        raise ZooError(f"`{reference}` cannot be pulled: no registry is named", hint=hint)
    wanted = parsed(reference)
    found = None if wanted is None else pull(wanted, report)
    if found is None:
        raise unpublished(reference, "" if wanted is None else looked(wanted))
    return found


def unpublished(reference: str | os.PathLike[str], further: str = "") -> ZooError:
    """The error for what is no published model, though it was looked for on the shelf, and in `further` places."""
    name = os.fspath(reference)
    wanted = parsed(name)
    looked_at, known = [Path(name)], names()
    if wanted is not None:
        looked_at, known = [*looked_at, _place(wanted)], [*known, *(there() if further else ())]
    return missing("published model", name, looked_at, known, further)


def _on_shelf(wanted: Reference, report: Report) -> Path | None:
    """What is meant, if it stands there; an old name leads to the new one, if it did when it was pulled."""
    folder = here(wanted)
    if folder is None and not wanted.pinned and (new := forwarded(wanted.name)) is not None:
        folder = here(Reference(new))
        if folder is not None:
            report.warn(f"`{wanted.name}` is called `{new}` now: write that name")
    return folder


def _place(wanted: Reference) -> Path:
    return place(wanted.name).with_name(str(wanted))


def own_run(reference: str | os.PathLike[str]) -> Path | None:
    """The run whose own spec this file is, which it wrote itself; None for any other reference to a spec."""
    file = Path(reference)
    begun = file.name == SPEC and file.with_name(BASIS).is_file() and not ModelFolder(file.parent).published
    return file.parent if begun else None


def run(reference: str | os.PathLike[str]) -> Path:
    """The run in this folder, else the one of this spec. Raises ZooError, with the places, where there is neither."""
    name = os.fspath(reference)
    found = [ModelFolder(Path(name))]
    if (of_name := _run_called(name)) is not None:
        found.append(of_name)
    for each in found:
        if each.exists and not each.published:
            return each.folder
    raise missing("run", name, [each.folder for each in found], _short_names())


def runs_of(spec: Spec) -> list[ModelFolder]:
    """The runs of a spec under `runs/`, whatever they are called: those of its name, network, tokens and corpus.

    A name alone may be inherited with `extends`, and a folder is called like any spec of that file name: either would
    mix up the models of two specs.
    """
    return [run for run in map(ModelFolder, all_runs()) if _is_of(run, spec)]


def all_runs(root: Path = RUNS) -> list[Path]:
    """Folders of runs under `runs/`, or another folder, in order of their names; what is half removed is none."""
    found = (file.parent for file in root.rglob(SPEC)) if root.is_dir() else ()
    return sorted(folder for folder in found if not any(map(begun, folder.parts)))


def _is_of(model: ModelFolder, spec: Spec) -> bool:
    """A model whose spec cannot be read is nobody's."""
    try:
        return not _differing(model, spec)
    except ZooError:
        return False


def _newer() -> str:
    """What is said of runs that a newer zoo wrote: any of them could be the one."""
    found = []
    for run in map(ModelFolder, all_runs()):
        try:
            _ = run.spec
        except NewerFormatError as error:
            found.append(f"; {error.summary}")
        except ZooError:
            continue
    return "".join(found)


def _differing(model: ModelFolder, spec: Spec) -> Differing:
    return differing(model.spec, spec)


def _another(model: ModelFolder, reference: str, fields: Differing) -> ZooError:
    return ZooError(
        f"`{model.folder}` is of another spec than `{reference}`:{told(fields, f'in `{reference}`', 'there')}",
        hint=f"`{model.folder}` in place of `{reference}` means it all the same (with `--model`, where there is such "
        f"an option); `zoo train {reference} --run DIR` trains this one",
    )


def _run_called(name: str) -> ModelFolder | None:
    """The place of the run that a spec has by default, by its short name or its file; None for what names no spec.

    Raises ZooError where a file is named, and the run there is of another spec.
    """
    of_file = specs.load(name) if name.endswith(_YAML) else None
    path = Path((of_file.short_name if of_file else name).removeprefix("specs/"))
    if path.is_absolute() or ".." in path.parts or path == Path():
        return None
    run = ModelFolder(RUNS / path)
    if of_file and run.exists and (fields := _differing(run, of_file)):
        raise _another(run, name, fields)
    return run


def _trained(run: ModelFolder) -> Path:
    if run.trained:
        return run.folder
    problem = f"`{run.folder}` has no weights yet"
    if run.checkpoints.is_dir() and any(run.checkpoints.iterdir()):
        raise ZooError(problem, hint=f"`zoo average {run.folder}` makes them of its checkpoints, `zoo train` goes on")
    raise ZooError(problem, hint=f"`zoo train {run.spec_file}` goes on with it")


_MAKES = {
    "model": "`zoo train SPEC` trains a model",
    "run": "`zoo train SPEC` begins one",
    "published model": "`zoo publish RUN` puts a model there",
}


def _short_names() -> list[str]:
    return [folder.relative_to(RUNS).as_posix() for folder in all_runs()]


def missing(what: str, name: str, looked: Sequence[Path], known: Sequence[str], further: str = "") -> ZooError:
    """The error for a name that leads nowhere: the places looked at and `further` ones, the nearest name known."""
    near = next((each for each in known if len(name) > 2 and name in each), None) or nearest(name, known)
    places = " and ".join(f"`{each}`" for each in dict.fromkeys(looked))
    guess = f"did you mean `{near}`? " if near else ""
    return ZooError(
        f"there is no {what} `{name}`: looked for {places}{further}",
        hint=f"{guess}`zoo list{' --published' * (what == 'published model')}` shows what there is; {_MAKES[what]}",
    )
