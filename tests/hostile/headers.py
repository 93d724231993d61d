"""Headers of safetensors files that promise what is not there, or too much of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any


def forged(draw: Random, file: Path, *, facts: bool = True) -> str:
    """Writes another header into a file, and says which; of its `facts` only where it has any."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:end])
    way = draw.choice((_length, _text, _tensor, _tensor, _tensor, _more, *([_facts] if facts else [])))
    written, length = way(draw, header)
    if length is None:
        length = len(written)
    file.write_bytes((length % 2**64).to_bytes(8, "little") + written + content[end:])
    if draw.random() < 0.05:
        os.truncate(file, 8 + draw.choice((0, 1, len(written) // 2)))
    return f"{file.name}: {way.__name__}, {length} bytes, {written[:200]!r}"


def _length(draw: Random, header: dict[str, Any]) -> tuple[bytes, int | None]:
    """Of a header that goes beyond the file, or the memory."""
    written = json.dumps(header).encode()
    wrong = (0, 1, -1, 2**63, 2**63 - 1, 2**40, 2**32, 10**8 + 1, len(written) - 1, len(written) + 1, 10**6)
    return written, draw.choice(wrong)


def _text(draw: Random, header: dict[str, Any]) -> tuple[bytes, int | None]:
    """Of a header that is no JSON, or too deep."""
    deep = draw.choice((200, 10_000, 1_000_000))
    some = (b"[" * deep, b'{"a":' * deep, b"{}", b"[]", b"null", b"\xff\xfe", b"{", b" " * 5_000_000, b"\x80\x04K\x01.")
    good = json.dumps(header).encode()
    return draw.choice((*some, b"<" + good, good + b" " * 10_000_000)), None


def _tensor(draw: Random, header: dict[str, Any]) -> tuple[bytes, int | None]:
    """Of one tensor: other types, shapes and places."""
    name = draw.choice(sorted(each for each in header if each != "__metadata__"))
    tensor = header[name]
    start, stop = tensor["data_offsets"]
    wrong = {
        "data_offsets": (
            *([start, stop + 4], [start, 2**63], [-4, stop], [stop, start], [start], "x", [2**64, 2**64 + 4], [0, 0]),
            *([start + 4, stop], [start, stop, stop]),
        ),
        "shape": (
            [2**62, 2**62],
            [-1],
            [2**31, 2**31, 2**2],
            [0],
            [1.5],
            "x",
            [*tensor["shape"], 2],
            [2**64],
            [1] * 200,
        ),
        "dtype": ("F128", "I64X", "", None, 5, "U8", "BOOL", "F64"),
    }
    key = draw.choice(sorted(wrong))
    tensor[key] = draw.choice(wrong[key])
    if draw.random() < 0.1:
        del tensor[key]
    return json.dumps(header).encode(), None


def _more(draw: Random, header: dict[str, Any]) -> tuple[bytes, int | None]:
    """Of tensors that nobody asked for, under names that are ways out."""
    last = max(tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
    names = ("../../../secret", "/etc/passwd", "", "\x00", "\x1b[2J", "x" * 100_000, "__import__", "encoder.99.x")
    several = [draw.choice(names)] if draw.random() < 0.7 else [f"x{number}" for number in range(20_000)]
    for name in several:
        header[name] = {"dtype": "F32", "shape": [0], "data_offsets": [last, last]}
    return json.dumps(header).encode(), None


def _facts(draw: Random, header: dict[str, Any]) -> tuple[bytes, int | None]:
    """Of metadata that is none."""
    nested = "[" * 100_000 + "]" * 100_000
    wrong = (
        "x",
        [],
        {"zoo": 5},
        {"zoo": nested},
        {"zoo": "["},
        {"zoo": "[1]"},
        {"zoo": '{"a": 1e999}x'},
        {"zoo": None},
    )
    header["__metadata__"] = draw.choice(wrong)
    header.pop(draw.choice(sorted(each for each in header if each != "__metadata__")))
    return json.dumps(header).encode(), None
