"""From a reference to a spec: read, overlay `extends`, validate, freeze."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from specs.catalogue import Source, find
from specs.errors import ZooError
from specs.notation import shown
from specs.override import Overrides, overrides_written
from specs.problem import first_error
from specs.reader import read
from specs.spec import WRITTEN_BY, Spec
from specs.written import Written


def load(reference: str | os.PathLike[str], overrides: Overrides = ()) -> Spec:
    """The spec that `reference` names ("big", "specs/big.yaml", "mine.yaml"), with `overrides` over it.

    A file at that path wins; else the reference is a name of the catalogue. `overrides` are texts such as
    "training.steps=500", or a mapping with nested or dotted keys.

    Raises ZooError where there is no such spec, a file cannot be read, `extends` goes in a circle, or a value
    is wrong.
    """
    return _spec(_chain(find(os.fspath(reference))), overrides)


def parent(reference: str | os.PathLike[str]) -> Spec | None:
    """The spec that `reference` extends, or None where it extends none. Raises ZooError as `load` does."""
    chain = _chain(find(os.fspath(reference)))
    return _spec(chain[1:]) if len(chain) > 1 else None


LATER: dict[str, set[str]] = {
    "training": {
        *("max_tokens", "max_minutes", "dev_score", "patience", "clip_norm", "subword_sampling", "start_from"),
    },
    "decoding": set(Spec.model_fields["decoding"].annotation.model_fields),  # type: ignore[union-attr]
    "compilation": set(Spec.model_fields["compilation"].annotation.model_fields),  # type: ignore[union-attr]
}
"""Fields that say nothing of what a model is: what a whole spec lacks of them came after it, and is as in `base`."""

_WRITER = re.compile(rf"{re.escape(WRITTEN_BY)}(\S+)\n")


def parse(text: str, where: str) -> Spec:
    """A whole spec from its text as `Spec.yaml` writes it; `where` is how errors call the file.

    Fields of LATER that were none when it was written are those of `base`. Raises ZooError (exit code 1: nobody writes
    such a file by hand) where the text is not a whole spec, or has a field that is none.
    """
    try:
        return _validated(_completed(read(text, where)), [where])
    except ZooError as error:
        hint = "`zoo` wrote this file, with every field, and it has changed since: restore it"
        if writer := _WRITER.match(text):
            hint = f"zoo {writer[1]} wrote this file: restore it, or read it with that version"
        raise ZooError(error.problem, where=error.where, hint=hint, exit_code=1) from None


def _completed(written: Written) -> Written:
    lacking = {
        name: fields - written.value[name].value.keys()
        for name, fields in LATER.items()
        if name in written.value and isinstance(written.value[name].value, dict)
    }
    if not any(lacking.values()):
        return written
    base = read(find("base").text(), written.file).value
    later = {
        name: replace(base[name], value={key: base[name].value[key] for key in fields})
        for name, fields in lacking.items()
    }
    return Written(later, written.file).overlaid(written)


def _spec(chain: Sequence[tuple[Source, Written]], overrides: Overrides = ()) -> Spec:
    written = chain[-1][1]
    for _, upper in reversed(chain[:-1]):
        written = written.overlaid(upper)
    for upper in overrides_written(overrides):
        written = written.overlaid(upper)
    return _validated(written, [source.file for source, _ in reversed(chain)]).called(chain[0][0].short)


def _chain(source: Source) -> list[tuple[Source, Written]]:
    """The file itself, the one it extends, the one that extends, ... each without its `extends`."""
    chain: list[tuple[Source, Written]] = []
    while True:
        written = read(source.text(), source.file)
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


def _validated(written: Written, files: Sequence[str]) -> Spec:
    try:
        return Spec.model_validate(written.plain())
    except ValidationError as invalid:
        raise first_error(invalid, written, files) from None
