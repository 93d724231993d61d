"""Runs of Word documents: the elements around text that has one style."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from specs import ZooError
from zoo.documents.fragments import Fragment, Kind
from zoo.documents.word_fields import is_part

RUN = "w:r "
"""Start of the names of runs. The name of a run ends with its style, so that runs of the same style have one name."""
_MAX_COPIED = 50_000_000
"""Maximum number of characters of the styles of runs that are split off."""
_NAME = re.compile(r"<([^\s/>]+)")


def split_runs(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Split runs at boundaries, such as tabs, and at parts of fields. Each part is written in its own run.

    Raises:
        ZooError: The styles of these runs are very long together.
    """
    run: Fragment | None = None
    copied = 0
    is_empty = False
    """Whether the start of the run is not written yet."""
    for fragment in fragments:
        if fragment.kind is Kind.OPEN and fragment.name.startswith(RUN):
            run, is_empty = fragment, True
            continue
        if run and (fragment.kind in (Kind.BREAK, Kind.LINE) or is_part(fragment)):
            copied += len(run.written)
            if copied > _MAX_COPIED:
                raise ZooError(
                    "its text has too many tabs and line breaks in long style definitions", hint="split the document"
                )
        is_end = fragment.kind is Kind.CLOSE and fragment.name.startswith(RUN)
        if run and (fragment.kind is Kind.BREAK or is_part(fragment)):
            end = f"</{match[1]}>" if (match := _NAME.match(run.written)) else ""
            if not is_empty:
                yield Fragment(Kind.CLOSE, "", name=run.name, output=end)
            raw = run.raw + fragment.raw if is_empty else fragment.raw
            yield replace(fragment, raw=raw, output=run.written + fragment.raw + end)
            run, is_empty = Fragment(Kind.OPEN, "", name=run.name, output=run.written), True
        elif run and is_empty and is_end:
            yield Fragment(Kind.UNIT, run.raw + fragment.raw, output="")
        else:
            if run and is_empty:
                yield run
            is_empty = False
            yield fragment
        if is_end:
            run = None


def join_runs(fragments: Sequence[Fragment]) -> Iterator[Fragment]:
    """Join neighbouring runs of the same style, into which Word splits text for its own purposes."""
    index = 0
    while index < len(fragments):
        fragment, following = fragments[index], index + 1
        if fragment.kind is Kind.CLOSE and fragment.name.startswith(RUN):
            while following < len(fragments) and _is_dropped(fragments[following]):
                following += 1
            next_one = fragments[following] if following < len(fragments) else fragment
            if next_one.kind is Kind.OPEN and next_one.name == fragment.name:
                raw = "".join(each.raw for each in fragments[index : following + 1])
                fragment, index = Fragment(Kind.UNIT, raw, output=""), following
        yield fragment
        index += 1


def _is_dropped(fragment: Fragment) -> bool:
    return fragment.kind is Kind.UNIT and not fragment.written and not fragment.text
