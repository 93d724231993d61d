"""How specs were written before: what was written stays readable, as each format is upgraded to the next.

An upgrade says what a file of the format before has always meant, in literal values: `base.yaml` may change, and what
was trained by it does not.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from specs.errors import ZooError
from specs.notation import shown
from specs.written import Written, given

FORMAT = 7
"""What is written today; raised with every change of a field that old files do not have or write otherwise."""
FIRST = 1
"""What was written while no file said its format."""
WITHOUT_TASK = {
    *("name", "description", "architecture", "vocabulary", "corpus", "training", "decoding", "compilation"),
}
"""What a whole file had before there were tasks."""
WRITTEN_BY = "# written by zoo "

_WRITER = re.compile(rf"{re.escape(WRITTEN_BY)}(\S+)\n")


class NewerFormat(ZooError):
    """The file is whole, and of a zoo that is newer than this one."""


def writer(text: str) -> str | None:
    """The version of zoo that wrote this text of a spec, where it says so."""
    found = _WRITER.match(text)
    return found[1] if found else None


def whole_without_task(written: Written) -> bool:
    """Whether a file has every section that there was before there were tasks, and no task."""
    return written.value.keys() >= WITHOUT_TASK and "task" not in written.value


def upgraded(written: Written, *, unsaid: int, by: str | None = None) -> Written:
    """A file's values as today's format has them, without its `format`; what an upgrade adds stands at its section.

    `unsaid` is the format of a file that says none, `by` the zoo that wrote it. Raises ZooError where the format is
    none, and NewerFormat where it is of a newer zoo.
    """
    values = dict(written.value)
    said = values.pop("format", None)
    written = replace(written, value=values)
    for number in range(unsaid if said is None else _number(said, by), FORMAT):
        written = UPGRADES[number](written)
    return written


def _number(said: Written, by: str | None) -> int:
    number, hint = said.value, f"write `format: {FORMAT}`, or leave it out"
    if isinstance(number, bool) or not isinstance(number, int):
        problem = f"`format` must be a whole number, not {shown(said.plain())}"
        raise ZooError(problem, where=said.where, hint=hint)
    if number < FIRST:
        raise ZooError(f"`format` must be at least {FIRST}, not {shown(number)}", where=said.where, hint=hint)
    if number > FORMAT:
        author = "a newer zoo" if by is None else f"zoo {by}"
        problem = (
            f"{author} wrote this, in format {shown(number)[1:-1]}, and this one reads formats {FIRST} to {FORMAT}"
        )
        raise NewerFormat(problem, where=said.where, hint="install a newer zoo")
    return number


def _sub_layers_are_written(written: Written) -> Written:
    """1 -> 2: a layer was the paper's, and some fields came while no file said its format."""
    return _with(
        written,
        {
            "architecture": {
                "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
                "decoder": [{"kind": "self_attention"}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
            },
            "training": {
                "max_tokens": None,
                "max_minutes": None,
                "dev_score": "perplexity",
                "patience": None,
                "clip_norm": None,
                "subword_regularization": None,
                "start_from": None,
            },
            "decoding": {
                "search": "beam",
                "beam": 4,
                "alpha": 0.6,
                "extra_length": 50,
                "temperature": 1.0,
                "top_k": 0,
                "top_p": 1.0,
                "workers": "auto",
            },
            "compilation": {
                "backend": "auto",
                "precision": "float32",
                "without": [],
                "vocabulary_multiple": 8,
            },
        },
    )


def _unknown_and_long_ones_are_said(written: Written) -> Written:
    """2 -> 3: characters without a token were unknown, and a source was translated whole, however long."""
    return _with(written, {"vocabulary": {"byte_fallback": False}, "decoding": {"max_source_length": 1024}})


def _tasks_are_written(written: Written) -> Written:
    """3 -> 4: every model translated, and both sides had as many tokens."""
    written = _with(written, {"vocabulary": {"target_size": None}})
    if not whole_without_task(written):
        return written
    return replace(written, value={"task": given({"kind": "translation"}, written.file), **written.value})


def _scores_of_attention_are_chosen(written: Written) -> Written:
    """4 -> 5: every attention was by scaled dot products, and nothing dropped out of the feed-forward network."""
    return _with(written, {"architecture": {"activation_dropout": 0.0, "attention_score": "scaled_dot_product"}})


def _traits_of_other_toolkits_are_chosen(written: Written) -> Written:
    """5 -> 6: every model was as the paper's in what other toolkits do otherwise, and so was every search."""
    return _with(
        written,
        {
            "architecture": {"activation": "relu", "first_position": 0, "output_bias": False},
            "vocabulary": {"separate_models": False},
            "decoding": {
                "length_penalty": "gnmt",
                "stopping_rule": "admissible",
                "length_factor": 1.0,
                "min_length": 0,
                "suppressed_tokens": [],
            },
        },
    )


def _licences_are_said(written: Written) -> Written:
    """6 -> 7: no file said under which licence the weights may be used."""
    if not written.value.keys() >= WITHOUT_TASK:
        return written
    return replace(written, value={"licence": given(None, written.file), **written.value})


Upgrade = Callable[[Written], Written]
UPGRADES: Mapping[int, Upgrade] = {
    1: _sub_layers_are_written,
    2: _unknown_and_long_ones_are_said,
    3: _tasks_are_written,
    4: _scores_of_attention_are_chosen,
    5: _traits_of_other_toolkits_are_chosen,
    6: _licences_are_said,
}
"""By the number of the format that each starts from."""


def _with(written: Written, later: Mapping[str, Mapping[str, object]]) -> Written:
    """The sections of a whole file with those of these fields that they lack, each at its section's place.

    A file that extends another lacks what it does not change.
    """
    if "extends" in written.value:
        return written
    values = dict(written.value)
    for name, fields in later.items():
        section = values.get(name)
        if section is not None and isinstance(section.value, dict):
            values[name] = given(fields, section.file, section.line).overlaid(section)
    return replace(written, value=values)
