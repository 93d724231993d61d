"""From a reference to a spec: read, overlay `extends`, validate, freeze."""

import os
from collections.abc import Sequence

from pydantic import ValidationError

from specs.catalogue import Source, find
from specs.errors import ZooError
from specs.history import FIRST, FORMAT, NewerFormat, upgraded, whole_without_task, writer
from specs.notation import shown
from specs.override import Overrides, overrides_written
from specs.paths import from_their_files
from specs.problem import all_errors
from specs.reader import read
from specs.spec import Spec
from specs.written import Written


def load(reference: str | os.PathLike[str], overrides: Overrides = ()) -> Spec:
    """The spec that `reference` names ("big", "specs/big.yaml", "mine.yaml"), with `overrides` over it.

    A file at that path wins; else the reference is a name of the catalogue. `overrides` are texts such as
    "training.steps=500", or a mapping with nested or dotted keys.

    Raises ZooError where there is no such spec, a file cannot be read or is of a newer zoo, `extends` goes in a
    circle, or a value is wrong.
    """
    try:
        return _spec(_chain(find(os.fspath(reference))), overrides)
    except RecursionError:  # of values that Python gave
        problem, hint = "the values are nested too deeply", "a spec has four levels at most"
        raise ZooError(problem, where="override", hint=hint) from None


def parent(reference: str | os.PathLike[str]) -> Spec | None:
    """The spec that `reference` extends, or None where it extends none. Raises ZooError as `load` does."""
    chain = _chain(find(os.fspath(reference)))
    return _spec(chain[1:]) if len(chain) > 1 else None


def parse(text: str, where: str) -> Spec:
    """A whole spec from its text as `Spec.yaml` writes it; `where` is how errors call the file.

    What says no format is of the first. Raises NewerFormat where a newer zoo wrote it, else ZooError (exit code 1:
    nobody writes such a file by hand) where the text is not a whole spec, or has a field that is none.
    """
    try:
        return _validated(upgraded(read(text, where), unsaid=FIRST, by=writer(text)), [where])
    except NewerFormat:
        raise
    except ZooError as error:
        hint = "`zoo` wrote this file, with every field, and it has changed since: restore it"
        if by := writer(text):
            hint = f"zoo {by} wrote this file: restore it, or read it with that version"
        further = [ZooError(each.problem, where=each.where, hint=hint, exit_code=1) for each in error.further]
        raise ZooError(error.problem, where=error.where, hint=hint, exit_code=1, further=further) from None


def _spec(chain: Sequence[tuple[Source, Written]], overrides: Overrides = ()) -> Spec:
    written = chain[-1][1]
    for _, upper in reversed(chain[:-1]):
        written = written.overlaid(upper)
    over = overrides_written(overrides)
    named = len(chain) == 1 or any("name" in each.value for each in (chain[0][1], *over))
    written = _described(written, chain)
    for upper in over:
        written = written.overlaid(upper)
    own = [source for source, _ in chain[:-1] if not source.shipped]
    written = from_their_files(written, own, [each.file for each in over])
    spec = _validated(written, [source.file for source, _ in reversed(chain)], [each.file for each in over])
    return spec.called(chain[0][0].short, named=named)


def _described(written: Written, chain: Sequence[tuple[Source, Written]]) -> Written:
    """What another spec says of itself is not true of one that only extends it, nor is its licence that one's."""
    source, own = chain[0]
    if len(chain) == 1 or source.shipped:
        return written
    said = {"description": f"A model of one's own, by a spec that extends `{chain[1][0].short}`.", "licence": None}
    for key, words in said.items():
        if key not in own.value:
            written = written.overlaid(Written({key: Written(words, own.file, own.line)}, own.file))
    return written


def _chain(source: Source) -> list[tuple[Source, Written]]:
    """The file itself, the one it extends, the one that extends, ... each as of today and without its `extends`."""
    chain: list[tuple[Source, Written]] = []
    while True:
        text = source.text()
        written = read(text, source.file)
        # A file with every section and no format is one that zoo wrote before it said so.
        unsaid = FIRST if whole_without_task(written) else FORMAT
        written = upgraded(written, unsaid=unsaid, by=writer(text))
        values = dict(written.value)
        extends = values.pop("extends", None)
        chain.append((source, Written(values, written.file, written.line)))
        if extends is None:
            return chain
        if not isinstance(extends.value, str):
            problem = f"`extends` must be the name or path of a spec, not {shown(extends.plain())}"
            raise ZooError(problem, where=extends.where, hint="write `extends: base`")
        source = find(extends.value, beside=source.file, where=extends.where)
        if any(source.path == earlier.path for earlier, _ in chain):
            around = " -> ".join(each.file for each in (*(earlier for earlier, _ in chain), source))
            hint = "let one of them extend `base`"
            raise ZooError(f"`extends` goes in a circle: {around}", where=extends.where, hint=hint)


def _validated(written: Written, files: Sequence[str], overrides: Sequence[str] = ()) -> Spec:
    try:
        return Spec.model_validate(written.plain())
    except ValidationError as invalid:
        raise all_errors(invalid, written, files, overrides) from None
