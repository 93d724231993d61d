"""What `clean` and `remove` have in common: what would go is shown, and whoever sits there is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.publishing.removal import RemovalPlan


def remove(found: RemovalPlan, *, yes: bool) -> None:
    """Removes it, once it is confirmed. Raises ZooError where nobody is there to be asked."""
    from cli.console import report
    from zoo.report import size

    words = report()
    for kept in found.kept:
        words.say(f"stays: {kept.path}: {kept.reason}")
    if not found.removable:
        return words.say("there is nothing to remove")
    _show(found)
    if not yes and not _confirmed():
        return words.say("nothing was removed")
    stayed = found.remove()
    for kept in stayed:
        words.say(f"stays: {kept.path}: {kept.reason}")
    return words.say(f"removed: {size(found.bytes)}" if not stayed else "removed: the rest")


def _show(found: RemovalPlan) -> None:
    from cli.console import show_table
    from zoo.report import size

    rows = [(each.kind, size(each.bytes), str(each.path)) for each in found.removable]
    show_table(("to remove", ">", "…"), [*rows, ("all", size(found.bytes), "is free then")])


def _confirmed() -> bool:
    """Asks who sits there. Raises ZooError where nobody does."""
    from specs import ZooError

    if not sys.stdin.isatty():
        raise ZooError("nothing was removed: nobody is there to be asked", hint="`--yes` removes it without asking")
    print("remove all of this? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
