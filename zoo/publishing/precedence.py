"""Which published model gives way by itself: the same training, not so far on. Any other has to be replaced by word."""

from __future__ import annotations

from specs import ZooError
from zoo.files.content import stands
from zoo.files.files import read_json
from zoo.models import weights
from zoo.models.folder import ModelFolder
from zoo.models.identity import differing, told
from zoo.models.weights import Weights
from zoo.training.run import CHANGEABLE_FIELDS, Run

_OF_A_TRAINING = ("architecture", "vocabulary", "corpus", "training")


def require_own_name(run: Run) -> None:
    """Raises ZooError where the name in a run's spec is that of the spec it extends, and so another model's."""
    if stands(run.data) and read_json(run.data).get("named") is False:
        raise ZooError(
            f"the spec of `{run.folder}` says no name of its own: `{run.spec.name}` is that of the spec it extends",
            hint="publish it with `--name NAME`, and write `name:` in the spec for the next training",
        )


def require_precedence(run: Run, read: Weights, bundle: ModelFolder) -> None:
    """Raises ZooError, with what differs, where `bundle` is there and not an earlier state of this run's training.

    It is one where its spec has the same network, vocabulary, corpus and recipe, its tokens are the same, and its
    weights are of no later step, nor others of the same steps.
    """
    if not bundle.published:
        return
    try:
        fields = differing(run.spec, bundle.spec, _OF_A_TRAINING, CHANGEABLE_FIELDS)
        facts = weights.read_facts(bundle.weights)
    except ZooError as error:
        reason = f"cannot be read: {error.summary}"
    else:
        reason = f"is of another run:{told(fields, 'there', 'here')}" if fields else _later(Weights({}, facts), read)
    if reason:
        raise ZooError(
            f"the published model `{bundle.folder}` {reason}",
            hint="`--replace` puts this run in its place; `--name NAME` publishes it beside that one",
        )


def _later(there: Weights, here: Weights) -> str:
    """Why weights of one recipe are still not those of an earlier state; nothing where they may be."""
    if not weights.same_vocabulary(there.facts, here.facts):
        return "is of another run: it has another vocabulary"
    if there.last_step is None or here.last_step is None:
        return "is of another run, for all that its weights say"
    if there.last_step > here.last_step:
        return f"is of another run: its weights are of step {there.last_step:,}, and these of step {here.last_step:,}"
    digests = {there.digest, here.digest} - {None}
    if there.facts["steps"] == here.facts["steps"] and len(digests) == 2:
        return "is of another run: it has other weights of the same steps"
    return ""
