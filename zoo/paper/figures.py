"""Figures 3 to 5: what single heads of the encoder's fifth layer of six attend to."""

from __future__ import annotations

from collections.abc import Iterator

from zoo.paper.checks import drawn
from zoo.paper.claim import Claim

_SHOWN = {
    3: "heads attend to a distant dependency of a verb: making ... more difficult",
    4: "two heads seem to resolve an anaphora: their weights of `its` are very sharp",
    5: "heads have learned tasks that seem to follow the structure of the sentence",
}


def claims() -> Iterator[Claim]:
    for number, says in _SHOWN.items():
        yield Claim(f"figures.{number}", f"Figure {number}", says, drawn(number), spec="base")
