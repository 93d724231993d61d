"""Seeds of random streams that are free of one another, all from the one seed of a spec."""

from __future__ import annotations

import hashlib


def stream(seed: int, *names: str | int) -> int:
    """The seed (63 bits) of the stream of this name, such as stream(1, "step", 17)."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
