"""The registries that are asked for what is not here: those of ZOO_REGISTRIES, then those of the user's list."""

from __future__ import annotations

import os

from zoo.files import places
from zoo.files.content import content, stands
from zoo.files.transfer import offline
from zoo.models.registries.registry import Registry, registry

VARIABLE = "ZOO_REGISTRIES"


def registries() -> list[Registry]:
    """In the order in which they are asked. The variable has addresses with spaces between, the list one a line.

    With ZOO_OFFLINE=1 only folders are among them. Raises ZooError where one is no address.
    """
    return [each for each in _all() if not (offline() and each.place.outside)]


def unasked() -> list[str]:
    """The addresses that ZOO_OFFLINE keeps from being asked."""
    return [each.address for each in _all() if offline() and each.place.outside]


def _all() -> list[Registry]:
    listed = places.registries()
    lines = content(listed).decode("utf-8", "replace").splitlines() if stands(listed) else []
    own = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [registry(each) for each in dict.fromkeys([*os.environ.get(VARIABLE, "").split(), *own])]
