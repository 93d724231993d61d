"""`training.start_from`: the model whose weights and vocabulary a training begins with."""

from __future__ import annotations

from specs import Spec, ZooError
from zoo.data.prepare import Prepared, prepare
from zoo.models import find
from zoo.models.loading import Model, read_model
from zoo.report import Report


def first_model(spec: Spec, report: Report | None = None) -> Model | None:
    """The model to start from; None where the spec names none.

    Raises ZooError where it is not there, is damaged, or differs from the spec in task, weights or vocabulary.
    """
    name = spec.training.start_from
    if name is None:
        return None
    model = read_model(find.model(name, report))
    differing = [
        f"\n  {section}.{key}: {there} there, {here} here"
        for section in ("task", "architecture", "vocabulary")
        for key, here in getattr(spec, section).model_dump().items()
        if (there := getattr(model.spec, section).model_dump().get(key)) != here and key not in _FREE
    ]
    if differing:
        hint = "take the values of that model: its weights and tokens are what this training starts with"
        raise ZooError(f"`training.start_from: {name}` is another model:{''.join(differing)}", hint=hint)
    return model


def prepared_for(spec: Spec, report: Report) -> Prepared:
    """The spec's prepared corpus, as its training will want it. Raises ZooError as `prepare` and `first_model` do."""
    model = first_model(spec, report)
    return prepare(spec, report, model.vocabulary if model else None)


_FREE = {"constrained", "dropout", "attention_dropout", "activation_dropout", "initial_weights"}
"""What a training may have otherwise than the one that made the weights."""
