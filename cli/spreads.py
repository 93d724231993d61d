"""How a measurement's medians and extremes are shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.system.clock import Spread


def plain(measured: Any) -> dict[str, object]:
    """A dataclass of figures as JSON wants it: a spread is an object, too."""
    spreads = {name: value._asdict() for name, value in vars(measured).items() if hasattr(value, "_asdict")}
    return {**asdict(measured), **spreads}


def columns(spread: Spread, factor: float = 1.0) -> tuple[str, str]:
    """Median, and least to greatest."""
    median, least, most = (f"{factor * value:,.2f}" for value in spread)
    return median, f"{least} to {most}"
