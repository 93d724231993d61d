"""Seeds for independent random streams, derived from the seed in a spec."""

from __future__ import annotations

import hashlib


def stream(seed: int, *names: str | int) -> int:
    """Return the 63-bit seed for a random stream, derived from a seed and names, such as ("step", 17)."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
