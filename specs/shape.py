"""The shape of a spec by its types: what pydantic's locations say, and what may stand at one.

Pydantic names the member of a union that it took, a word that nobody wrote: it is told here by the types alone, as a
key may be any word.
"""

from collections.abc import Sequence
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


def _walked(location: Sequence[str | int]) -> tuple[Location, Any]:
    """The keys and indices on the way, and the type of what is there."""
    steps: list[str | int] = []
    kind: Any = Spec
    for step in location:
        members = _members(kind)
        if step in members:
            kind = members[str(step)]
        else:
            steps.append(step)
            kind = _inside(kind, step)
    return tuple(steps), kind


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
