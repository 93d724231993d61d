"""Numbers for people: few digits, and powers of ten as the paper's tables have them."""

from __future__ import annotations

import re

from zoo.report import figure


def written(value: float) -> str:
    """Four digits at most: "37,000", "0.98", "3.283e18"."""
    return power(value, 4) if value and not 1e-3 <= abs(value) < 1e7 else figure(value)


def power(value: float, digits: int = 3) -> str:
    """With a power of ten: "3.28e18"."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def slug(words: str) -> str:
    """Words as a part of a key: "gnmt-rl-ensemble"."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower().replace("&", "and")).strip("-")
