"""Table 4: English constituency parsing, F1 on section 23 of the Wall Street Journal (section 6.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zoo.paper.claims import Claim, Printed, holds, scored, slug


@dataclass(frozen=True)
class ParserRow:
    """Row of Table 4 as printed.

    Attributes:
        name: Name of the parser.
        how: Training setting, such as "WSJ only".
        f1: F1 on section 23, as printed.
        spec: Short name of the spec of the paper's own parser. None for other parsers.
    """

    name: str
    how: str
    f1: str
    spec: str | None = None

    @property
    def key(self) -> str:
        """Name of the parser and its training setting, as in the key of the row's claim."""
        return slug(f"{self.name} {self.how}")


_WSJ, _SEMI, _MULTI, _GENERATIVE = "WSJ only", "semi-supervised", "multi-task", "generative"
ROWS = (
    ParserRow("Vinyals & Kaiser et al. 2014", _WSJ, "88.3"),
    ParserRow("Petrov et al. 2006", _WSJ, "90.4"),
    ParserRow("Zhu et al. 2013", _WSJ, "90.4"),
    ParserRow("Dyer et al. 2016", _WSJ, "91.7"),
    ParserRow("Transformer, 4 layers", _WSJ, "91.3", "parsing/wsj"),
    ParserRow("Zhu et al. 2013", _SEMI, "91.3"),
    ParserRow("Huang & Harper 2009", _SEMI, "91.3"),
    ParserRow("McClosky et al. 2006", _SEMI, "92.1"),
    ParserRow("Vinyals & Kaiser et al. 2014", _SEMI, "92.1"),
    ParserRow("Transformer, 4 layers", _SEMI, "92.7", "parsing/wsj-semi"),
    ParserRow("Luong et al. 2015", _MULTI, "93.0"),
    ParserRow("Dyer et al. 2016", _GENERATIVE, "93.3"),
)


def claims() -> Iterator[Claim]:
    """Yield the claims of Table 4 and of section 6.3."""
    for row in ROWS:
        says = f"{row.name}, {row.how}: F1"
        yield Claim(f"table4.{row.key}", "Table 4", says, scored("test", "f1"), (Printed(row.f1),), "F1", row.spec)
    berkeley = "trained only on the WSJ, it outperforms the Berkeley parser (Petrov et al.)"
    yield Claim("table4.berkeley", "6.3", berkeley, holds(_berkeley))
    best = "it is better than all earlier models except the recurrent neural network grammar (Dyer et al.)"
    yield Claim("table4.best", "6.3", best, holds(_best))


def _berkeley() -> tuple[bool, str]:
    ours, theirs = _ours(_WSJ), next(float(row.f1) for row in ROWS if row.name.startswith("Petrov"))
    return ours > theirs, f"printed: {ours} and {theirs}"


def _best() -> tuple[bool, str]:
    ours = max(_ours(_WSJ), _ours(_SEMI))
    above = [row for row in ROWS if row.spec is None and float(row.f1) >= ours and not row.name.startswith("Dyer")]
    better = ", ".join(f"{row.name} ({row.how}) with {row.f1}" for row in above)
    return not above, f"printed: {ours}; {f'better: {better}' if above else 'no other is better'}"


def _ours(how: str) -> float:
    return next(float(row.f1) for row in ROWS if row.spec is not None and row.how == how)
