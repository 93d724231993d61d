"""The shape of a spec by its types: what pydantic's locations say, and what may stand at one.

Pydantic names the member of a union that it took, a word that nobody wrote: it is told here by the types alone, as a
key may be any word.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import Tag

from specs.section import Section
from specs.spec import Spec

Location = tuple[str | int, ...]


def written_at(location: Sequence[str | int]) -> Location:
    """One of pydantic's locations as people wrote it: keys and indices alone."""
    return _walked(location)[0]


def kinds(location: Sequence[str | int]) -> tuple[str, ...]:
    """The words that tell apart what may stand at one of pydantic's locations, where several kinds may."""
    return tuple(_members(_walked(location)[1]))


def fields(location: Sequence[str | int]) -> tuple[str, ...]:
    """Names of the fields of the mapping at one of pydantic's locations."""
    section = _bare(_walked(location)[1])
    return tuple(section.model_fields) if _is_section(section) else ()


def description(location: Sequence[str | int]) -> str | None:
    """What is said of the innermost field on the way to one of pydantic's locations."""
    told, before = None, Spec
    for step, kind in _steps(location):
        section = _bare(before)
        if isinstance(step, str) and _is_section(section) and step in section.model_fields:
            told = section.model_fields[step].description
        before = kind
    return told


def takes_fractions(location: Sequence[str | int]) -> bool:
    """Whether a number that is not whole may stand at a location."""
    return _has_float(_walked(location)[1])


def _has_float(kind: Any) -> bool:
    return kind is float or any(_has_float(each) for each in get_args(kind))


def _walked(location: Sequence[str | int]) -> tuple[Location, Any]:
    """The keys and indices on the way, and the type of what is there."""
    way = list(_steps(location))
    return tuple(step for step, _ in way if step is not None), way[-1][1] if way else Spec


def _steps(location: Sequence[str | int]) -> Iterator[tuple[str | int | None, Any]]:
    """Each key or index with the type of what is there; None for a word that pydantic put there by itself."""
    kind: Any = Spec
    for step in location:
        members = _members(kind)
        kind = members[str(step)] if step in members else _inside(kind, step)
        yield None if step in members else step, kind


def _inside(kind: Any, step: str | int) -> Any:
    """The type of what is at a key or an index of this type; None where nothing is."""
    kind = _bare(kind)
    if isinstance(step, int) and get_origin(kind) is tuple:
        return get_args(kind)[0]
    if isinstance(step, str) and _is_section(kind) and step in kind.model_fields:
        return kind.model_fields[step].annotation
    return None


def _members(kind: Any) -> dict[str, Any]:
    """The members of a union by the words that tell them apart: their tags, or the value of their `kind`."""
    found: dict[str, Any] = {}
    for member in get_args(_bare(kind)):
        section = _bare(member)
        tags = [each.tag for each in get_args(member)[1:] if isinstance(each, Tag)]
        if not tags and _is_section(section) and "kind" in section.model_fields:
            tags = list(get_args(section.model_fields["kind"].annotation))
        found |= dict.fromkeys(tags, member)
    return found


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)
