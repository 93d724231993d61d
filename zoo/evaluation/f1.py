"""F1 of labelled brackets, of trees that are written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs import ZooError
from zoo.evaluation.evalb.brackets import brackets
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tree import Tree

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers

DETAILS = {"recall": "recall", "precision": "precision", "complete_match": "complete match"}


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it: in points, with the signature of what was computed.

    A parser's words are those of the reference, and so are their tags here: a sentence of which it takes the full stop
    for a noun is in error for EVALB, which leaves it out, and a parser of few tags would be scored by its easiest
    sentences. An output that is no tree is an error, as `brackets` counts it. Raises ZooError for a reference that is
    none.
    """
    trees = [_tree(text) for text in answers.outputs]
    found = brackets(trees, [read_tree(text) for text in answers.references], own_tags=False)
    return {"f1": found.f1, **{name: getattr(found, name) for name in DETAILS}, "signature": found.signature}


def _tree(text: str) -> Tree | None:
    try:
        return read_tree(text)
    except ZooError:
        return None
