"""Seeds of independent random streams, all derived from the one seed of a spec."""

from __future__ import annotations

import hashlib


def stream(seed: int, *names: str | int) -> int:
    """Return the 63-bit seed of the random stream with this name, such as the names "step", 17."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
