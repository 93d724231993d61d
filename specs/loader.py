"""Load specs: find the files, merge them along `extends`, apply overrides, and validate the result."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from specs.catalogue import SpecFile, find
from specs.corpus import SPLITS, kind_of_part
from specs.corpus_paths import require_languages, resolve_folder
from specs.errors import ZooError
from specs.file_format import NewerFormatError, without_format, writer_version
from specs.notation import quote
from specs.reader import LocatedValue, locate, read, read_value
from specs.section import Section
from specs.spec import Spec
from specs.validation import accepts_fractions, validate

Overrides = Sequence[str] | Mapping[str, object]

_MAX_DOTS = 8
_SCIENTIFIC = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_KEYS_OF_FILES = {
    "extends": "load the spec that you want to extend, and override its fields",
    "format": "omit `format`: overrides are always in the current format",
}
"""Keys of a file that are not fields of a spec, each with the hint for an override of this key."""


def load(reference: str | os.PathLike[str], overrides: Overrides = ()) -> Spec:
    """Load a spec by its path or name, and apply overrides.

    Args:
        reference: A path ("specs/big.yaml", "mine.yaml") or the name of a shipped spec ("big"). If both exist, the
            path is used.
        overrides: Strings such as "training.steps=500", or a mapping with nested or dotted keys.

    Returns:
        The validated spec.

    Raises:
        ZooError: There is no such spec, a file is unreadable or was written by a newer version of zoo, `extends` is
            circular, or a value is invalid.
    """
    try:
        return _merged(_chain(reference), overrides)
    except RecursionError:  # only an override from Python can be nested so deeply
        problem, hint = "the values are nested too deeply", "use at most four levels, as the shipped specs do"
        raise ZooError(problem, where="override", hint=hint) from None


def where_written(reference: str | os.PathLike[str], overrides: Overrides, path: str) -> str | None:
    """Return the file and line, or the override, in which the user wrote the path of a corpus file.

    Args:
        reference: The spec's path or name.
        overrides: The overrides that the spec was loaded with.
        path: The path of the corpus file, exactly as in the loaded spec.

    Returns:
        File and line ("mine.yaml:4") or override. None if no field of the corpus has this value.
    """
    chain = _chain(reference)
    spec, merged = _merged(chain, overrides), _merge(chain, _located_overrides(overrides))
    codes = spec.languages.codes if spec.languages else ()
    for written in (part for split in SPLITS for part in merged.at(["corpus", split]).value):
        if kind := kind_of_part(written.value):
            parts = kind.model_validate(written.plain()).expanded(spec.corpus, codes)
            if any(path in part.local_paths for part in parts):
                fields: list[LocatedValue] = [written.at([field]) for field in kind.path_fields]
                return next((field for field in fields if field.value == path), fields[0]).where
    return None


def parent(reference: str | os.PathLike[str]) -> Spec | None:
    """Return the spec that `reference` extends, or None if it extends no spec. Raise ZooError as `load` does."""
    chain = _chain(reference)
    return _merged(chain[1:]) if len(chain) > 1 else None


def parse(text: str, where: str) -> Spec:
    """Parse a complete spec that was written by `Spec.yaml`.

    Args:
        text: The spec. Without a `format` key, it is read in the current format.
        where: The file that contains the text, for error messages.

    Raises:
        NewerFormatError: A newer version of zoo wrote the text.
        ZooError: The text is damaged. The exit code is 1, because zoo wrote the file, so this is not a user error.
    """
    version = writer_version(text)
    try:
        return validate(Spec, without_format(read(text, where), version), [where])
    except NewerFormatError:
        raise
    except ZooError as error:
        hint = "zoo wrote this file: if it was changed or damaged later, restore the original file"
        if version:
            hint += f"; if this is a different version of zoo than {version}, install zoo {version}"
        additional = [ZooError(each.problem, where=each.where, hint=hint, exit_code=1) for each in error.additional]
        raise ZooError(error.problem, where=error.where, hint=hint, exit_code=1, additional=additional) from None


def _chain(reference: str | os.PathLike[str]) -> list[tuple[SpecFile, LocatedValue]]:
    """Return the file of a spec and all files that it extends, directly or indirectly, each with its values.

    The values do not contain the keys `extends` and `format`.
    """
    chain, source = list[tuple[SpecFile, LocatedValue]](), find(os.fspath(reference))
    while True:
        text = source.text()
        located = without_format(read(text, source.file), writer_version(text))
        values = dict(located.value)
        extends = values.pop("extends", None)
        chain.append((source, replace(located, value=values)))
        if extends is None:
            return chain
        if not isinstance(extends.value, str):
            problem = f"`extends` must be the name or path of a spec, not {quote(extends.plain())}"
            raise ZooError(problem, where=extends.where, hint="write `extends: base`")
        source = find(extends.value, referrer=source.file, where=extends.where)
        if any(source.path == earlier.path for earlier, _ in chain):
            circle = " -> ".join(file.file for file in (*(earlier for earlier, _ in chain), source))
            hint = "write `extends: base` in one of these files"
            raise ZooError(f"`extends` is circular: {circle}", where=extends.where, hint=hint)


def _merge(chain: Sequence[tuple[SpecFile, LocatedValue]], overrides: Sequence[LocatedValue]) -> LocatedValue:
    """Merge the values in a chain of spec files with overrides, and resolve `corpus.folder`."""
    layers = [values for _, values in reversed(chain)]
    source, own = chain[0]
    if len(chain) > 1 and not source.is_shipped:
        # The description and licence of the extended spec do not apply to a user's spec.
        inherited = {"description": f"A user's model that extends `{chain[1][0].short_name}`.", "licence": None}
        layers.insert(-1, locate(inherited, own.file, own.line))
    merged = reduce(LocatedValue.overlaid, [*layers, *overrides])
    user_files = {file.file for file, _ in chain[:-1] if not file.is_shipped}
    return resolve_folder(merged, user_files, [values.file for values in overrides])


def _merged(chain: Sequence[tuple[SpecFile, LocatedValue]], overrides: Overrides = ()) -> Spec:
    override_values = _located_overrides(overrides)
    merged = _merge(chain, override_values)
    spec = validate(Spec, merged, [file.file for file, _ in reversed(chain)], [each.file for each in override_values])
    all_overrides = reduce(LocatedValue.overlaid, override_values, LocatedValue({}, "override"))
    has_own_name = len(chain) == 1 or any("name" in values.value for values in (chain[0][1], all_overrides))
    require_languages([*(values for _, values in reversed(chain)), all_overrides], spec.corpus)
    return spec.with_short_name(chain[0][0].short_name, has_own_name=has_own_name)


def _located_overrides(overrides: Overrides) -> list[LocatedValue]:
    """Convert each override to a nested mapping, in order. Raise ZooError for a string that is not KEY=VALUE."""
    if isinstance(overrides, Mapping):
        return [_nested(key, locate(_plain(value), f"override: `{key}`")) for key, value in _flat(overrides)]
    return [_parse_override(text) for text in ([overrides] if isinstance(overrides, str) else overrides)]


def _parse_override(text: str) -> LocatedValue:
    key, equals, value = str(text).partition("=")
    if not equals or not key.strip():
        hint = "write KEY=VALUE, for example `training.steps=500`"
        raise ZooError(f"{quote(text)} does not set a field", where="command line", hint=hint)
    name = key.strip()
    return _nested(name, _with_floats(read_value(value, f"command line: {quote(text)}"), name.split(".")))


def _with_floats(value: LocatedValue, path: Sequence[str]) -> LocatedValue:
    """Convert text such as `1e-3` to a number if the field is a float.

    This is for overrides only. In spec files, `1.0e-3` is required, because YAML 1.1 parsers read `1e-3` as text, but
    YAML 1.2 parsers read it as a number.
    """
    if isinstance(value.value, dict):
        inner = {key: _with_floats(item, (*path, key)) for key, item in value.value.items()}
        return replace(value, value=inner)
    if isinstance(value.value, str) and _SCIENTIFIC.fullmatch(value.value) and accepts_fractions(path):
        return replace(value, value=float(value.value))
    return value


def _nested(key: str, value: LocatedValue) -> LocatedValue:
    if (first := key.partition(".")[0]) in _KEYS_OF_FILES:
        raise ZooError(f"`{first}` cannot be overridden", where=value.where, hint=_KEYS_OF_FILES[first])
    if key.count(".") > _MAX_DOTS:
        hint = "write the path of a field with dots, for example `architecture.N.encoder`"
        raise ZooError(f"{quote(key)} is not a field of this spec", where=value.where, hint=hint)
    for step in reversed(key.split(".")):
        value = LocatedValue({step: value}, value.file)
    return value


def _flat(overrides: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _plain(value: Any) -> Any:
    """Convert NumPy and torch values to plain Python values, and spec sections in lists to dictionaries."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner.model_dump() if isinstance(inner, Section) else inner) for inner in value]
    return value.tolist() if hasattr(value, "tolist") else value
