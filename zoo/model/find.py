"""What a person means by `--spec SPEC`, by `--model NAME|RUN` and by RUN."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import specs
from specs import Spec, ZooError, nearest
from specs.history import NewerFormat
from zoo.model.folder import BASIS, RUNS, SPEC, ModelFolder
from zoo.model.identity import Differing, differing, told
from zoo.model.names import is_name, names, place
from zoo.storage.partial import begun

_YAML = (".yaml", ".yml")


def chosen(of: str | None, name: str | None) -> Path:
    """The folder that exactly one of `--spec` and `--model` names. Raises ZooError for none or both of them."""
    if of is not None and name is None:
        return of_spec(of)
    if name is not None and of is None:
        return model(name)
    problem = "nothing says which model is meant" if of is None else "`--spec` and `--model` are both given"
    raise ZooError(problem, hint="say either `--spec SPEC` or `--model NAME|RUN`; `zoo list` shows what there is")


def all_chosen(of: str | None, several: Sequence[str] | None) -> list[Path]:
    """The same, where `--model` may be given several times."""
    return [chosen(of, name) for name in several or (None,)]


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
        hint=f"`zoo train {reference}` trains it; then `zoo publish {spec.short}` would put it on the shelf",
    )


def model(reference: str | os.PathLike[str]) -> Path:
    """The folder of a run or bundle at this path, else the published model of this name, else the run of this spec.

    Raises ZooError, with the places looked at, where there is none of them, or where the run has no weights yet.
    """
    name = os.fspath(reference)
    looked = [Path(name)]
    if ModelFolder(looked[0]).exists:
        return _trained(ModelFolder(looked[0]))
    if is_name(name):
        looked.append(place(name))
        if ModelFolder(looked[-1]).published:
            return looked[-1]
    if (of_name := _run_called(name)) is not None:
        looked.append(of_name.folder)
        if of_name.exists:
            return _trained(of_name)
    raise missing("model", name, looked, [*names(), *_short_names()])


def published(reference: str | os.PathLike[str]) -> Path:
    """The bundle in this folder, else the published model of this name. Raises ZooError where there is neither."""
    name = os.fspath(reference)
    looked = [Path(name), *([place(name)] if is_name(name) else [])]
    for each in looked:
        if ModelFolder(each).published:
            return each
    raise missing("published model", name, looked, names())


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
    """The runs of a spec under `runs/`, whatever they are called: those of its name, network, pieces and corpus.

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
        except NewerFormat as error:
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
    path = Path((of_file.short if of_file else name).removeprefix("specs/"))
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


def missing(what: str, name: str, looked: Sequence[Path], known: Sequence[str]) -> ZooError:
    """The error for a name that leads nowhere: the places looked at, the nearest name that is known."""
    near = next((each for each in known if len(name) > 2 and name in each), None) or nearest(name, known)
    places = " and ".join(f"`{each}`" for each in dict.fromkeys(looked))
    guess = f"did you mean `{near}`? " if near else ""
    return ZooError(
        f"there is no {what} `{name}`: looked for {places}",
        hint=f"{guess}`zoo list` shows what there is; {_MAKES[what]}",
    )
