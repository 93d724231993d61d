"""`training.start_from`: the model whose weights and vocabulary a training run starts with."""

from __future__ import annotations

from typing import Any, cast

from specs import Spec, ZooError
from zoo.data.prepare import prepare
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.models import find
from zoo.models.loading import Model, read_model
from zoo.report import Report
from zoo.training.synthetic import write_missing


def initial_model(spec: Spec, report: Report) -> Model | None:
    """Load the model that `training.start_from` specifies. Return None if training starts from random weights.

    Raises:
        ZooError: The model does not exist or is damaged, or its task, architecture or vocabulary does not match the
            spec.
    """
    name = spec.training.start_from
    if name is None:
        return None
    model = read_model(find.model(name, report))
    differing = [
        f"\n  {section}.{key}: {theirs} in the model, {ours} in the spec"
        for section in ("task", "architecture", "vocabulary")
        for key, ours in _fields(spec, section).items()
        if (theirs := _fields(model.spec, section).get(key)) != ours
    ]
    if differing:
        hint = "set these fields to the model's values, because training starts with the model's weights and tokens"
        raise ZooError(f"`training.start_from: {name}` does not match the spec:{''.join(differing)}", hint=hint)
    theirs, ours = ((each.corpus.source, each.corpus.target) for each in (model.spec, spec))
    if theirs != ours:
        directions = f"translates from {' to '.join(theirs)}, but the spec translates from {' to '.join(ours)}"
        report.warn(f"`training.start_from: {name}` {directions}")
    return model


def prepare_corpus(spec: Spec, report: Report) -> PreparedCorpus:
    """Generate any missing synthetic text in a spec's corpus, then prepare the corpus for training.

    Raises:
        ZooError: The same errors as in `write_missing`, `prepare` and `initial_model`.
    """
    model = initial_model(spec, report)
    complete, _ = write_missing(spec, report)
    return prepare(complete, report, model.vocabulary if model else None)


def _fields(spec: Spec, section: str) -> dict[str, Any]:
    """Return the fields in a section of a spec that must match the model that training starts from."""
    may_differ = {"constrained", "dropout", "attention_dropout", "activation_dropout", "initial_weights"}
    augmentation = spec.task.features.augmentation if spec.task.features else ()
    excluded: dict[str, Any] = dict.fromkeys(may_differ, True) | {"source": {*augmentation}}
    excluded |= {stack: {"__all__": {"radius"}} for stack in ("encoder", "decoder")}
    return cast(dict[str, Any], getattr(spec, section).model_dump(exclude=excluded))
