"""Random damage to files."""

from __future__ import annotations

import random


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return bytes of which some are changed, removed or repeated, often near the start, and which may be cut."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 6)):
        start = draw.choice((draw.randrange(64), draw.randrange(len(data) + 1)))
        part = data[start : start + draw.choice((1, 1, 4, 64))]
        changed = (b"", draw.randbytes(len(part)), part * 2, b"\xff" * len(part))
        data[start : start + len(part)] = draw.choice(changed)
    return bytes(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.1 else data)
