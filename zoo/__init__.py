"""Everything in "Attention Is All You Need" as a declarative, graph-compiled model zoo.

    import zoo

    translator = zoo.load("transformer-tiny-ende")
    translator.translate("the old dog sees a small house")

Importing `zoo` loads no torch; what needs it loads it on first use. Where another package stands under the name of one
of zoo's own (`specs`, `compiler`), the first use raises ImportError, which says what stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zoo.models as _room  # noqa: F401  (first: whoever imports it later would put it in the place of the function)
from zoo.entry_point import require_neighbours
from zoo.version import __version__ as __version__

if TYPE_CHECKING:
    from compiler import EmittedProgram
    from specs import Spec, ZooError
    from zoo.generation.translator import Translator
    from zoo.models.describe import Description, describe
    from zoo.models.local_store import names
    from zoo.training.run import Run

__all__ = ["Description", "Spec", "Translator", "ZooError", "describe", "load", "model", "names", "spec", "train"]

_LATER = {
    "Spec": "specs",
    "ZooError": "specs",
    "names": "zoo.models.local_store",
    "Description": "zoo.models.describe",
    "describe": "zoo.models.describe",
    "Translator": "zoo.generation.translator",
}


def spec(reference: str | PathLike[str], overrides: Sequence[str] | Mapping[str, object] = ()) -> Spec:
    """A spec by name ("base") or path, with fields set: ["architecture.h=4"] or {"architecture": {"h": 4}}.

    Raises ZooError, with the place and the remedy, where it cannot be read or is not valid.
    """
    made: Spec = _ours("specs").load(reference, overrides)
    return made


def load(
    name: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    tokens: int | None = None,
) -> Translator:
    """A translator from a published model's name, from a run's folder, or from the name of a spec that has a run.

    A name may be pinned to a revision (`NAME@2`, `NAME@sha256:...`); what is not here is pulled from the registries,
    unless ZOO_OFFLINE=1. Several names of models of one vocabulary are an ensemble. `device` is auto, cpu, cuda or
    cuda:N; `precision` (float32, bfloat16, int8) and `backend` (auto, or one that `zoo doctor` lists) are the spec's
    where they are not given; `tokens` is the budget of one batch in source tokens. What is worth a warning comes by
    Python's `warnings`. Weights are memory-mapped, and what is published is never written in place: whoever else writes
    over their file changes the translations of this process, or ends it. Raises ZooError where there is no such model,
    or where a file of it is damaged.
    """
    bundle, find = _ours("zoo.generation.opening"), _ours("zoo.models.find")
    report = _ours("zoo.report").Shown()
    how = {"device": device, "precision": precision, "backend": backend, "tokens": tokens}
    if backend is not None:
        _ours("compiler.backends").require_known(backend)  # before a model that is not there is told
    wanted = [name] if isinstance(name, str | PathLike) else name
    opened: list[Translator] = [bundle.open_model(find.model(each, report), **how) for each in wanted]
    if not opened:
        raise _ours("specs").ZooError(
            "there is no model to load: the list is empty", hint="`zoo.names()` are the published ones"
        )
    return opened[0] if len(opened) == 1 else type(opened[0]).ensemble(opened)


def train(
    spec: Spec | str | PathLike[str],
    *,
    run: str | PathLike[str] | None = None,
    fresh: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> Run:
    """Trains by a spec, or by the one of this name or path, in the folder `run` (else `runs/SPEC`); returns the run.

    It goes on from where that run is; with `fresh` what the run holds is removed first. Lines on stderr say how far it
    is, unless it is to be `quiet`. At the end the last checkpoints are averaged and the dev set is scored. Raises
    ZooError as `zoo.training.train.train` does.
    """
    training, reports = _ours("zoo.training.train"), _ours("zoo.report")
    report = reports.Library() if quiet else reports.Shown()
    own = _ours("zoo.models.find").run_of_spec_file(spec) if isinstance(spec, str | PathLike) else None
    done: Run = training.train(
        _spec(spec), run=Path(run) if run is not None else own, fresh=fresh, device=device, report=report
    )
    return done


def model(spec: Spec | str | PathLike[str], *, device: str = "cpu") -> EmittedProgram:
    """A plain torch.nn.Module with the weights of before training, for a loop of one's own; `spec` as in `train`.

    `model(source, target)` gives the summed losses of a batch and its number of tokens; `model.weights()` is what a
    weights file holds. Raises ZooError where the memory is less than a training needs.
    """
    compiler = _ours("compiler")
    purposes = [compiler.Purpose.TRAIN, *compiler.TRANSLATE]
    wanted = _spec(spec)
    _ours("zoo.planning.room").require_to_train(wanted, device)
    made: EmittedProgram = compiler.trainable(wanted, purposes, device=device)
    return made


def _spec(given: Spec | str | PathLike[str]) -> Spec:
    return spec(given) if isinstance(given, str | PathLike) else given


def _ours(module: str) -> Any:
    """This module, imported once it is known that what it imports is zoo's own."""
    require_neighbours("specs", "compiler")
    return import_module(module)


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_ours(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
